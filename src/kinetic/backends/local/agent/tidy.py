"""Keep a home small: what no job will want again goes."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from kinetic.backends.local.home import Home

_KEPT_WORKSPACES = 16  # the most recent ones, whatever their age
_KEPT_FOR = 30 * 86400.0  # seconds a note about a source tree is kept unread


def prune(home: Home, in_use: set[str]) -> None:
    """Remove old workspaces and old notes; in the background, for trees can be large."""
    spaces = sorted(home.workspaces.iterdir(), key=_age)
    unused = [str(path) for path in spaces[_KEPT_WORKSPACES:] if path.name not in in_use]
    trash = [str(path) for space in spaces for path in space.glob("trash-*")]
    if unused or trash:
        # Through a shell that leaves at once, so that nobody has to wait for the rest.
        subprocess.run(["sh", "-c", 'rm -rf -- "$@" &', "sh", *unused, *trash], check=False)
    notes = home.root / "cache" / "sources"
    for note in notes.iterdir() if notes.is_dir() else ():
        if _age(note) > _KEPT_FOR:
            note.unlink(missing_ok=True)


def _age(path: Path) -> float:
    with suppress(OSError):
        return time.time() - path.stat().st_mtime
    return 0.0
