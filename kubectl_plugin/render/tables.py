"""Icons, colours, bars, and tables as kubectl prints them. A colour only repeats what an icon or a word says."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from rich.live import Live
from rich.text import Text

from controller.api.daemonset import Phase
from controller.planner.explanation import NodeState
from kubectl_plugin.terminal import Terminal
from kubectl_plugin.wording import NO_BREAK, visible


class Icon(NamedTuple):
    sign: str
    plain: str
    """The substitute in ASCII."""
    style: str
    """A style of rich."""

    def shown(self, only_ascii: bool) -> str:
        return self.plain if only_ascii else self.sign


DIM: Final = "dim"
BAD: Final = "red"
LABEL: Final = "bold"
LABEL_WIDTH: Final = 11
"""Columns for the labels of `status` and `plan`."""

PHASES: Final[Mapping[Phase, Icon]] = {
    Phase.PENDING: Icon("…", "?", "yellow"),
    Phase.PROGRESSING: Icon("▶", ">", "yellow"),
    Phase.SOAKING: Icon("◔", "%", "yellow"),
    Phase.AWAITING_APPROVAL: Icon("◇", "a", "yellow"),
    Phase.HELD: Icon("▪", "=", "green"),
    Phase.PAUSED: Icon("‖", "|", "yellow"),
    Phase.ABORTED: Icon("⊘", "A", "red"),
    Phase.STALLED: Icon("✗", "X", "red"),
    Phase.MANUAL: Icon("□", "o", "yellow"),
    Phase.DEGRADED: Icon("!", "!", "red"),
    Phase.HEALTHY: Icon("✓", "#", "green"),
    Phase.TERMINATING: Icon("\N{MULTIPLICATION SIGN}", "x", "dim"),
}

STATES: Final[Mapping[NodeState, Icon]] = {
    NodeState.UPDATED: Icon("●", "#", "green"),
    NodeState.UNPLANNED: Icon("◉", "+", "green"),
    NodeState.UPDATING: Icon("◐", "~", "yellow"),
    NodeState.FAILING: Icon("✗", "X", "red"),
    NodeState.MISSING: Icon("◌", "o", "red"),
    NodeState.DELETING: Icon("◒", "<", "yellow"),
    NodeState.NEXT: Icon("◇", ">", ""),
    NodeState.OLD: Icon("○", ".", "dim"),
    NodeState.EXCLUDED: Icon("-", "-", "dim"),
}
"""From done to unwanted: the order of bars and legends."""

_CELLS: Final[Mapping[NodeState, tuple[str, str]]] = {
    NodeState.UPDATED: ("█", "#"),
    NodeState.UNPLANNED: ("█", "#"),
    NodeState.UPDATING: ("▓", "~"),
    NodeState.FAILING: ("✗", "X"),
    NodeState.MISSING: ("◌", "o"),
    NodeState.DELETING: ("▒", "<"),
    NodeState.NEXT: ("░", ">"),
    NodeState.OLD: ("·", "."),
    NodeState.EXCLUDED: ("-", "-"),
}
"""Sign and ASCII substitute in a bar; failing nodes are shown by their icons."""


def phase(name: Phase, only_ascii: bool) -> Text:
    """Such as `▶ Progressing`."""
    icon = PHASES[name]
    return Text(f"{icon.shown(only_ascii)} {name.value}", style=icon.style)


def state_icon(state: NodeState, only_ascii: bool) -> Text:
    icon = STATES[state]
    return Text(icon.shown(only_ascii), style=icon.style)


def bar(done: int, total: int, width: int, only_ascii: bool) -> Text:
    """Such as `█████░░░░░`: full only if all is done, empty only if nothing is."""
    full, _ = _apportioned((done, max(total - done, 0)), width)
    filled = bar_cell(NodeState.UPDATED, only_ascii)
    rest = ("." if only_ascii else "░") * (width - full)
    return Text.assemble((filled.plain * full, filled.style), (rest, DIM))


def stacked(parts: Sequence[tuple[NodeState, int]], width: int, only_ascii: bool) -> Text:
    """Node counts side by side in `width` columns; each nonzero count is visible if there is room."""
    text = Text()
    for (state, _), cells in zip(parts, _apportioned([count for _, count in parts], width), strict=True):
        cell = bar_cell(state, only_ascii)
        text.append(cell.plain * cells, style=cell.style)
    return text


def bar_cell(state: NodeState, only_ascii: bool) -> Text:
    sign, plain = _CELLS[state]
    return Text(plain if only_ascii else sign, style=DIM if state is NodeState.NEXT else STATES[state].style)


def _apportioned(counts: Sequence[int], width: int) -> list[int]:
    """Divides `width` in proportion: at least 1 per nonzero count, then by largest remainder."""
    total = sum(counts)
    if total == 0:
        return [0] * len(counts[:-1]) + [width] if counts else []
    cells = [0] * len(counts)
    for index in sorted(range(len(counts)), key=lambda one: -counts[one])[:width]:
        cells[index] = 1 if counts[index] else 0
    for _ in range(width - sum(cells)):
        neediest = max(range(len(counts)), key=lambda one: counts[one] * width / total - cells[one])
        cells[neediest] += 1
    return cells


Cell: TypeAlias = str | Text
"""Line breaks and control characters become spaces."""

GAP: Final = "  "


Row = TypeVar("Row")


@dataclass(frozen=True)
class Column(Generic[Row]):
    header: str
    cell: Callable[[Row], Cell]
    right: bool = False
    """Aligned to the right, as for numbers."""
    fixed: int = 0
    """Minimum width, so that rows printed later line up with the first ones."""
    least: int | None = None
    """Width to which it may be cut, the last such column first; None: never."""
    expendable: int = 0
    """Order in which columns are dropped if the last one has too little room, from 1; 0: never."""


def table(
    columns: Iterable[Column[Row]], rows: Sequence[Row], *, width: int | None, only_ascii: bool = False, room: int = 0
) -> Text:
    """`width`: columns of the terminal, which cuts lines that are still too long; None: never cut, as with -o wide
    (print it with `soft_wrap=True`). `only_ascii`: other characters become question marks. `room`: columns reserved
    for the last column."""
    cells = {
        column: [Text(column.header, style="bold"), *(clean(column.cell(row), only_ascii) for row in rows)]
        for column in columns
    }
    widths = {column: max(column.fixed, *(cell.cell_len for cell in its)) for column, its in cells.items()}
    if width is not None:
        _drop_the_expendable(widths, width, room)
        _narrow(widths, width)
    lines = zip(*(cells[column] for column in widths), strict=True)
    return Text("\n").join(_line(widths, line, only_ascii) for line in lines)


def _drop_the_expendable(widths: dict[Column[Row], int], width: int, room: int) -> None:
    """Keeps the last column: its reason matters more than what other verbs also show."""
    *others, last = widths
    for column in sorted((other for other in others if other.expendable), key=lambda one: one.expendable):
        before_last = sum(widths.values()) - widths[last] + len(GAP) * (len(widths) - 1)
        if before_last + min(widths[last], room) <= width:
            break
        del widths[column]


def _narrow(widths: dict[Column[Row], int], width: int) -> None:
    excess = sum(widths.values()) + len(GAP) * (len(widths) - 1) - width
    for column in reversed([*widths]):
        if column.least is not None and excess > 0:
            given = min(excess, max(widths[column] - max(column.least, len(column.header)), 0))
            widths[column] -= given
            excess -= given


def clean(cell: Cell, only_ascii: bool) -> Text:
    """One line without invisible characters; colours are kept."""
    text = cell.copy() if isinstance(cell, Text) else Text(cell)
    text.plain = "".join(_shown(character, only_ascii) for character in visible(text.plain))
    return text


def cut(text: Text, width: int, only_ascii: bool) -> Text:
    if text.cell_len <= width:
        return text
    sign = ("..." if only_ascii else "…")[:width]
    beginning = text.copy()
    beginning.truncate(width - len(sign))
    beginning.rstrip()
    return beginning.append(sign)


def wrapped(
    text: str, width: int, *, most: int | None = None, first: str = "", indent: str = "", whole_words: bool = False
) -> list[str]:
    """Lines of at most `width` columns, and at most `most` of them. `whole_words`: a longer word stays whole, as in a
    command to type."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=indent,
        max_lines=most,
        placeholder=" …",
        break_long_words=not whole_words,
        break_on_hyphens=False,
    )


