"""Tables of nodes, DaemonSets and revisions, diffs of templates, and the lines of `doctor`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from rich.text import Text

from controller.api.formats import counted
from controller.api.objects import epoch, rfc3339
from controller.inplace.change import InPlaceChange
from controller.planner.conditions import some
from controller.planner.explanation import NodeState
from kubectl_plugin.render import tables
from kubectl_plugin.render.tables import Cell, Column, clean, table, wrapped
from kubectl_plugin.rollout.diff import change_lines, yaml_lines
from kubectl_plugin.rollout.doctor_checks import DoctorCheck, Level
from kubectl_plugin.rollout.document import OverviewLine
from kubectl_plugin.rollout.history import ComparedSide, Comparison, RevisionRow
from kubectl_plugin.rollout.in_place import How, way_in_words
from kubectl_plugin.rollout.nodes import NodeRow
from kubectl_plugin.rollout.secrets import without_secrets
from kubectl_plugin.rollout.snapshot import NodePull, PodDetail, PullStage, short_image
from kubectl_plugin.rollout.steps import DomainRow
from kubectl_plugin.wording import printed_name, short_duration

_STAGES: Final = {PullStage.FAILED: tables.BAD, PullStage.PULLING: "yellow", PullStage.THERE: "green"}
_STAGE_WIDTH: Final = max(map(len, PullStage))
_ROOM = 24
"""Columns reserved for the reason; expendable columns are dropped first."""


def node_table(rows: Sequence[NodeRow], *, now: float, width: int | None, only_ascii: bool) -> Text:
    """`width` None: never cut, with the hash of the pod's revision and the message of a failing pod."""
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
        columns.append(Column("MESSAGE", lambda row: row.failure.message if row.failure else ""))
    columns.append(Column("WHY", lambda row: row.why, least=8))
    return table(columns, rows, width=width, only_ascii=only_ascii, room=_ROOM)


def domain_table(rows: Sequence[DomainRow], *, width: int | None, only_ascii: bool) -> Text:
    """`width` None: never cut, with all nodes that are short."""
    bar = _bar_length(width)
    columns: list[Column[DomainRow]] = [
        Column("DOMAIN", lambda row: row.name),
        Column("UPDATED", lambda row: _progress(row.updated, row.nodes, bar, only_ascii)),
        Column("SHORT", lambda row: str(len(row.short)), right=True),
        Column("MAX", lambda row: "" if row.max_unavailable is None else str(row.max_unavailable), right=True),
        Column("SHORT NODES", lambda row: ", ".join(row.short) if width is None else some(row.short), least=11),
    ]
    return table(columns, rows, width=width, only_ascii=only_ascii)


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
    return Text(row.state.value, tables.STATES[row.state].style)


def _stage(stage: PullStage) -> Text:
    return Text(stage, _STAGES.get(stage, ""))


_BAR, _SHORT_BAR = 10, 5
_NARROW = 100
"""Terminals with fewer columns get short bars."""
_ROOM_OF_LIST = 20


def _bar_length(width: int | None) -> int:
    return _BAR if width is None or width >= _NARROW else _SHORT_BAR


def _progress(done: int, total: int, bar: int, only_ascii: bool) -> Text:
    """Such as `███░░ 5/8`."""
    return tables.bar(done, total, bar, only_ascii).append(f" {done}/{total}")


def overview(
    lines: Sequence[OverviewLine], *, now: float, width: int | None, only_ascii: bool, namespaces: bool
) -> Text:
    """`width` None: never cut, with the images."""
    bar = _bar_length(width)
    columns: list[Column[OverviewLine]] = [
        *([Column("NAMESPACE", lambda line: line.namespace)] if namespaces else []),
        Column("NAME", lambda line: line.name),
        Column("PHASE", lambda line: tables.phase(line.phase, only_ascii)),
        Column("PROGRESS", lambda line: _progress(line.done, line.target, bar, only_ascii)),
        Column("NODES", lambda line: str(line.desired), right=True, expendable=3),
        Column("PARTITION", lambda line: str(line.partition), expendable=1),
        Column("REV", lambda line: "?" if line.revision is None else str(line.revision), right=True, expendable=2),
        Column("SINCE", lambda line: "" if (since := epoch(line.since)) is None else short_duration(now - since)),
        *([Column("IMAGES", lambda line: ",".join(line.images))] if width is None else []),
        Column("WHY", lambda line: line.why, least=8),
    ]
    return table(columns, lines, width=width, only_ascii=only_ascii, room=_ROOM_OF_LIST)


NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"


def history_table(
    rows: Sequence[RevisionRow], *, now: float, width: int | None, only_ascii: bool, wide: bool
) -> Text:
    """`wide`: hashes and full image names; otherwise short names, and only of images that differ."""

    def images(row: RevisionRow) -> str:
        shown = row.images.values() if wide else (short_image(row.images[name]) for name in row.differing)
        return ",".join(shown) or NONE

    columns: list[Column[RevisionRow]] = [
        Column("REV", lambda row: str(row.revision.number), right=True),
        Column("AGE", lambda row: short_duration(now - row.created)),
        Column("NODES", _nodes, right=True),
        *([Column("STATE", lambda row: row.mark)] if any(row.mark for row in rows) else []),
        *([Column("HASH", lambda row: row.revision.hash)] if wide else []),
        Column("IMAGES", images, least=20),
        Column("CHANGE", lambda row: row.change(only_ascii=only_ascii), least=24),
        *([Column("WAY", _way)] if any(row.way is not None for row in rows) else []),
        Column("CAUSE", lambda row: row.cause or NONE, least=8),
    ]
    return table(columns, rows, width=width, only_ascii=only_ascii)


