"""Nodes in groups: one icon for each node, or a bar for a large group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from rich.text import Text

from controller.planner.explanation import NodeState
from kubectl_plugin.paint import style
from kubectl_plugin.report.node_row import NodeRow

MOST_ICONS: Final = 60
"""A group with more nodes is drawn as a bar."""
BAR: Final = 30
MOST_GROUPS: Final = 16
GAP: Final = "   "
LEGEND_GAP: Final = "     "
DONE: Final = (NodeState.UPDATED, NodeState.UNPLANNED)


def grid(rows: Iterable[NodeRow], width: int, only_ascii: bool) -> list[Text]:
    """A line for each group and a legend of the icons in it; nodes that should not run the pod are left out."""
    groups: dict[str, list[NodeRow]] = {}
    for row in rows:
        if row.state is not NodeState.EXCLUDED:
            groups.setdefault(row.group, []).append(row)
    keys = sorted(groups)
    shown = keys if len(keys) <= MOST_GROUPS else _most_telling(groups)
    labels = max((len(key) for key in shown), default=0)
    room = width - 2 - labels - len(GAP) - len(GAP) - len("5000 of 5000")
    members = [groups[key] for key in shown]
    icons = all(len(group) <= min(MOST_ICONS, room) for group in members)
    widest = max((len(group) for group in members), default=0) if icons else max(min(BAR, room), 4)
    lines = []
    for key, group in zip(shown, members, strict=True):
        line = Text(f"  {key:<{labels}}{GAP}")
        tally = Counter(row.state for row in group)
        counts = [(state, tally[state]) for state in style.STATES if tally[state]]
        drawn = _icons(group, only_ascii) if icons else style.stacked(counts, widest, only_ascii)
        drawn.pad_right(widest - drawn.cell_len)
        done = sum(row.state in DONE for row in group)
        lines.append(line.append_text(drawn).append(f"{GAP}{done} of {len(group)}"))
    if len(shown) < len(keys):
        lines.append(Text(f"  and {len(keys) - len(shown)} more groups", style.DIM))
    return _with_legend(lines, _legend(members, only_ascii, as_bar=not icons), width)


def _icons(group: list[NodeRow], only_ascii: bool) -> Text:
    text = Text()
    for state, alike in groupby(group, key=lambda row: row.state):
        icon = style.state_icon(state, only_ascii)
        text.append(icon.plain * len(list(alike)), icon.style)
    return text


def _legend(groups: list[list[NodeRow]], only_ascii: bool, *, as_bar: bool) -> Text:
    present = {row.state for group in groups for row in group}
    text = Text()
    for state in style.STATES:
        if state in present:
            icon = style.bar_cell(state, only_ascii) if as_bar else style.state_icon(state, only_ascii)
            text.append("  " if text else "").append_text(icon).append(f" {state.value}")
    return text


def _with_legend(lines: list[Text], legend: Text, width: int) -> list[Text]:
    """The legend goes beside the last group where there is room, else below."""
    if not lines:
        return lines
    last = lines[-1]
    if last.cell_len + len(LEGEND_GAP) + legend.cell_len <= width:
        return [*lines[:-1], last.append(LEGEND_GAP).append_text(legend)]
    return [*lines, Text("  ").append_text(legend)]


def _most_telling(groups: dict[str, list[NodeRow]]) -> list[str]:
    """The groups with the most nodes that are neither updated nor simply old, by name."""
    plain = (*DONE, NodeState.OLD)
    ordered = sorted(groups, key=lambda key: (-sum(row.state not in plain for row in groups[key]), key))
    return sorted(ordered[:MOST_GROUPS])
