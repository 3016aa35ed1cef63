"""Workspaces that are known to be untouched, so that jobs need not look.

Before a job starts, its workspace's directories are watched. If the job ends and nothing happened
in them, then its own look found them as captured (else it would have unpacked, which is something)
and it left them so: the next job there may skip the look. Linux only; elsewhere every job looks.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# IN_MODIFY, IN_ATTRIB, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE, the last two of _self
_CHANGES = 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
_OVERFLOW = 0x4000
_MOST_DIRECTORIES = 500  # watches are a limited good; a larger tree is looked at instead


class Spaces:
    """What has happened in which workspace."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._fd = -1
        self._names: dict[int, str] = {}  # of watches
        self._watched: dict[str, list[int]] = {}  # by workspace
        self._caches: set[int] = set()  # watches of directories that bytecode is written to
        self._verified: set[str] = set()
        if sys.platform.startswith("linux"):
            import ctypes

            self._libc = ctypes.CDLL(None, use_errno=True)
            self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    def is_untouched(self, name: str) -> bool:
        """Whether a job that starts in this workspace now may skip its look."""
        self._drain()
        return name in self._verified

    def rested(self, name: str) -> None:
        """A job has ended in this workspace, and the next one has not begun."""
        self._drain()
        if name in self._watched:
            self._verified.add(name)
        elif self._fd >= 0:
            self._watch(name)

    def _watch(self, name: str) -> None:
        tree = self._root / name / "tree"
        directories = [directory for directory, _, _ in os.walk(tree)]
        if not 0 < len(directories) <= _MOST_DIRECTORIES:
            return
        self._watched[name] = []
        for directory in directories:
            watch = self._libc.inotify_add_watch(self._fd, os.fsencode(directory), _CHANGES)
            if watch < 0:  # out of watches, or the directory has just gone
                self._forget(name)
                return
            self._watched[name].append(watch)
            self._names[watch] = name
            if directory.endswith("/__pycache__"):
                self._caches.add(watch)

    def _forget(self, name: str) -> None:
        self._verified.discard(name)
        for watch in self._watched.pop(name, ()):
            self._names.pop(watch, None)
            self._caches.discard(watch)
            self._libc.inotify_rm_watch(self._fd, watch)

    def _drain(self) -> None:
        """Hear everything that happened up to now."""
        while self._fd >= 0:
            try:
                data = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                return
            position = 0
            while position < len(data):
                watch, mask, _, length = struct.unpack_from("iIII", data, position)
                file = data[position + 16 : position + 16 + length].rstrip(b"\0")
                position += 16 + length
                if mask & _OVERFLOW:
                    for name in list(self._watched):
                        self._forget(name)
                elif watch in self._names and not (watch in self._caches and b".pyc" in file):
                    self._forget(self._names[watch])
