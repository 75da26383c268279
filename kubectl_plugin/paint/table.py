"""Tables as kubectl prints them: headers in capitals, two spaces between columns, one line for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from rich.cells import cell_len
from rich.text import Text

from kubectl_plugin.characters import visible

Cell: TypeAlias = str | Text
"""A Text has colours. In either kind, line breaks and control characters become spaces."""

GAP: Final = "  "


Row = TypeVar("Row")


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column: its header, its cells, and how they are aligned."""

    header: str
    cell: Callable[[Row], Cell]
    right: bool = False
    """For numbers: aligned to the right."""
    fixed: int = 0
    """The least width in any case, so that rows printed later line up with the first ones."""
    least: int | None = None
    """The width to which it may be cut where the table is too wide; None: never. The last such
    column is cut first."""
    expendable: int = 0
    """Its turn to be left out, 1 first, where the last column would have too little room; 0: it always stays."""


def table(
    columns: Iterable[Column[Row]], rows: Sequence[Row], *, width: int | None, only_ascii: bool = False, room: int = 0
) -> Text:
    """The whole table; nothing stands behind the last word of a line.

    `width`: columns of the terminal; None for a table that is never cut, as with `-o wide` (print that one with
    `soft_wrap=True`). Where the columns that must not be cut are too wide already, the terminal cuts the line.
    `only_ascii`: everything else becomes a question mark. `room`: for the last column, before which expendable ones
    give way.
    """
    cells = {column: [column.cell(row) for row in rows] for column in columns}
    if width is not None:
        cells = _without_the_expendable(cells, width, room)
    lines = [[Text(one.header, style="bold") for one in cells]]
    lines += [[clean(cell, only_ascii) for cell in row] for row in zip(*cells.values(), strict=True)]
    widths = [_needed(column, its) for column, its in zip(cells, zip(*lines, strict=True), strict=True)]
    if width is not None:
        widths = _narrowed([*cells], widths, width)
    return Text("\n").join(_line([*cells], line, widths, only_ascii) for line in lines)


def _without_the_expendable(
    cells: Mapping[Column[Row], list[Cell]], width: int, room: int
) -> dict[Column[Row], list[Cell]]:
    """The last column gives the reason, which matters more than columns that other verbs also show."""
    needed = {column: _needed(column, its) for column, its in cells.items()}
    *kept, last = cells
    for column in sorted((one for one in kept if one.expendable), key=lambda one: one.expendable):
        if sum(needed[one] + len(GAP) for one in kept) + min(needed[last], room) <= width:
            break
        kept.remove(column)
    return {column: cells[column] for column in (*kept, last)}


def _needed(column: Column[Row], cells: Sequence[Cell]) -> int:
    widest = max((cell_len(cell) if isinstance(cell, str) else cell.cell_len for cell in cells), default=0)
    return max(len(column.header), column.fixed, widest)


def clean(cell: Cell, only_ascii: bool) -> Text:
    """`cell` on one line, without invisible characters; its colours stay."""
    text = cell.copy() if isinstance(cell, Text) else Text(cell)
    text.plain = "".join(_shown(character, only_ascii) for character in visible(text.plain))
    return text


def cut(text: Text, width: int, only_ascii: bool) -> Text:
    """`text`, or its beginning and a sign that it goes on."""
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


def _narrowed(columns: Sequence[Column[Row]], widths: Sequence[int], width: int) -> list[int]:
    """The widths at which all columns fit; the last column that may be cut is cut first."""
    result = list(widths)
    excess = sum(widths) + len(GAP) * (len(columns) - 1) - width
    for index, column in reversed(list(enumerate(columns))):
        if column.least is not None and excess > 0:
            given = min(excess, max(result[index] - max(column.least, len(column.header)), 0))
            result[index] -= given
            excess -= given
    return result


def _line(columns: Sequence[Column[Row]], cells: Sequence[Text], widths: Sequence[int], only_ascii: bool) -> Text:
    line = Text()
    for index, (column, cell, width) in enumerate(zip(columns, cells, widths, strict=True)):
        shown = cut(cell, width, only_ascii)
        padding = " " * (width - shown.cell_len)
        line.append(GAP if index else "").append(padding if column.right else "")
        line.append_text(shown).append("" if column.right else padding)
    line.rstrip()
    return line
