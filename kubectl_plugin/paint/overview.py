"""Many DaemonSets as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from controller.api.objects import epoch
from kubectl_plugin.durations import short_duration
from kubectl_plugin.paint import style
from kubectl_plugin.paint.table import Column, table
from kubectl_plugin.report.overview import OverviewLine

_BAR, _SHORT_BAR = 10, 5
_NARROW = 100
"""A terminal with fewer columns gets short bars."""
_ROOM = 20
"""Columns that the reason should have before others are left out."""


def overview(
    lines: Sequence[OverviewLine], *, now: float, width: int | None, only_ascii: bool, namespaces: bool
) -> Text:
    """`namespaces`: with a column for the namespace. `width`: None for the wide table, with the images."""
    bar = _BAR if width is None or width >= _NARROW else _SHORT_BAR

    def progress(line: OverviewLine) -> Text:
        return style.bar(line.done, line.target, bar, only_ascii).append(f" {line.done}/{line.target}")

    columns: list[Column[OverviewLine]] = [
        *([Column("NAMESPACE", lambda line: line.namespace)] if namespaces else []),
        Column("NAME", lambda line: line.name),
        Column("PHASE", lambda line: style.phase(line.phase, only_ascii)),
        Column("PROGRESS", progress),
        Column("NODES", lambda line: str(line.desired), right=True, expendable=3),
        Column("PARTITION", lambda line: str(line.partition), expendable=1),
        Column("REV", lambda line: "?" if line.revision is None else str(line.revision), right=True, expendable=2),
        Column("SINCE", lambda line: "" if (since := epoch(line.since)) is None else short_duration(now - since)),
        *([Column("IMAGES", lambda line: ",".join(line.images))] if width is None else []),
        Column("WHY", lambda line: line.why, least=8),
    ]
    return table(columns, lines, width=width, only_ascii=only_ascii, room=_ROOM)
