"""From a call to a submitted job: choose, capture, store, hand over."""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinetic import backends, layout, notices, settings
from kinetic.backends.base import Submission
from kinetic.capture import environment, source
from kinetic.capture.function import pickle_arguments, pickle_function
from kinetic.errors import StoreError
from kinetic.jobs import JobContext, JobHandle
from kinetic.spec import JobSpec, Payload, Resources

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinetic.backends.base import Backend
    from kinetic.options import JobOptions
    from kinetic.settings import Settings
    from kinetic.stores.base import Store

_NAME_LIMIT = 24  # keeps a whole job id, with suffixes, within Kubernetes' 63 characters
_ID_TRIES = 20


@dataclass(frozen=True, slots=True)
class Call:
    """A function and what it is called with."""

    function: Callable[..., Any]
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def submit(call: Call, options: JobOptions) -> JobHandle[Any]:
    """Run `call` as a job; it is durable once this returns."""
    resolved = settings.resolve(
        project=options.project,
        zone=options.zone,
        cluster=options.cluster,
        namespace=options.namespace,
        backend=options.backend,
    )
    backend = backends.open_backend(_backend_name(resolved, options), resolved)
    backend.check(options)
    captured = environment.captured(options.capture_env_vars)
    spec, text = _stored_spec(call, options, backend, resolved, tuple(sorted(captured)))
    handle = _handle(spec, call, options, backend)
    fields = handle.to_dict()
    # The backend makes the job durable; these two it can make again.
    backend.store.put(layout.handle(spec.job_id), json.dumps(fields).encode(), durable=False)
    remark = backend.submit(Submission(spec, text, fields, options.accelerator, captured))
    for line in (options.accelerator.note, remark):
        if line:
            notices.say_once(line)
    return handle


def _backend_name(resolved: Settings, options: JobOptions) -> str:
    if resolved.backend:
        return resolved.backend
    if resolved.project:
        return "pathways" if options.accelerator.hosts > 1 else "gke"
    if "KINETIC_JOB_ID" not in os.environ:  # a job that submits jobs need not hear it again
        notices.say_once(
            "no cluster is configured, so jobs run on this machine; `kinetic init` connects one"
        )
    return "local"


def _stored_spec(
    call: Call,
    options: JobOptions,
    backend: Backend,
    resolved: Settings,
    env_names: tuple[str, ...],
) -> tuple[JobSpec, bytes]:
    """Capture everything, store it, and settle on an id that nobody else has."""
    store = backend.store
    function = _stored(pickle_function(call.function, call.name), store)
    arguments = _stored(pickle_arguments(call.args, call.kwargs), store)
    tree = source.capture(call.function, store, resolved.home)
    for _ in range(_ID_TRIES):
        job_id = new_job_id(options.accelerator.slug, call.name)
        spec = JobSpec(
            job_id=job_id,
            function=function,
            arguments=arguments,
            source=tree,
            resources=Resources(
                accelerator=options.accelerator.canonical,
                cpu=options.cpu,
                memory=options.memory,
                timeout=options.timeout,
                spot=options.accelerator.spot,
            ),
            python=f"{sys.version_info.major}.{sys.version_info.minor}",
            env_names=env_names,
            output_dir=_output_dir(options, backend, job_id),
        )
        text = spec.to_json()
        if store.put_if_absent(layout.spec(job_id), text, durable=False):
            return spec, text
    raise StoreError(f"could not find a free job id in {store.url}")


def _stored(data: bytes, store: Store) -> Payload:
    payload = Payload.of(data)
    if payload.inline is None and not store.exists(layout.blob(payload.digest)):
        store.put(layout.blob(payload.digest), data)
    return payload


def _output_dir(options: JobOptions, backend: Backend, job_id: str) -> str:
    chosen = options.output_dir
    if chosen is None and "KINETIC_JOB_ID" not in os.environ:  # inside a job it is that job's own
        chosen = os.environ.get("KINETIC_OUTPUT_DIR")
    if not chosen:
        return backend.output_dir(job_id)
    return chosen if "://" in chosen else str(Path(chosen).expanduser().absolute())


def _handle(spec: JobSpec, call: Call, options: JobOptions, backend: Backend) -> JobHandle[Any]:
    fields = dict(backend.handle_fields())
    context = JobContext(
        job_id=spec.job_id,
        project=fields["project"],
        cluster_name=fields["cluster_name"],
        zone=fields["zone"],
        bucket_name=fields["bucket_name"],
        image_uri="",
        accelerator=options.accelerator_name,
        func_name=call.name,
        display_name=f"{call.name} on {options.accelerator_name}",
        debug=options.debug,
    )
    return JobHandle.from_job_context(context, backend.name, fields["namespace"], spec.job_id)


def new_job_id(accelerator: str, function: str) -> str:
    """An id that reads well and is a valid Kubernetes name, whatever the function is called."""
    plain = unicodedata.normalize("NFKD", function).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "-", plain)[:_NAME_LIMIT].strip("-") or "job"
    now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return f"{accelerator}-{name}-{now}-{os.urandom(4).hex()[:7]}"
