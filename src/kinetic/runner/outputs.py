"""The job's output directory: there before the function is called, gone if it was never used.

A directory that stays empty goes back to the workspace it came from, so that a thousand jobs that
write nothing make one directory and not a thousand.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from kinetic import layout

if TYPE_CHECKING:
    from kinetic.spec import Assignment


def make(directory: str, assignment: Assignment) -> None:
    """Make the directory, if it is one of this machine."""
    if not directory.startswith("/"):
        return
    if _is_default(directory, assignment):
        with suppress(OSError):  # no spare one, or a directory that an earlier attempt filled
            os.rename(_spare(assignment), directory)  # noqa: PTH104
            return
    os.makedirs(directory, 0o700, exist_ok=True)  # noqa: PTH103


def take_back(directory: str, assignment: Assignment) -> None:
    """Keep an unused default directory for the next job here."""
    if _is_default(directory, assignment):
        with suppress(OSError):
            if not os.listdir(directory):  # noqa: PTH208
                os.rename(directory, _spare(assignment))  # noqa: PTH104


def _is_default(directory: str, assignment: Assignment) -> bool:
    return f"{directory}/".endswith(layout.outputs(assignment.job_id))


def _spare(assignment: Assignment) -> str:
    return f"{assignment.workspace}/outputs"
