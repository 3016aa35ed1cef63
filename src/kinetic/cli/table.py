"""Tables that fit: columns are shortened, then left out, before a line would wrap."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_GAP = "  "
_CUT = "…"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, and how it gives way where there is too little room.

    `least` is the width below which it says nothing; columns are shortened to it, and then left
    out, in the order of `yields`. Those with None stay, and are cut only when nothing else is left.
    """

    heading: str
    least: int = 1
    yields: int | None = None


def lines(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    width: int | None = None,
    paint: Callable[[int, str, str], str] | None = None,
) -> list[str]:
    """The table as lines, none of them wider than `width`.

    `paint(column, text, padded)` may dress a cell up; what it adds is taken to have no width.
    """
    cells = [[shown(text) for text in row] for row in rows]
    headings = [column.heading for column in columns]
    natural = [max(map(columns_of, column)) for column in zip(headings, *cells, strict=True)]
    widths = natural if width is None else fitted(columns, natural, width)
    kept = [index for index, size in enumerate(widths) if size]
    texts = [_GAP.join(_padded(headings[i], widths[i]) for i in kept).rstrip()]
    for row in cells:
        padded = [_padded(row[i], widths[i]) for i in kept[:-1]]
        padded += [cut(row[i], widths[i]) for i in kept[-1:]]
        if paint:
            padded = [paint(i, row[i], text) for i, text in zip(kept, padded, strict=True)]
        texts.append(_GAP.join(padded))
    return texts


def fitted(columns: Sequence[Column], natural: Sequence[int], width: int) -> list[int]:
    """How wide each column is to be; 0 is to be left out."""
    widths = list(natural)
    order = [i for i, column in enumerate(columns) if column.yields is not None]
    order.sort(key=lambda i: columns[i].yields or 0)
    for index in order:
        excess = _total(widths) - width
        if excess > 0:
            widths[index] = max(widths[index] - excess, min(columns[index].least, widths[index]))
    for index in order:
        if _total(widths) > width:
            widths[index] = 0
    for index in range(len(columns) - 1, 0, -1):  # the first column says which row it is
        if _total(widths) > width:
            widths[index] = 0
    widths[0] = min(widths[0], max(width, 1))
    return _with_room_used(widths, natural, width, order)


def _with_room_used(
    widths: list[int], natural: Sequence[int], width: int, order: Sequence[int]
) -> list[int]:
    """Give what leaving a column out has freed to those that were only shortened."""
    for index in reversed(order):
        if widths[index]:
            spare = max(width - _total(widths), 0)
            widths[index] = min(widths[index] + spare, natural[index])
    return widths


def _total(widths: Sequence[int]) -> int:
    kept = [size for size in widths if size]
    return sum(kept) + len(_GAP) * (len(kept) - 1)


def shown(text: str) -> str:
    """`text` with whatever would move the cursor or hide something written out."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def columns_of(text: str) -> int:
    """How many columns a terminal needs for `text`."""
    return len(text) if text.isascii() else sum(map(_columns_of_char, text))


def cut(text: str, width: int) -> str:
    """`text`, or as much of it as fits with a mark that something is missing."""
    if columns_of(text) <= width:
        return text
    kept, room = 0, width - len(_CUT)
    for char in text:
        room -= _columns_of_char(char)
        if room < 0:
            break
        kept += 1
    return text[:kept] + _CUT


def _padded(text: str, width: int) -> str:
    text = cut(text, width)
    return text + " " * (width - columns_of(text))


def _columns_of_char(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
