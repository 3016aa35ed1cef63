"""What depends on whether a person is looking: width and colour."""

from __future__ import annotations

import os
import sys
from typing import TextIO

_CODES = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36}
_OF_STATUS = {"PENDING": "yellow", "RUNNING": "blue", "SUCCEEDED": "green", "FAILED": "red"}


def width() -> int | None:
    """How many columns a line may have; None where nobody looks."""
    if not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def takes_colour(stream: TextIO) -> bool:
    """Whether colour helps there; NO_COLOR says that it does not."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, colour: str, stream: TextIO) -> str:
    """`text` in a colour, if `stream` takes any."""
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if takes_colour(stream) else text


def painted_status(status: str, text: str) -> str:
    """`text` in the colour of a job's status, on stdout."""
    colour = _OF_STATUS.get(status)
    return painted(text, colour, sys.stdout) if colour else text
