"""What a job printed, as it lies in the store: bytes, in chunks, never all in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinetic import layout
from kinetic.errors import ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinetic.stores.base import Store

_PIECE = 1 << 18


class StoredLog:
    """One job's log; chunks that are still growing are read as far as they go."""

    def __init__(self, store: Store, job_id: str) -> None:
        self._store = store
        self._prefix = layout.logs(job_id)
        self._key: str | None = None
        self._offset = 0

    def read_on(self) -> Iterator[bytes]:
        """What was printed since the last call."""
        for key, _ in self._store.list(self._prefix):
            if self._key is not None and key < self._key:
                continue
            if key != self._key:
                self._key, self._offset = key, 0
            while piece := self._read(key):
                self._offset += len(piece)
                yield piece

    def _read(self, key: str) -> bytes:
        try:
            return self._store.get_range(key, self._offset, _PIECE)
        except ObjectNotFound:
            return b""  # cleaned up while we looked


def tail(store: Store, job_id: str, lines: int) -> bytes:
    """The last `lines` lines, reading no more of the log than holds them."""
    if lines <= 0:
        return b""
    pieces: list[bytes] = []  # last first
    line_ends = 0
    for key, size in reversed(list(store.list(layout.logs(job_id)))):
        position = size
        while position > 0 and line_ends <= lines:
            start = max(position - _PIECE, 0)
            pieces.append(_piece(store, key, start, position - start))
            line_ends += pieces[-1].count(b"\n")
            position = start
    return _last_lines(b"".join(reversed(pieces)), lines)


def _piece(store: Store, key: str, start: int, length: int) -> bytes:
    try:
        return store.get_range(key, start, length)
    except ObjectNotFound:
        return b""


def _last_lines(text: bytes, lines: int) -> bytes:
    position = len(text) - 1 if text.endswith(b"\n") else len(text)
    for _ in range(lines):
        position = text.rfind(b"\n", 0, position)
        if position < 0:
            return text
    return text[position + 1 :]
