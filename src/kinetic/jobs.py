"""Handles: durable descriptions of jobs, and everything one can ask of them."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from kinetic import backends, layout, outcome, printing, records, settings
from kinetic.backends.base import LogBytes
from kinetic.errors import (
    JobError,
    JobNotFound,
    KineticError,
    ObjectNotFound,
    OptionError,
    RemoteError,
    ResultTimeout,
)
from kinetic.job_status import JobStatus

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Generator

    from kinetic.backends.base import Backend
    from kinetic.records import Record

__all__ = ["JobContext", "JobHandle", "JobStatus", "attach", "list_jobs", "listed_jobs", "tidy_up"]

R = TypeVar("R")
_log = logging.getLogger(__name__)
_DELIVERY = 60.0  # seconds that an event loop may take to wake up whoever awaits a handle
_JOB_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,126}[a-z0-9])?")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class JobContext:
    """What is known of a job when it is about to be submitted."""

    job_id: str
    project: str
    cluster_name: str
    zone: str
    bucket_name: str
    image_uri: str
    accelerator: str
    func_name: str
    display_name: str
    created_at: str = field(default_factory=_now)
    group_id: str | None = None
    group_kind: str | None = None
    group_index: int | None = None
    debug: bool = False


@dataclass(frozen=True, repr=False)
class JobHandle(Generic[R]):
    """Durable description of a submitted job: plain data that any machine can reattach with."""

    job_id: str
    backend: str
    project: str
    cluster_name: str
    zone: str
    namespace: str
    bucket_name: str
    k8s_name: str
    image_uri: str
    accelerator: str
    func_name: str
    display_name: str
    created_at: str
    group_id: str | None = None
    group_kind: str | None = None
    group_index: int | None = None
    debug: bool = False

    def __repr__(self) -> str:
        return f"<JobHandle {self.job_id} on {self.backend}>"

    @classmethod
    def from_job_context(
        cls, ctx: JobContext, backend_name: str, namespace: str, k8s_name: str
    ) -> JobHandle[R]:
        """Build a handle from what is known at submit."""
        known = {f.name: getattr(ctx, f.name) for f in fields(ctx)}
        return cls(backend=backend_name, namespace=namespace, k8s_name=k8s_name, **known)

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> JobHandle[R]:
        """Read a handle back; keys that a later version added are ignored."""
        try:
            return cls(**{key: value for key, value in d.items() if key in _FIELDS})
        except (TypeError, AttributeError) as error:
            raise OptionError(f"this is not a job handle: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """The handle as JSON-safe data, without what is None."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def status(self) -> JobStatus:
        """How the backend sees the job now."""
        return self._backend().status(self.job_id)

    def logs(self, follow: bool = False) -> str | None:
        """What the job has printed; with `follow`, print it as it comes until the job ends."""
        backend = self._backend()
        if not follow:
            return b"".join(backend.log(self.job_id)).decode(errors="replace")
        write = printing.log_writer()
        for event in backend.watch(self.job_id, log=True):
            if isinstance(event, LogBytes):
                write(event.data)
        return None

    def tail(self, n: int = 100) -> str:
        """The last `n` lines the job has printed."""
        return self._backend().tail(self.job_id, n).decode(errors="replace")

    def debug_attach(
        self, local_port: int = 5678, working_dir: str | None = None
    ) -> subprocess.Popen[bytes]:
        """Connect `local_port` to the job's debugger."""
        del local_port, working_dir  # for jobs that have a debugger, which this version has not
        raise JobError(
            f"`{self.job_id}` was not submitted with debug=True, so it has no debugger",
            job_id=self.job_id,
        )

    def result(
        self,
        timeout: float | None = None,
        cleanup: bool | None = None,
        cleanup_timeout: float = 180,
        cleanup_poll_interval: float = 2,
        stream_logs: bool | None = None,
        on_status_change: Callable[[JobStatus], None] | None = None,
    ) -> R:
        """Wait for the job; return what it returned, or raise what it raised.

        Args:
            timeout: seconds to wait; then `TimeoutError`, and the job goes on.
            cleanup: whether to delete the job and its artifacts once its outcome is here. By
                default only after a success, and never for a debug job.
            cleanup_timeout: seconds to wait for the deletion.
            cleanup_poll_interval: seconds between looks at it, where the backend cannot tell us.
            stream_logs: whether to print what the job prints while waiting.
            on_status_change: called with each new status; what it raises is logged.
        """
        del cleanup_poll_interval  # every backend there is tells us
        backend = self._backend()
        deadline = None if timeout is None else time.monotonic() + timeout
        record = self._outcome(backend, deadline, bool(stream_logs), on_status_change)
        value, error = outcome.open_record(record, backend, shown=bool(stream_logs))
        wanted = (error is None and not self.debug) if cleanup is None else cleanup
        if wanted:
            self._tidy_up(backend, cleanup_timeout)
        if error is not None:
            raise error
        return cast("R", value)

    def __await__(self) -> Generator[Any, None, R]:
        """`await handle` is `handle.result()` without blocking the event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()

        delivered = threading.Event()

        def settle(value: R | None, error: BaseException | None) -> None:
            if future.done():
                return  # whoever waited was cancelled; the result stays where it is
            if error is None:
                future.set_result(cast("R", value))
                delivered.set()
            elif isinstance(error, StopIteration):  # which no future takes
                future.set_exception(RemoteError(f"StopIteration: {error}", job_id=self.job_id))
            else:
                future.set_exception(error)

        def wait() -> None:
            try:
                answer: tuple[R | None, BaseException | None] = self.result(cleanup=False), None
            except BaseException as error:  # noqa: BLE001  # it is raised where it is awaited
                answer = None, error
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle, *answer)
                if answer[1] is None and not self.debug and delivered.wait(_DELIVERY):
                    self._tidy_up(self._backend(), _DELIVERY)

        # A daemon: a program that stopped waiting must be able to end.
        threading.Thread(target=wait, name=f"await-{self.job_id}", daemon=True).start()
        return future.__await__()

    def cancel(self, cleanup_timeout: float = 180, cleanup_poll_interval: float = 2) -> None:
        """End the job and everything it started; what is stored of it is kept."""
        del cleanup_poll_interval
        self._cleanup(self._backend(), k8s=True, gcs=False, timeout=cleanup_timeout)

    def cleanup(
        self,
        k8s: bool = True,
        gcs: bool = True,
        cleanup_timeout: float = 180,
        cleanup_poll_interval: float = 2,
    ) -> None:
        """Delete the backend's resource and/or what is stored of the job, outputs excepted."""
        del cleanup_poll_interval
        self._cleanup(self._backend(), k8s=k8s, gcs=gcs, timeout=cleanup_timeout)

    def _backend(self) -> Backend:
        return backends.open_for_handle(self.to_dict())

    def _cleanup(self, backend: Backend, *, k8s: bool, gcs: bool, timeout: float) -> None:
        if k8s:
            try:
                backend.delete(self.job_id, timeout)
            except TimeoutError:
                raise ResultTimeout(
                    f"`{self.job_id}` was not gone after {timeout:g} seconds",
                    job_id=self.job_id,
                    hint="it is being ended; look again with `kinetic jobs status`",
                ) from None
        if gcs:
            backend.store.delete(layout.job(self.job_id))

    def _tidy_up(self, backend: Backend, timeout: float) -> None:
        """Forget a job whose outcome is here; what goes wrong now must not cost the outcome."""
        try:
            # Not ended: it may still be joining its threads and running its exit handlers.
            backend.delete(self.job_id, timeout, end=False)
            backend.store.delete(layout.job(self.job_id))
        except (KineticError, OSError) as error:
            _log.warning("could not clean up `%s`: %s", self.job_id, error)

    def _outcome(
        self,
        backend: Backend,
        deadline: float | None,
        stream: bool,
        on_status_change: Callable[[JobStatus], None] | None,
    ) -> Record:
        """The job's final record: from the store if it is there, else once the job is over."""
        record = records.find_final(backend.store, self.job_id, backend.signing_key)
        if record is not None and not stream:
            _notify(on_status_change, _status_of(record))
            return record
        status = self._wait(backend, deadline, stream, on_status_change)
        record = records.find_final(backend.store, self.job_id, backend.signing_key)
        if record is None:
            raise outcome.missing(self.job_id, status, backend.store.url)
        return record

    def _wait(
        self,
        backend: Backend,
        deadline: float | None,
        stream: bool,
        on_status_change: Callable[[JobStatus], None] | None,
    ) -> JobStatus:
        write = printing.log_writer()
        status = JobStatus.NOT_FOUND
        try:
            for event in backend.watch(self.job_id, log=stream, deadline=deadline):
                if isinstance(event, LogBytes):
                    write(event.data)
                else:
                    status = event.status
                    _notify(on_status_change, status)
        except TimeoutError:
            raise ResultTimeout(
                f"`{self.job_id}` is not over yet; it goes on",
                job_id=self.job_id,
                hint="call `result()` again, `tail()` to look, or `cancel()` to end it",
            ) from None
        return status


