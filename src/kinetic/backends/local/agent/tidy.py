"""Keep a home small: what no job will want again goes."""

from __future__ import annotations

import os
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
    """Remove old workspaces, old notes, and what an earlier agent did not come to remove."""
    _remove(*(str(path) for path in home.store.root.glob(".trash-*")))
    spaces = sorted(home.workspaces.iterdir(), key=_age)
    unused = [str(path) for path in spaces[_KEPT_WORKSPACES:] if path.name not in in_use]
    trash = [str(path) for space in spaces for path in space.glob("trash-*")]
    _remove(*unused, *trash)
    notes = home.root / "cache" / "sources"
    for note in notes.iterdir() if notes.is_dir() else ():
        if _age(note) > _KEPT_FOR:
            note.unlink(missing_ok=True)


def sweep(home: Home) -> None:
    """Remove what was deleted from the store; called when nothing else is to be done."""
    trash = home.store.trash
    if trash.is_dir() and any(trash.iterdir()):
        aside = trash.with_name(f"{trash.name}-{os.urandom(4).hex()}")
        trash.rename(aside)
        _remove(str(aside))


def _remove(*paths: str) -> None:
    """In the background, through a shell that leaves at once: nobody waits for the rest."""
    if paths:
        subprocess.run(["sh", "-c", 'rm -rf -- "$@" &', "sh", *paths], check=False)


def _age(path: Path) -> float:
    with suppress(OSError):
        return time.time() - path.stat().st_mtime
    return 0.0