def labelled_rows(rows: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Lines of at most `width` columns, with the labels of the rows before them."""
    lines: list[str] = []
    for label, text in rows:
        lines += wrapped(text, width, first=label.ljust(12), indent=" " * 12, whole_words=True)
    return [line.replace(NO_BREAK, " ") for line in lines]


def _shown(character: str, only_ascii: bool) -> str:
    if not character.isprintable():
        return " "
    return "?" if only_ascii and not character.isascii() else character


def _line(widths: Mapping[Column[Row], int], cells: Sequence[Text], only_ascii: bool) -> Text:
    line = Text()
    for cell, (column, width) in zip(cells, widths.items(), strict=True):
        shown = cut(cell, width, only_ascii)
        padding = " " * (width - shown.cell_len)
        line.append(GAP if line else "").append(padding if column.right else "")
        line.append_text(shown).append("" if column.right else padding)
    line.rstrip()
    return line


class LiveBlock(Live):
    """A block of lines that is redrawn in place; the last drawing stays on the screen. Lines are cut, never wrapped.
    A block taller than the terminal loses its end, except in the last drawing."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__(console=terminal.console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._terminal = terminal

    def start(self, refresh: bool = False) -> None:
        super().start(refresh)
        self.console.show_cursor(True)  # keep it visible: a signal may end the process at once

    def draw(self, lines: Sequence[Text]) -> None:
        self.console.width = self._terminal.columns  # the window may have been resized
        self.update(Text("\n", no_wrap=True, overflow="crop").join(lines), refresh=True)