_FIELDS = frozenset(f.name for f in fields(JobHandle))


def tidy_up(handle: JobHandle[Any], timeout: float = 180) -> None:
    """What `result()` does once it has the value, for those who had to take it in two steps."""
    handle._tidy_up(handle._backend(), timeout)


def _status_of(record: Record) -> JobStatus:
    return JobStatus.SUCCEEDED if record.is_success else JobStatus.FAILED


def _notify(callback: Callable[[JobStatus], None] | None, status: JobStatus) -> None:
    if callback is None:
        return
    try:
        callback(status)
    except Exception:  # noqa: BLE001  # the callback is the user's
        _log.exception("on_status_change raised; the wait goes on")


def attach(job_id: str, project: str | None = None, cluster: str | None = None) -> JobHandle[Any]:
    """The handle of a job that was submitted before, here or on another machine."""
    backend = _configured_backend(project=project, cluster=cluster)
    if not _JOB_ID.fullmatch(str(job_id)):
        raise OptionError(
            f"`{job_id}` is not a job id", hint="job ids are listed by `kinetic jobs list`"
        )
    # A stored handle says what the job is; where it lives is said by our own settings alone.
    ours = {**backend.handle_fields(), "job_id": job_id}
    return JobHandle.from_dict({**_stored_handle(job_id, backend), **ours})


