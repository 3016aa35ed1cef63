"""Who runs an attempt: claims that only one process can make, and that cost no file of their own.

All names in `run/` are hard links to one empty file. A process first publishes who it is, as a
name that begins with the attempt's uid; then it makes the name `uid` itself, which succeeds once.
So a claim without a claimant was made by an agent to keep late processes out: it is void.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinetic.backends.local import processes
from kinetic.backends.local.processes import ProcessId

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "token"  # noqa: S105  # what all claims are links to
_NOTE = "exit"


@dataclass(frozen=True, slots=True)
class Claimant:
    """The process that runs an attempt."""

    process: ProcessId
    at: float  # when it claimed, on the clock that all processes of one boot share
    parent: int  # the fork server that will note how it exited

    def may_be_noted(self) -> bool:
        """Whether the fork server that saw it exit may yet say how."""
        return processes.is_fork_server(self.parent)


def claim(path: str) -> bool:
    """Claim the attempt for this process; False if someone else has."""
    runs, _, _ = path.rpartition("/")
    me = ProcessId.current()
    named = f"{path}.{me.pid}.{me.started}.{time.monotonic_ns()}.{os.getppid()}"
    os.link(f"{runs}/{TOKEN}", named)
    if _take(path):
        return True
    os.unlink(named)  # noqa: PTH108  # strings, not objects: every job comes here after its fork
    return False


def void(path: str) -> bool:
    """Claim the attempt for nobody, so that a late process cannot; False if one was faster."""
    return _take(path) or claimant(path) is None


def claimant(path: str) -> Claimant | None:
    """Who claimed the attempt; None while nobody has, or where it was declared void."""
    if not os.path.lexists(path):
        return None
    found = [known for name in _names(path) if (known := _parsed(name))]
    living = [known for known in found if known.process.is_alive()]
    return next(iter(living or found), None)


def claimed_by(pid: int, runs: str) -> str | None:
    """The uid of the attempt that a process has claimed, whoever forked it."""
    for name in os.listdir(runs):  # noqa: PTH208
        known = _parsed(name)
        if known and known.process.pid == pid:
            return name.partition(".")[0]
    return None


def forget(path: str) -> None:
    """Remove the claim, its claimant and any note; what cannot be removed now is swept later."""
    runs, _, uid = path.rpartition("/")
    with suppress(OSError):
        for name in [*_names(path), uid]:
            with suppress(FileNotFoundError):
                os.unlink(f"{runs}/{name}")  # noqa: PTH108


def note_path(path: str) -> str:
    """Where a fork server whose agent is gone notes how the attempt exited."""
    return f"{path}.{_NOTE}"


def _take(path: str) -> bool:
    runs, _, _ = path.rpartition("/")
    try:
        os.link(f"{runs}/{TOKEN}", path)
    except FileExistsError:
        return False
    return True


def _names(path: str) -> Iterator[str]:
    runs, _, uid = path.rpartition("/")
    return (name for name in os.listdir(runs) if name.startswith(f"{uid}."))  # noqa: PTH208


def _parsed(name: str) -> Claimant | None:
    parts = name.split(".")
    if len(parts) != 5:  # noqa: PLR2004  # uid, pid, start, time, parent
        return None
    _, pid, started, at, parent = parts
    return Claimant(ProcessId(int(pid), started), int(at) / 1e9, int(parent))
