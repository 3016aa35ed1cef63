"""Bytes on stdout, as they came."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

from kinetic.cli import report

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def as_json(value: Any) -> None:
    """One JSON document on one line."""
    print(json.dumps(value))


def show(pieces: Iterable[bytes]) -> None:
    """Write each piece at once."""
    for piece in pieces:
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()


def leave_when_unread() -> None:
    """End this process once nobody reads its stdout, even while it has nothing to write.

    Without this, `kinetic jobs logs -f ID | grep -m1 ready` would wait for one more line.
    """
    import select
    import threading

    kind = os.fstat(sys.stdout.fileno()).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)) or not hasattr(select, "poll"):
        return
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors are reported without being asked for

    def wait() -> None:
        poll.poll()
        os._exit(report.UNREAD)

    threading.Thread(target=wait, name="leave-when-unread", daemon=True).start()


def start_of_last_lines(pieces: Iterable[bytes], count: int) -> int:
    """The offset at which the last `count` lines of a stream begin; keeps nothing of it."""
    ends: deque[int] = deque(maxlen=count + 1)
    position = 0
    for piece in pieces:
        ends.extend(position + end for end in _last_line_ends(piece, count + 1))
        position += len(piece)
    back = count + 1 if ends and ends[-1] == position else count
    if back == 0:
        return position
    return ends[-back] if len(ends) >= back else 0


def _last_line_ends(piece: bytes, most: int) -> list[int]:
    """The offsets behind the last newlines of `piece`, in order."""
    found: list[int] = []
    end = len(piece)
    while len(found) < most and (end := piece.rfind(b"\n", 0, end)) >= 0:
        found.append(end + 1)
    return found[::-1]


def skipping(pieces: Iterable[bytes], count: int) -> Iterator[bytes]:
    """The stream without its first `count` bytes."""
    for piece in pieces:
        if count < len(piece):
            yield piece[count:]
        count = max(count - len(piece), 0)
