"""`kinetic agent logs`."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING, BinaryIO

import click

from kinetic import settings
from kinetic.backends.local.home import Home
from kinetic.cli import output
from kinetic.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PIECE = 1 << 16
_LOOK_EVERY = 0.2  # seconds


@click.command("logs")
@click.option("-f", "--follow", is_flag=True, help="Go on until Ctrl-C.")
@click.option("-n", "--tail", type=click.IntRange(min=0), metavar="N", help="The last N lines.")
def command(follow: bool, tail: int | None) -> None:
    """Print what the agent has logged.

    \b
    Examples:
      kinetic agent logs -n 20
      kinetic agent logs -f
    """
    path = Home(settings.home_directory()).agent_log
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        raise BackendUnavailable(
            f"there is no log at {path}: no agent has run here yet",
            hint="it starts with the first job; KINETIC_HOME says which agent is meant",
        ) from None
    with stream:
        if tail is not None:
            output.show(deque(stream, tail))
        output.show(_pieces(stream))
        if follow:
            output.leave_when_unread()
            output.show(_growth(path, stream))


def _growth(path: Path, stream: BinaryIO) -> Iterator[bytes]:
    """What is added to the file, and to the one that a starting agent may put in its place."""
    while True:
        replaced = _is_replaced(path, stream)
        yield from _pieces(stream)
        if replaced:
            with path.open("rb") as successor:
                yield from _growth(path, successor)
        time.sleep(_LOOK_EVERY)


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(_PIECE):
        yield piece


def _is_replaced(path: Path, stream: BinaryIO) -> bool:
    try:
        return not os.path.samestat(path.stat(), os.fstat(stream.fileno()))
    except FileNotFoundError:  # between the two
        return False
