"""The local backend: the Backend protocol, spoken to this user's agent."""

from __future__ import annotations

import functools
import hashlib
import math
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinetic import layout, logs
from kinetic.backends.base import ListedJob, LogBytes, StatusChanged
from kinetic.backends.local.connection import (
    LostContact,
    Patience,
    ask,
    channel,
    retire_other_version,
    with_own_package,
)
from kinetic.backends.local.home import Home
from kinetic.backends.local.messages import Request
from kinetic.capture import environment
from kinetic.errors import BackendError, OptionError
from kinetic.job_status import JobStatus

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterator, Mapping

    from kinetic.accelerators import Accelerator
    from kinetic.backends.base import Event, Submission
    from kinetic.options import JobOptions
    from kinetic.settings import Settings
    from kinetic.stores.local import LocalStore

# What an interpreter reads only when it starts: jobs that differ here cannot share a fork server.
_STARTUP = (
    "KINETIC_HOME",
    "PATH",
    "HOME",
    "LANG",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "VIRTUAL_ENV",
)


def from_settings(settings: Settings) -> LocalBackend:
    """The backend of `settings.home`, made usable if it is not yet."""
    return _of(Home(settings.home))


def from_handle(handle: Mapping[str, Any]) -> LocalBackend:
    """The backend of the home that a handle names."""
    home = Path(handle["cluster_name"])
    if not home.is_absolute():
        raise OptionError(f"this handle names no home of the local backend: `{home}`")
    return _of(Home(home))


@functools.cache  # a connection that finds no agent prepares its home again
def _of(home: Home) -> LocalBackend:
    home.prepare()
    return LocalBackend(home)


class LocalBackend:
    """Jobs as processes of this machine, in the hands of the agent."""

    name = "local"

    def __init__(self, home: Home) -> None:
        self._home = home
        self._store = home.store

    @property
    def store(self) -> LocalStore:
        return self._store

    @property
    def signing_key(self) -> bytes:
        return self._home.signing_key()

    def check(self, options: JobOptions) -> None:
        if options.debug:
            raise BackendError("the local backend cannot run debug=True in this version")
        if options.container_image not in (None, "bundled"):
            raise BackendError(
                f"the local backend cannot run container_image={options.container_image!r}",
                hint="leave it out: local jobs run in your own interpreter and its packages",
            )

    def handle_fields(self) -> Mapping[str, str]:
        return {
            "project": "",
            "cluster_name": str(self._home.root),
            "zone": "",
            "namespace": "",
            "bucket_name": self._store.url,
        }

    def output_dir(self, job_id: str) -> str:
        return str(self._store.path(layout.outputs(job_id).rstrip("/")))

    def submit(self, job: Submission) -> str | None:
        request = self._request(job)
        answer = ask(self._home, {"op": "submit", "job": request.to_message()})
        return _shortfall(job.handle["accelerator"], job.accelerator, answer["gpus"])

    def status(self, job_id: str) -> JobStatus:
        request = {"op": "status", "job_id": job_id, "waiter": os.environ.get("KINETIC_JOB_ID")}
        return JobStatus(ask(self._home, request)["status"])

    def watch(
        self, job_id: str, *, log: bool = False, deadline: float | None = None
    ) -> Iterator[Event]:
        printed = logs.StoredLog(self._store, job_id)
        seen: JobStatus | None = None
        request = {
            "op": "watch",
            "job_id": job_id,
            "log": log,
            "waiter": os.environ.get("KINETIC_JOB_ID"),
        }
        patience = Patience(self._home)
        while True:
            with patience, channel(self._home) as conversation:
                conversation.send(request)
                while True:
                    message = conversation.receive(deadline)
                    patience.reset()
                    if "protocol" in message:
                        retire_other_version(self._home, message)
                        break
                    if log:
                        yield from map(LogBytes, printed.read_on())
                    status = JobStatus(message["status"]) if "status" in message else seen
                    if status and status is not seen:
                        seen = status
                        yield StatusChanged(status)
                    if status and status.is_terminal:
                        return

    def log(self, job_id: str) -> Iterator[bytes]:
        return logs.StoredLog(self._store, job_id).read_on()

    def tail(self, job_id: str, lines: int) -> bytes:
        return logs.tail(self._store, job_id, lines)

    def delete(self, job_id: str, timeout: float, *, end: bool = True) -> None:
        request = {"op": "remove", "job_id": job_id, "end": end}
        ask(self._home, request, time.monotonic() + timeout)

    def list(self) -> builtins.list[ListedJob]:
        patience = Patience(self._home)
        while True:
            with patience:
                return self._listed()

    def _listed(self) -> builtins.list[ListedJob]:
        found = []
        with channel(self._home) as conversation:
            conversation.send({"op": "list"})
            while "end" not in (message := conversation.receive()):
                if "protocol" in message:
                    retire_other_version(self._home, message)
                    raise LostContact
                found += [ListedJob(j["handle"], JobStatus(j["status"])) for j in message["jobs"]]
        return found

    def _request(self, job: Submission) -> Request:
        spec, resources = job.spec, job.spec.resources
        baseline = environment.baseline(os.environ)
        ours = {
            "KINETIC_HOME": str(self._home.root),
            "KINETIC_JOB_ID": spec.job_id,
            "KINETIC_OUTPUT_DIR": spec.output_dir,
        }
        import resource  # not there on Windows, which was told so before

        return Request(
            job_id=spec.job_id,
            spec_digest=hashlib.sha256(job.spec_text).hexdigest(),
            source_digest=spec.source.digest,
            interpreter=sys.executable,
            startup=_startup(baseline),
            env={**baseline, **job.captured_env, **ours},
            handle=dict(job.handle),
            spec=job.spec_text.decode(),
            umask=_umask(),
            open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            slots=max(1, math.ceil(resources.cpu or 1)),
            gpus=job.accelerator.count,
            memory=resources.memory,
            timeout=resources.timeout,
        )


def _umask() -> int:
    """This process's umask. Asking for it means setting it, except where /proc tells."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Umask:")).split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _startup(baseline: Mapping[str, str]) -> dict[str, str]:
    """What a fork server for this client's interpreter is started with."""
    env = {n: v for n, v in baseline.items() if n in _STARTUP or n.startswith(("PYTHON", "LC_"))}
    return with_own_package(env)


def _shortfall(name: str, asked: Accelerator, gpus: int) -> str | None:
    """What to say where this machine has not got what the job asked for."""
    if asked.kind == "cpu" or (asked.kind == "gpu" and gpus >= asked.count):
        return None
    given = min(asked.count, gpus)
    instead = f"{given} GPU{'s' if given > 1 else ''}" if given else "the CPU"
    return f"`{name}` is not on this machine: jobs run on {instead} instead"
