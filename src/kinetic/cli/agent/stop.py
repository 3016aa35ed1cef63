"""`kinetic agent stop`."""

from __future__ import annotations

import time

import click

from kinetic import settings
from kinetic.backends.local.connection import LostContact, channel
from kinetic.backends.local.home import Home
from kinetic.errors import BackendUnavailable

_PATIENCE = 30.0  # seconds


@click.command("stop")
def command() -> None:
    """Stop the agent, and return when it has gone.

    Running jobs go on, and queued ones wait; whatever asks for a job next starts it again.

    \b
    Examples:
      kinetic agent stop
    """
    home = Home(settings.home_directory())
    pid = _stopped(home)
    if pid is None:
        print(f"no agent runs for {home.root}")
    else:
        print(
            f"stopped the agent (pid {pid}); running jobs go on, and queued ones wait"
            " until a command or a script asks for a job again"
        )


def _stopped(home: Home) -> int | None:
    """The process that was there and has gone."""
    pid: int | None = None
    deadline = time.monotonic() + _PATIENCE
    try:
        with channel(home, start=False) as conversation:
            conversation.send({"op": "stop"})
            while True:
                pid = conversation.receive(deadline).get("stopping", pid)
    except LostContact:
        return pid
    except TimeoutError:
        raise BackendUnavailable(
            f"the agent of {home.root} did not stop within {_PATIENCE:g} seconds",
            hint="`kinetic agent logs` shows what it logged last",
        ) from None
