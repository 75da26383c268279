"""Differences drawn like a patch: removed lines with -, added ones with +."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.text import Text

from controller.api.formats import counted
from kubectl_plugin.durations import short_duration
from kubectl_plugin.paint.table import Cell, clean
from kubectl_plugin.report.revisions.change_lines import change_lines
from kubectl_plugin.report.revisions.comparison import ComparedSide, Comparison

STYLES: Final = {"-": "red", "+": "green", " ": "cyan"}
"""By the first character of a line."""


def comparison_text(comparison: Comparison, *, now: float, only_ascii: bool) -> Text:
    """The whole comparison; where nothing differs, one line that says so. It is data: do not cut its lines."""
    lines = _comparison_lines(comparison, now, only_ascii) if comparison.changes else [_no_difference(comparison)]
    return Text("\n").join(clean(line, only_ascii) for line in lines)


def _comparison_lines(comparison: Comparison, now: float, only_ascii: bool) -> Iterator[Cell]:
    for sign, side in (("---", comparison.old), ("+++", comparison.new)):
        yield Text(f"{sign} {_side(comparison.name, side, now)}", style="bold")
    for line in change_lines(comparison.changes, only_ascii=only_ascii):
        yield Text(line, style=STYLES[line[0]])
    yield comparison.verdict


def _no_difference(comparison: Comparison) -> str:
    old, new = comparison.old.called, comparison.new.called
    if old == new:
        return f"{comparison.name}: no difference, both are {new}"
    return f"{comparison.name}: no difference between {old} and {new}"


def _side(name: str, side: ComparedSide, now: float) -> str:
    """Such as `node-agent revision 7 (6d9c8b7f4d) 6m12s ago, 6 nodes, live`."""
    if side.file:
        return f"{name} {side.file}"
    if side.revision is None:
        return f"{name} live" + ", not stored as a revision yet" * side.unstored
    revision = side.revision.revision
    words = [f"{name} revision {revision.number} ({revision.hash}) {short_duration(now - side.revision.created)} ago"]
    if side.nodes is not None:
        words.append(counted(side.nodes, "node"))
    return ", ".join([*words, "live"] if side.live else words)
