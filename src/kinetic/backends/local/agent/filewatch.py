"""Be told when a log grows: inotify on Linux, kqueue on macOS and the BSDs."""

from __future__ import annotations

import os
import select
import struct
import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_MODIFY = 0x2  # IN_MODIFY
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)


class FileWatch(Protocol):
    """Calls back whenever a watched file grows."""

    def add(self, path: str, grew: Callable[[], None]) -> None:
        """Call `grew` after each write to `path`, which exists."""
        ...

    def remove(self, path: str) -> None:
        """Stop watching `path`."""
        ...


def open_watch(loop: asyncio.AbstractEventLoop) -> FileWatch:
    """The watch of this platform."""
    return _Inotify(loop) if sys.platform.startswith("linux") else _Kqueue(loop)


class _Inotify:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        import ctypes

        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(_NONBLOCK_CLOEXEC)
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._numbers: dict[str, int] = {}
        loop.add_reader(self._fd, self._read)

    def add(self, path: str, grew: Callable[[], None]) -> None:
        number = self._libc.inotify_add_watch(self._fd, os.fsencode(path), _MODIFY)
        if number >= 0:
            self._numbers[path] = number
            self._callbacks[number] = grew

    def remove(self, path: str) -> None:
        number = self._numbers.pop(path, None)
        if number is not None:
            self._callbacks.pop(number, None)
            self._libc.inotify_rm_watch(self._fd, number)

    def _read(self) -> None:
        data, position, grown = os.read(self._fd, 65536), 0, set()
        while position < len(data):
            number, _, _, length = struct.unpack_from("iIII", data, position)
            position += 16 + length
            grown.add(number)
        for number in grown:
            if callback := self._callbacks.get(number):
                callback()


class _Kqueue:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._queue = select.kqueue()  # type: ignore[attr-defined,unused-ignore]
        self._files: dict[str, int] = {}
        self._callbacks: dict[int, Callable[[], None]] = {}
        loop.add_reader(self._queue.fileno(), self._read)

    def add(self, path: str, grew: Callable[[], None]) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._files[path], self._callbacks[fd] = fd, grew
        self._queue.control([self._event(fd)], 0)

    def remove(self, path: str) -> None:
        fd = self._files.pop(path, None)
        if fd is not None:
            del self._callbacks[fd]
            os.close(fd)

    def _event(self, fd: int) -> object:
        return select.kevent(  # type: ignore[attr-defined,unused-ignore]
            fd,
            filter=select.KQ_FILTER_VNODE,  # type: ignore[attr-defined,unused-ignore]
            flags=select.KQ_EV_ADD | select.KQ_EV_CLEAR,  # type: ignore[attr-defined,unused-ignore]
            fflags=select.KQ_NOTE_WRITE | select.KQ_NOTE_EXTEND,  # type: ignore[attr-defined,unused-ignore]
        )

    def _read(self) -> None:
        for event in self._queue.control(None, 64, 0):
            if callback := self._callbacks.get(event.ident):
                callback()
