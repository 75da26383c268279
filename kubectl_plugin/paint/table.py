"""Tables as kubectl prints them: capitals above, two spaces between columns, no lines, one line per row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rich.cells import cell_len
from rich.text import Text

Cell: TypeAlias = str | Text
"""A Text brings its colours; both may hold anything: line ends and control characters become spaces."""

GAP: Final = "  "


@dataclass(frozen=True)
class Column:
    """How the cells below `header` are placed."""

    header: str
    right: bool = False
    """For numbers."""
    fixed: int = 0
    """Width that it has whatever is in it, so that rows which are printed later stand below the first ones."""
    least: int | None = None
    """Width to which it may be cut where the table is too wide; None: never. Of several, the last gives way first."""


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[Cell]], *, width: int | None, only_ascii: bool = False
) -> Text:
    """The whole table; nothing stands behind the last word of a line.

    `width`: columns of the terminal; None for a table that is never cut, as with `-o wide` (print that one with
    `soft_wrap=True`). Where the columns that must not be cut are too wide already, the terminal cuts the line.
    `only_ascii`: everything else becomes a question mark.
    """
    lines = [[Text(one.header, style="bold") for one in columns]]
    lines += [[clean(cell, only_ascii) for cell in row] for row in rows]
    widths = [_needed(column, cells) for column, cells in zip(columns, zip(*lines, strict=True), strict=True)]
    if width is not None:
        widths = _narrowed(columns, widths, width)
    return Text("\n").join(_line(columns, cells, widths, only_ascii) for cells in lines)


def without_the_expendable(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, expendable: Sequence[str], width: int, room: int
) -> tuple[list[Column], list[list[Cell]]]:
    """The table without as many `expendable` columns, the first of them first, as leave `room` for the last column.

    That one says why, and is worth more than what can be asked for in other ways.
    """
    needed = [_needed(column, [row[index] for row in rows]) for index, column in enumerate(columns)]
    hidden: set[str] = set()
    for name in expendable:
        shown = [one for column, one in zip(columns[:-1], needed, strict=False) if column.header not in hidden]
        if sum(shown) + len(GAP) * len(shown) + min(needed[-1], room) <= width:
            break
        hidden.add(name)
    kept = [index for index, column in enumerate(columns) if column.header not in hidden]
    return [columns[index] for index in kept], [[row[index] for index in kept] for row in rows]


def _needed(column: Column, cells: Sequence[Cell]) -> int:
    widest = max((cell_len(cell) if isinstance(cell, str) else cell.cell_len for cell in cells), default=0)
    return max(len(column.header), column.fixed, widest)


def clean(cell: Cell, only_ascii: bool) -> Text:
    """`cell` on one line, without anything that a terminal would obey; its colours stay."""
    text = cell.copy() if isinstance(cell, Text) else Text(cell)
    text.plain = "".join(_shown(character, only_ascii) for character in text.plain)
    return text


def cut(text: Text, width: int, only_ascii: bool) -> Text:
    """`text`, or its beginning and a sign that there is more of it."""
    if text.cell_len <= width:
        return text
    sign = ("..." if only_ascii else "…")[:width]
    beginning = text.copy()
    beginning.truncate(width - len(sign))
    beginning.rstrip()
    return beginning.append(sign)


def _shown(character: str, only_ascii: bool) -> str:
    if not character.isprintable():
        return " "
    return "?" if only_ascii and not character.isascii() else character


def _narrowed(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int]:
    """The widths, so that all fit; the last column that may be cut is cut first."""
    result = list(widths)
    excess = sum(widths) + len(GAP) * (len(columns) - 1) - width
    for index, column in reversed(list(enumerate(columns))):
        if column.least is not None and excess > 0:
            given = min(excess, max(result[index] - max(column.least, len(column.header)), 0))
            result[index] -= given
            excess -= given
    return result


def _line(columns: Sequence[Column], cells: Sequence[Text], widths: Sequence[int], only_ascii: bool) -> Text:
    line = Text()
    for index, (column, cell, width) in enumerate(zip(columns, cells, widths, strict=True)):
        shown = cut(cell, width, only_ascii)
        padding = " " * (width - shown.cell_len)
        line.append(GAP if index else "").append(padding if column.right else "")
        line.append_text(shown).append("" if column.right else padding)
    line.rstrip()
    return line
