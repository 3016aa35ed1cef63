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

    Columns with a `least` are shortened to that width, from left to right, and then left out. The
    others stay for as long as they can, the first one to the last. `paint` may dress a cell up,
    given its text and how it will be drawn; what it adds is taken to have no width.
    """

    heading: str
    least: int | None = None
    paint: Callable[[str, str], str] | None = None


def lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None = None
) -> list[str]:
    """The table as lines, none of them wider than `width`."""
    texts = [[shown(row[index]) for row in rows] for index in range(len(columns))]
    natural = [
        max(map(columns_of, {column.heading, *cells}))
        for column, cells in zip(columns, texts, strict=True)
    ]
    widths = natural if width is None else fitted(columns, natural, width)
    kept = [index for index, size in enumerate(widths) if size]
    drawn = [_drawn(columns[i], texts[i], widths[i], pad=i != kept[-1]) for i in kept]
    return list(map(_GAP.join, zip(*drawn, strict=True)))


def _drawn(column: Column, texts: Sequence[str], width: int, *, pad: bool) -> list[str]:
    """A column from its heading down; a text that comes often is drawn once."""

    def fit(text: str) -> str:
        text = cut(text, width)
        return text + " " * (width - columns_of(text)) if pad else text

    cells = {text: fit(text) for text in texts}
    if column.paint:
        cells = {text: column.paint(text, cell) for text, cell in cells.items()}
    return [fit(column.heading), *map(cells.__getitem__, texts)]


def fitted(columns: Sequence[Column], natural: Sequence[int], width: int) -> list[int]:
    """How wide each column is to be; 0 is to be left out."""
    widths = list(natural)
    order = [index for index, column in enumerate(columns) if column.least is not None]
    for index in order:
        excess = max(_total(widths) - width, 0)
        least = min(columns[index].least or 0, widths[index])
        widths[index] = max(widths[index] - excess, least)
    others = [index for index in range(len(columns) - 1, 0, -1) if index not in order]
    for index in (*order, *others):
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


def _columns_of_char(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
