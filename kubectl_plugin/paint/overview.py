"""Many DaemonSets as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from controller.api.meta import epoch
from kubectl_plugin.durations import short
from kubectl_plugin.paint import style
from kubectl_plugin.paint.table import Cell, Column, table, without_the_expendable
from kubectl_plugin.report.overview import OverviewLine

_BAR, _SHORT_BAR = 10, 5
_NARROW = 100
"""Columns of a terminal on which the bars are short."""
_EXPENDABLE = ("PARTITION", "REV", "NODES")
_ROOM = 20
"""Columns of the terminal that the reason is worth."""


def overview(
    lines: Sequence[OverviewLine], *, now: float, width: int | None, only_ascii: bool, namespaces: bool
) -> Text:
    """`namespaces`: with a column that tells the namespace. `width`: None for all there is: also the images."""
    columns = [Column("NAME"), Column("PHASE"), Column("PROGRESS"), Column("NODES", right=True), Column("PARTITION")]
    columns += [Column("REV", right=True), Column("SINCE"), *([Column("IMAGES")] if width is None else [])]
    columns = [*([Column("NAMESPACE")] if namespaces else []), *columns, Column("WHY", least=8)]
    bar = _BAR if width is None or width >= _NARROW else _SHORT_BAR
    rows = [_row(line, now, only_ascii, bar, namespaces=namespaces, wide=width is None) for line in lines]
    if width is not None:
        columns, rows = without_the_expendable(columns, rows, expendable=_EXPENDABLE, width=width, room=_ROOM)
    return table(columns, rows, width=width, only_ascii=only_ascii)


def _row(line: OverviewLine, now: float, only_ascii: bool, bar: int, *, namespaces: bool, wide: bool) -> list[Cell]:
    progress = style.bar(line.done, line.target, bar, only_ascii).append(f" {line.done}/{line.target}")
    return [
        *([line.namespace] if namespaces else []),
        line.name,
        style.phase(line.phase, only_ascii),
        progress,
        str(line.desired),
        str(line.partition),
        "?" if line.revision is None else str(line.revision),
        "" if (since := epoch(line.since)) is None else short(now - since),
        *([",".join(line.images)] if wide else []),
        line.why,
    ]
