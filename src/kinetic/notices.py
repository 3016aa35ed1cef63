"""The few lines Kinetic says to a person on stderr without being asked, each once a process."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

_said: set[str] = set()
_QUIET_LEVELS = {"WARNING", "ERROR", "CRITICAL"}


def say_once(text: str) -> None:
    """Tell the user something they should know but need not act on."""
    if text not in _said:
        _said.add(text)
        say(text)


def say(text: str) -> None:
    """Tell the user something now, unless KINETIC_LOG_LEVEL asks for quiet."""
    if os.environ.get("KINETIC_LOG_LEVEL", "INFO").upper() not in _QUIET_LEVELS:
        _print(f"kinetic: {text}")


def ways_back(job_id: str) -> str:
    """What can be done about a job that nobody waits for any more."""
    return (
        f"`kinetic jobs logs -f {job_id}` follows it, `kinetic jobs result {job_id}` collects it, "
        f"`kinetic jobs cancel {job_id}` ends it"
    )


def stopped_waiting(job_id: str) -> str:
    """What to say to someone who presses Ctrl-C."""
    return f"you stopped waiting; the job goes on. {ways_back(job_id)}"


def warn(text: str) -> None:
    """Tell the user something they probably did not mean, even when quiet."""
    _print(f"kinetic: warning: {text}")


def _print(line: str) -> None:
    if sys.stderr is not None:  # closed by whoever started us
        with suppress(OSError, ValueError):
            print(line, file=sys.stderr, flush=True)
