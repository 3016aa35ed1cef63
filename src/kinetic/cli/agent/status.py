"""`kinetic agent status`."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from kinetic import __version__, settings
from kinetic.backends.local.connection import LostContact, channel
from kinetic.backends.local.home import Home
from kinetic.cli import ages, output, report, terminal
from kinetic.errors import BackendUnavailable

_PATIENCE = 10.0  # seconds; it answers in milliseconds
_FACTS = ("pid", "version", "uptime", "slots", "gpus")
_STATUSES = ("RUNNING", "PENDING", "SUCCEEDED", "FAILED")


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def command(as_json: bool) -> int:
    """Say whether the agent runs, and what it does; starts nothing.

    The exit code is 0 where it runs and 3 where it does not.

    \b
    Examples:
      kinetic agent status
      kinetic agent status --json | jq .pid
    """
    home = Home(settings.home_directory())
    facts = status(home)
    if as_json:
        output.as_json(facts)
    else:
        print("\n".join(_lines(facts)))
    return 0 if facts["running"] else report.NOT_RUNNING


def status(home: Home) -> dict[str, Any]:
    """What there is to know; the same keys whether it runs or not."""
    told = _info(home)
    counts = told.get("jobs") if told else None
    return {
        "running": told is not None,
        **{name: (told or {}).get(name) for name in _FACTS},
        "jobs": None if counts is None else {name: counts.get(name, 0) for name in _STATUSES},
        "home": str(home.root),
        "socket": str(home.socket),
    }


def _info(home: Home) -> dict[str, Any] | None:
    """What the agent says of itself; an agent of another version says little."""
    try:
        with channel(home, start=False) as conversation:
            conversation.send({"op": "info"})
            return conversation.receive(time.monotonic() + _PATIENCE)
    except LostContact:
        return None
    except TimeoutError:
        raise BackendUnavailable(
            f"the agent of {home.root} does not answer",
            hint="`kinetic agent logs` shows what it logged last",
        ) from None


def _lines(facts: dict[str, Any]) -> list[str]:
    if not facts["running"]:
        return ["not running; it starts with the first job", f"home    {facts['home']}"]
    if facts["pid"] is None:
        state = f"running, kinetic {facts['version']}; this one is {__version__}"
        return [state, f"home    {facts['home']}"]
    state = terminal.painted("running", "green", sys.stdout)
    jobs = ", ".join(f"{count} {name}" for name, count in facts["jobs"].items() if count)
    up, gpus = ages.brief(facts["uptime"]), facts["gpus"]
    return [
        f"{state}, pid {facts['pid']}, kinetic {facts['version']}, up {up}",
        f"jobs    {jobs or 'none'}",
        f"slots   {facts['slots']}"
        + (f", and {gpus} GPU{'s' if gpus > 1 else ''}" if gpus else ""),
        f"home    {facts['home']}",
        f"socket  {facts['socket']}",
    ]
