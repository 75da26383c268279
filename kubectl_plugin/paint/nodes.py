"""Nodes as a table: those of a DaemonSet, or those that pull an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from rich.text import Text

from controller.planner.explanation import NodeState
from kubectl_plugin.durations import short_duration
from kubectl_plugin.paint import style
from kubectl_plugin.paint.table import Column, table
from kubectl_plugin.report.node_row import NodeRow
from kubectl_plugin.report.pulls import NodePull, PullStage
from kubectl_plugin.report.snapshot import PodDetail

_STAGES: Final = {PullStage.FAILED: style.BAD, PullStage.PULLING: "yellow", PullStage.THERE: "green"}
_STAGE_WIDTH: Final = max(map(len, PullStage))
_ROOM = 24
"""Columns that the reason should have before others are left out."""


def node_table(rows: Sequence[NodeRow], *, now: float, width: int | None, only_ascii: bool) -> Text:
    """`width`: None for the wide table, with the hash of the pod's revision and the message of a failing pod."""
    columns: list[Column[NodeRow]] = [
        Column("NODE", lambda row: row.node),
        Column("GROUP", lambda row: row.group, expendable=3),
        Column("STATE", _state, fixed=max(map(len, NodeState))),
        Column("REV", _revision, right=True),
        _pod_column("POD", lambda one: one.pod.name),
        _pod_column("READY", lambda one: f"{one.ready_containers}/{len(one.containers)}"),
        _pod_column("RESTARTS", lambda one: str(one.restarts), right=True),
        _pod_column("AGE", lambda one: short_duration(now - one.pod.created), expendable=2),
        Column("HOW", lambda row: row.how, expendable=1),
    ]
    if any(row.image for row in rows):
        columns.append(Column("IMAGE", lambda row: _stage(row.image.stage) if row.image else "", fixed=_STAGE_WIDTH))
    if width is None:
        columns.append(_pod_column("HASH", lambda one: one.pod.hash))
        columns.append(Column("MESSAGE", lambda row: row.trouble.message if row.trouble else ""))
    columns.append(Column("WHY", lambda row: row.why, least=8))
    return table(columns, rows, width=width, only_ascii=only_ascii, room=_ROOM)


def pull_table(rows: Sequence[tuple[str, NodePull]], *, width: int | None, only_ascii: bool) -> Text:
    columns: list[Column[tuple[str, NodePull]]] = [
        Column("NODE", lambda row: row[0]),
        Column("IMAGE", lambda row: _stage(row[1].stage), fixed=_STAGE_WIDTH),
        Column("WHY", lambda row: row[1].why, least=8),
    ]
    return table(columns, rows, width=width, only_ascii=only_ascii)


def _pod_column(
    header: str, cell: Callable[[PodDetail], str], *, right: bool = False, expendable: int = 0
) -> Column[NodeRow]:
    """Empty if the node has no pod."""
    return Column(header, lambda row: cell(row.pod) if row.pod else "", right=right, expendable=expendable)


def _revision(row: NodeRow) -> str:
    return "" if row.pod is None else "?" if row.revision is None else str(row.revision)


def _state(row: NodeRow) -> Text:
    return Text(row.state.value, style.STATES[row.state].style)


def _stage(stage: PullStage) -> Text:
    return Text(stage, _STAGES.get(stage, ""))
