"""Nodes as a table: of a DaemonSet, or of an image that is pulled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from controller.planner.states import NodeState
from kubectl_plugin.durations import short
from kubectl_plugin.paint import style
from kubectl_plugin.paint.table import Cell, Column, table, without_the_expendable
from kubectl_plugin.report.node_row import NodeRow
from kubectl_plugin.report.pulls import NodePull, PullStage

_COLUMNS = (
    Column("NODE"),
    Column("GROUP"),
    Column("STATE", fixed=max(map(len, NodeState))),
    Column("REV", right=True),
    Column("POD"),
    Column("READY"),
    Column("RESTARTS", right=True),
    Column("AGE"),
)
_WIDE = (Column("HASH"), Column("MESSAGE"))
_EXPENDABLE = ("HOW", "AGE", "GROUP")
_STAGES: Final = {PullStage.FAILED: style.BAD, PullStage.PULLING: "yellow", PullStage.THERE: "green"}
_ROOM = 24
"""Columns of the terminal that the reason is worth."""


def node_table(rows: Sequence[NodeRow], *, now: float, width: int | None, only_ascii: bool) -> Text:
    """`width`: None for all there is: also the hash of the pod's revision, and what a failing pod said last."""
    wide = width is None
    image = (Column("IMAGE", fixed=max(map(len, PullStage))),) if any(row.image for row in rows) else ()
    columns = [*_COLUMNS, Column("HOW"), *image, *(_WIDE if wide else ()), Column("WHY", least=8)]
    cells = [_row(row, now, wide=wide, image=bool(image)) for row in rows]
    if width is not None:
        columns, cells = without_the_expendable(columns, cells, expendable=_EXPENDABLE, width=width, room=_ROOM)
    return table(columns, cells, width=width, only_ascii=only_ascii)


def _row(row: NodeRow, now: float, *, wide: bool, image: bool) -> list[Cell]:
    cells: list[Cell] = [row.node, row.group, Text(row.state.value, style.STATES[row.state].style)]
    if row.pod is None:
        cells += [""] * 5
    else:
        pod = row.pod.pod
        revision = "?" if row.revision is None else str(row.revision)
        ready = f"{row.pod.ready_containers}/{len(row.pod.containers)}"
        cells += [revision, pod.name, ready, str(row.pod.restarts), short(now - pod.created)]
    cells.append(row.how)
    if image:
        cells.append(_stage(row.image.stage) if row.image else "")
    if wide:
        cells += [row.pod.pod.hash if row.pod else "", row.trouble.message if row.trouble else ""]
    return [*cells, row.why]


def pull_table(rows: Sequence[tuple[str, NodePull]], *, width: int | None, only_ascii: bool) -> Text:
    columns = (Column("NODE"), Column("IMAGE", fixed=max(map(len, PullStage))), Column("WHY", least=8))
    cells = [(node, _stage(one.stage), one.why) for node, one in rows]
    return table(columns, cells, width=width, only_ascii=only_ascii)


def _stage(stage: PullStage) -> Text:
    return Text(stage, _STAGES.get(stage, ""))
