"""From a record to what the caller gets: the value, or the exception to raise."""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING, Any

from kinetic import errors, layout
from kinetic.job_status import JobStatus
from kinetic.records import Ending

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinetic.backends.base import Backend
    from kinetic.errors import JobError
    from kinetic.records import Record

_LOG_LINES = 20
_HINTS = {
    Ending.OUT_OF_MEMORY: "raise memory=, or make the job use less",
    Ending.TIMED_OUT: "raise timeout=, or checkpoint to KINETIC_OUTPUT_DIR and go on from there",
}
_PLAIN = {
    Ending.KILLED: errors.JobKilled,
    Ending.OUT_OF_MEMORY: errors.JobOutOfMemory,
    Ending.TIMED_OUT: errors.JobTimedOut,
    Ending.CANCELLED: errors.JobCancelled,
    Ending.LOST: errors.JobLost,
    Ending.UNPICKLABLE_RESULT: errors.ResultNotPicklable,
}


def open_record(
    record: Record, backend: Backend, *, shown: bool
) -> tuple[Any, BaseException | None]:
    """(value, None) of a success, (None, error) of anything else.

    An error carries the job's last lines, unless they were `shown` already.
    """
    if record.is_success:
        return _unpickled(record), None
    error = _error(record)
    if record.facts.traceback:
        error.add_note(f"{errors.TRACEBACK_NOTE}\n{record.facts.traceback.rstrip()}")
    lines = "" if shown else _last_lines(record, backend)
    if lines:
        error.add_note(f"{errors.LOG_NOTE}{record.job_id}:\n{lines}")
    if shown:
        error.add_note(f"`kinetic jobs logs {record.job_id}` shows all that the job printed")
    return None, error


def missing(job_id: str, status: JobStatus, store_url: str) -> JobError:
    """The error for a job that is over and has left no record."""
    where = f"{store_url}/{layout.attempts(job_id)}"
    told = {
        JobStatus.SUCCEEDED: "finished, but its result is gone: nothing is stored",
        JobStatus.FAILED: "failed without leaving a result",
        JobStatus.NOT_FOUND: "is not found: it was collected or cleaned up. No result is",
    }
    return errors.ResultMissing(
        f"`{job_id}` {told[status]} at {where}",
        job_id=job_id,
        hint="`result(cleanup=False)` keeps a result; `kinetic jobs list` shows the jobs there are",
    )


def _error(record: Record) -> BaseException:
    facts, job_id, ending = record.facts, record.job_id, record.ending
    if ending is Ending.RAISED:
        return _raised(record)
    if ending is Ending.SETUP_FAILED:
        message = (
            f"`{job_id}` failed before the function was called ({facts.phase}): {facts.message}"
        )
        return errors.SetupFailed(message, job_id=job_id, phase=facts.phase)
    if ending is Ending.EXITED:
        message = f"`{job_id}`: {facts.message}"
        return errors.JobExited(message, job_id=job_id, code=facts.exit_code or 0)
    kind: Callable[..., JobError] = _PLAIN[ending]
    return kind(f"`{job_id}`: {facts.message}", job_id=job_id, hint=_HINTS.get(ending))


def _raised(record: Record) -> BaseException:
    """The user's own exception, or, where it cannot come back, one that tells all about it."""
    facts = record.facts
    if record.body:
        try:
            error = pickle.loads(record.body)
        except Exception as reason:  # noqa: BLE001  # unpickling runs the user's own code
            told = f"{facts.type_name}: {facts.message}"
            return errors.RemoteError(
                f"{told} (it could not be rebuilt here: {reason})", job_id=record.job_id
            )
        if isinstance(error, Exception):
            return error
    # KeyboardInterrupt and its like would end the caller, who did nothing.
    return errors.RemoteError(f"{facts.type_name}: {facts.message}", job_id=record.job_id)


def _unpickled(record: Record) -> Any:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        return pickle.loads(record.body)
    except Exception as error:
        skew = f"; the job ran Python {record.facts.python}, this is {here}"
        raise errors.JobError(
            f"`{record.job_id}` returned, but its result cannot be read here: {error}"
            + (skew if here != record.facts.python else ""),
            job_id=record.job_id,
            hint="collect it where the job's own modules can be imported; it is still stored",
        ) from error


def _last_lines(record: Record, backend: Backend) -> str:
    text = backend.tail(record.job_id, _LOG_LINES + record.facts.traceback.count("\n"))
    told = text.decode(errors="replace").rstrip()
    shown = record.facts.traceback.rstrip() or f"kinetic: {record.facts.message}"
    told = told.removesuffix(shown).rstrip()
    return "\n".join(told.splitlines()[-_LOG_LINES:])
