"""Every error Kinetic raises.

KineticError
├── OptionError (ValueError)          an option, name or setting that cannot be right
├── NotDecoratable (TypeError)        an object that cannot become a job
├── NotPicklable (TypeError)          a function or argument that cannot travel
├── StoreError (RuntimeError)         the store could not be read or written
│   └── ObjectNotFound (FileNotFoundError)
├── BackendError (RuntimeError)       the backend could not do what was asked
│   └── BackendUnavailable            it could not be reached or started at all
└── JobError (RuntimeError)           about one job; carries `job_id`
    ├── JobNotFound (LookupError)     nothing is known under that id
    ├── ResultTimeout (TimeoutError)  `result(timeout=)` passed; the job goes on
    ├── ResultMissing                 the job is over, but no result is stored
    └── JobFailed                     the job ended without a value
        ├── SetupFailed               before the function was called; carries `phase`
        ├── RemoteError               it raised something that could not come back
        ├── ResultNotPicklable        it returned something that could not come back
        ├── JobExited                 sys.exit() or os._exit()
        ├── JobKilled                 a signal from outside
        ├── JobOutOfMemory            it used more than `memory=`
        ├── JobTimedOut               it ran longer than `timeout=`
        ├── JobCancelled              someone cancelled it
        └── JobLost                   its machine restarted or its process vanished
"""

from __future__ import annotations

# How the notes begin that a job's error comes with, whatever its type.
TRACEBACK_NOTE = "Remote traceback:"
LOG_NOTE = "Last log lines of "


class KineticError(Exception):
    """The root of every error that Kinetic raises; `hint` says what to do next."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = str(self.args[0]) if self.args else ""
        return f"{message}\nHint: {self.hint}" if self.hint else message


class OptionError(KineticError, ValueError):
    """An option, a name or a setting cannot be right."""


class NotDecoratable(KineticError, TypeError):
    """The decorated object cannot become a job."""


class NotPicklable(KineticError, TypeError):
    """A function or an argument cannot travel to a job."""


class StoreError(KineticError, RuntimeError):
    """The store could not be read or written."""


class ObjectNotFound(StoreError, FileNotFoundError):
    """The store holds no object under that key."""


class BackendError(KineticError, RuntimeError):
    """The backend could not do what was asked."""


class BackendUnavailable(BackendError):
    """The backend could not be reached or started."""


class JobError(KineticError, RuntimeError):
    """Something about one job; `job_id` says which."""

    def __init__(self, message: str, *, job_id: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.job_id = job_id


class JobNotFound(JobError, LookupError):
    """Nothing is known under that job id."""


class ResultTimeout(JobError, TimeoutError):
    """The wait for a result passed its timeout; the job goes on."""


class ResultMissing(JobError):
    """The job is over, but no result of it is stored."""


class JobFailed(JobError):
    """The job ended without a value."""


class SetupFailed(JobFailed):
    """The job failed before the function was called; `phase` says in which step."""

    def __init__(
        self, message: str, *, job_id: str = "", phase: str = "", hint: str | None = None
    ) -> None:
        super().__init__(message, job_id=job_id, hint=hint)
        self.phase = phase


class RemoteError(JobFailed):
    """The function raised an exception that could not come back as itself."""


class ResultNotPicklable(JobFailed):
    """The function returned a value that could not come back."""


class JobExited(JobFailed):
    """The job's process exited by itself; `code` is its exit code."""

    def __init__(
        self, message: str, *, job_id: str = "", code: int = 0, hint: str | None = None
    ) -> None:
        super().__init__(message, job_id=job_id, hint=hint)
        self.code = code


class JobKilled(JobFailed):
    """A signal from outside ended the job."""


class JobOutOfMemory(JobFailed):
    """The job used more memory than it was given."""


class JobTimedOut(JobFailed):
    """The job ran longer than its `timeout=`."""


class JobCancelled(JobFailed):
    """Someone cancelled the job."""


class JobLost(JobFailed):
    """The job's machine restarted, or its process vanished without a trace."""
