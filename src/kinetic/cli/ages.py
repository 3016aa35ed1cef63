"""Lengths of time in one short word."""

from __future__ import annotations

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


def brief(seconds: float) -> str:
    """`42s`, `7m`, `3h`, `12d`: the largest unit that fits, rounded down."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(int(seconds), 0)}s"
