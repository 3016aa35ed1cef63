"""A job's log on this process's stdout: bytes where it takes bytes, text where it does not."""

from __future__ import annotations

import codecs
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def log_writer() -> Callable[[bytes], None]:
    """A function that shows log bytes as they came."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def write(data: bytes) -> None:
        stream = sys.stdout
        binary = getattr(stream, "buffer", None)
        if binary is None:  # a notebook, or something that captures
            stream.write(decoder.decode(data))
        else:
            stream.flush()
            binary.write(data)
        stream.flush()

    return write