def _stored_handle(job_id: str, backend: Backend) -> dict[str, Any]:
    """The handle as the store has it or, where that was cleaned up, as the backend has it."""
    try:
        stored: dict[str, Any] = json.loads(backend.store.get(layout.handle(job_id)))
        return stored
    except ValueError as error:
        raise OptionError(f"the stored handle of `{job_id}` is damaged: {error}") from error
    except ObjectNotFound:
        for listed in backend.list():
            if listed.handle.get("job_id") == job_id:
                return dict(listed.handle)
    raise JobNotFound(
        f"there is no job `{job_id}` in {backend.store.url}",
        job_id=job_id,
        hint="it may be cleaned up; `kinetic jobs list` shows what there is",
    )


def list_jobs(
    project: str | None = None,
    zone: str | None = None,
    cluster: str | None = None,
    namespace: str | None = None,
) -> list[JobHandle[Any]]:
    """The jobs that the backend knows, newest first."""
    found = listed_jobs(project=project, zone=zone, cluster=cluster, namespace=namespace)
    return [handle for handle, _ in found]


def listed_jobs(**where: str | None) -> list[tuple[JobHandle[Any], JobStatus]]:
    """Like `list_jobs`, with the status that came along with each."""
    backend = _configured_backend(**where)
    ours = backend.handle_fields()
    found: list[tuple[JobHandle[Any], JobStatus]] = []
    for listed in backend.list():
        try:
            found.append((JobHandle.from_dict({**listed.handle, **ours}), listed.status))
        except OptionError as error:
            _log.warning("skipped a job whose handle cannot be read: %s", error)
    return found


def _configured_backend(**where: str | None) -> Backend:
    resolved = settings.resolve(**where)
    name = resolved.backend or ("gke" if resolved.project else "local")
    return backends.open_backend(name, resolved)