def revision_text(name: str, row: RevisionRow, *, now: float, only_ascii: bool, show_values: bool) -> Text:
    """The first line is kubectl's."""
    template = row.revision.template if show_values else without_secrets(row.revision.template)[0]
    facts = {
        "Hash": row.revision.hash,
        "Age": f"{short_duration(now - row.created)} ({rfc3339(row.created)})",
        "Nodes": _nodes(row),
        "Change": row.change(only_ascii=only_ascii),
        "Cause": row.cause or NONE,
        **({} if row.way is None else {"Way": way_in_words(row.way)}),
    }
    return Text("\n").join(
        [
            Text(f"{printed_name(name)} with revision #{row.revision.number}"),
            *(clean(f"{label + ':':<9}{text}", only_ascii) for label, text in facts.items()),
            Text("Template:"),
            *(Text(f"  {line}") for line in yaml_lines(template, only_ascii=only_ascii)),
        ]
    )


def _nodes(row: RevisionRow) -> str:
    return UNKNOWN if row.nodes is None else str(row.nodes)


def _way(row: RevisionRow) -> str:
    return NONE if row.way is None else How.IN_PLACE if isinstance(row.way, InPlaceChange) else How.RECREATE


STYLES: Final = {"-": "red", "+": "green", " ": "cyan"}
"""By the first character of a line."""


def comparison_text(comparison: Comparison, *, now: float, only_ascii: bool) -> Text:
    """The output is data: its lines must not be cut."""
    sides, lines = (("---", comparison.old), ("+++", comparison.new)), list[Cell]()
    if comparison.changes:
        lines += [Text(f"{sign} {_side(comparison.name, side, now)}", style="bold") for sign, side in sides]
        changed = change_lines(comparison.changes, only_ascii=only_ascii)
        lines += [*(Text(line, style=STYLES[line[0]]) for line in changed), comparison.verdict]
    else:
        old, new = comparison.old.called, comparison.new.called
        alike = f", both are {new}" if old == new else f" between {old} and {new}"
        lines.append(f"{comparison.name}: no difference{alike}")
    return Text("\n").join(clean(line, only_ascii) for line in lines)


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


INDENT: Final = 6
"""Columns for the level."""
BETWEEN: Final = 3
"""Minimum columns between two checks on one line."""
CHECK_STYLES: Final = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}


def checks_text(checks: Sequence[DoctorCheck], *, width: int | None, only_ascii: bool) -> Text:
    """`width` None: one line per check; otherwise no line is wider."""
    lines = [line for check in checks for line in _long_lines(check)] if width is None else _fitted(checks, width)
    return Text("\n").join(clean(line, only_ascii) for line in lines)


def _long_lines(check: DoctorCheck) -> list[Text]:
    return [_level(check).append(check.message, style=""), *(Text(f"{' ' * INDENT}hint: {it}") for it in check.hints)]


def _fitted(checks: Sequence[DoctorCheck], width: int) -> list[Text]:
    rows = _rows(checks, width)
    column = max((len(row[0].message) for row in rows if len(row) == 2), default=0)
    lines: list[Text] = []
    for row in rows:
        if len(row) == 2 and _pair_width(column, row[1]) <= width:
            left = _level(row[0]).append(row[0].message.ljust(column + BETWEEN), style="")
            lines.append(left.append_text(_level(row[1]).append(row[1].message, style="")))
        else:
            for check in row:
                lines += _wrapped(check, width)
    return lines


def _rows(checks: Sequence[DoctorCheck], width: int) -> list[tuple[DoctorCheck, ...]]:
    """Pairs neighbours that are both fine and fit on one line."""
    rows: list[tuple[DoctorCheck, ...]] = []
    for check in checks:
        alone = rows[-1] if rows and len(rows[-1]) == 1 else None
        if alone and _is_fine(alone[0]) and _is_fine(check) and _pair_width(len(alone[0].message), check) <= width:
            rows[-1] = (alone[0], check)
        else:
            rows.append((check,))
    return rows


def _is_fine(check: DoctorCheck) -> bool:
    return check.level is Level.OK and not check.hints


def _pair_width(left: int, right: DoctorCheck) -> int:
    return INDENT + left + BETWEEN + INDENT + len(right.message)


def _level(check: DoctorCheck) -> Text:
    return Text(check.level.ljust(INDENT), style=CHECK_STYLES[check.level])


def _wrapped(check: DoctorCheck, width: int) -> list[Text]:
    first, *rest = wrapped(check.message, width - INDENT)
    indent = " " * len("hint: ")
    for hint in check.hints:
        rest += wrapped(f"hint: {hint}", width - INDENT, indent=indent)
    return [_level(check).append(first, style=""), *(Text(" " * INDENT + line) for line in rest)]
