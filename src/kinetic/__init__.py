"""Kinetic: run a Python function as a durable job, on this machine or somewhere bigger.

Names load on first touch, so that `import kinetic` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

TYPE_CHECKING = False  # what type checkers take for true; `typing` itself costs too much here

if TYPE_CHECKING:
    from kinetic import debug as debug
    from kinetic import errors as errors
    from kinetic.errors import KineticError as KineticError
    from kinetic.function import RemoteFunction as RemoteFunction
    from kinetic.function import run as run
    from kinetic.job_status import JobStatus as JobStatus
    from kinetic.jobs import JobHandle as JobHandle
    from kinetic.jobs import attach as attach
    from kinetic.jobs import list_jobs as list_jobs

_HOMES = {
    "JobHandle": "kinetic.jobs",
    "JobStatus": "kinetic.job_status",
    "KineticError": "kinetic.errors",
    "RemoteFunction": "kinetic.function",
    "attach": "kinetic.jobs",
    "list_jobs": "kinetic.jobs",
    "run": "kinetic.function",
}
_MODULES = ("debug", "errors", "job_status", "jobs")

__all__ = [*sorted(_HOMES), "__version__"]  # noqa: PLE0604  # a test keeps it honest


def __getattr__(name: str) -> object:
    if name in _HOMES:
        value: object = getattr(import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = import_module(f"kinetic.{name}")
    else:
        raise AttributeError(f"module 'kinetic' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
