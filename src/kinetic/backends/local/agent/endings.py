"""From how a process went away to the record that says so."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinetic.quantities import format_bytes
from kinetic.records import Ending, Facts
from kinetic.runner.attempt import INTERRUPTED, UNRECORDED

if TYPE_CHECKING:
    from kinetic.backends.local.messages import Request


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended; `code` is None where nobody saw."""

    code: int | None
    signalled: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """Why we ended a job ourselves."""

    ending: Ending
    message: str
    phase: str = ""


CANCELLED = Stop(Ending.CANCELLED, "the job was cancelled")
RESTARTED = Stop(Ending.LOST, "the machine restarted while the job was running")
VANISHED = Stop(
    Ending.LOST, "the job's process vanished without a record, and nobody saw how it ended"
)


def timed_out(request: Request) -> Stop:
    """The job ran into its `timeout=`."""
    return Stop(Ending.TIMED_OUT, f"the job ran longer than timeout={request.timeout:g} seconds")


def out_of_memory(request: Request, used: int | None = None) -> Stop:
    """The job ran into its `memory=`."""
    limit = format_bytes(request.memory or 0)
    had = f"used {format_bytes(used)}" if used else "ran out of memory"
    return Stop(Ending.OUT_OF_MEMORY, f"the job {had}; it was given memory={limit}")


def explain(exited: Exit) -> tuple[Ending, Facts]:
    """The ending of a process that nobody stopped and that left no record."""
    if exited.code is None:
        return VANISHED.ending, Facts(VANISHED.message)
    if exited.signalled or exited.code == INTERRUPTED:
        return Ending.KILLED, Facts(_killed_by(exited.code - (128 if not exited.signalled else 0)))
    if exited.code == UNRECORDED:
        return Ending.LOST, Facts("the job ended, but its result could not be stored")
    message = f"the job's process exited with code {exited.code} before the function returned"
    return Ending.EXITED, Facts(message, exit_code=exited.code)


def _killed_by(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "unknown"
    message = f"the job was killed by signal {number} ({name})"
    if number == signal.SIGKILL:
        return f"{message}: if you did not send it, the machine was probably out of memory"
    return message
