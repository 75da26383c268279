"""Icons, colours and bars. A colour only repeats what an icon or a word says already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from rich.text import Text

from controller.api.daemonset import Phase
from controller.planner.explanation import NodeState


class Icon(NamedTuple):
    """A sign of one column, and its substitute in ASCII."""

    sign: str
    plain: str
    """The sign where only ASCII can be shown."""
    style: str
    """rich's name of the colour."""

    def shown(self, only_ascii: bool) -> str:
        return self.plain if only_ascii else self.sign


DIM: Final = "dim"
BAD: Final = "red"
LABEL: Final = "bold"

PHASES: Final[Mapping[Phase, Icon]] = {
    Phase.PENDING: Icon("…", "?", "yellow"),
    Phase.PROGRESSING: Icon("▶", ">", "yellow"),
    Phase.HELD: Icon("▪", "=", "green"),
    Phase.PAUSED: Icon("‖", "|", "yellow"),
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
"""From done to not wanted: the order of bars and legends."""

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
"""The characters of a bar; nodes in trouble are shown by their icons."""


def phase(name: Phase, only_ascii: bool) -> Text:
    """`▶ Progressing`."""
    icon = PHASES[name]
    return Text(f"{icon.shown(only_ascii)} {name.value}", style=icon.style)


def state_icon(state: NodeState, only_ascii: bool) -> Text:
    """`●`."""
    icon = STATES[state]
    return Text(icon.shown(only_ascii), style=icon.style)


def bar(done: int, total: int, width: int, only_ascii: bool) -> Text:
    """Such as `█████░░░░░`: full only when all is done, empty only when nothing is."""
    full, _ = _apportioned((done, max(total - done, 0)), width)
    filled = bar_cell(NodeState.UPDATED, only_ascii)
    rest = ("." if only_ascii else "░") * (width - full)
    return Text.assemble((filled.plain * full, filled.style), (rest, DIM))


def stacked(parts: Sequence[tuple[NodeState, int]], width: int, only_ascii: bool) -> Text:
    """Numbers of nodes side by side, in `width` columns. A number that is not 0 is visible as long
    as there is room."""
    text = Text()
    for (state, _), cells in zip(parts, _apportioned([count for _, count in parts], width), strict=True):
        cell = bar_cell(state, only_ascii)
        text.append(cell.plain * cells, style=cell.style)
    return text


def bar_cell(state: NodeState, only_ascii: bool) -> Text:
    """The character of a bar for nodes in this state."""
    sign, plain = _CELLS[state]
    return Text(plain if only_ascii else sign, style=DIM if state is NodeState.NEXT else STATES[state].style)


def _apportioned(counts: Sequence[int], width: int) -> list[int]:
    """`width` divided in proportion. Each count that is not 0 gets at least 1; what is left goes to the largest
    remainders."""
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
