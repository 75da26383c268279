"""Which rows of a survey are shown, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from controller.api.formats import counted
from controller.api.objects import Value
from controller.planner.explanation import PREPARING, NodeState
from kubectl_plugin.failures import CommandError, UsageError
from kubectl_plugin.report.node_row import NodeRow
from kubectl_plugin.report.survey import Survey

ALL: Final = "all"
_STATES: Final = tuple(NodeState)
_KEYS: Final[dict[str, Callable[[NodeRow], tuple[float, str]]]] = {
    "name": lambda row: (0, row.node),
    "state": lambda row: (_STATES.index(row.state), row.node),
    "restarts": lambda row: (-(row.pod.restarts if row.pod else 0), ""),
    "age": lambda row: (row.pod.pod.created if row.pod else float("inf"), ""),
}


class Choice(Value):
    """The rows that `nodes` should show. `choice_of` makes it from the flags, and checks them."""

    states: frozenset[NodeState]
    excluded: bool
    group: str | None
    sort: str
    preparing: bool = False
    """Whether nodes with a pod that the preDelete hook holds are shown too, whatever their state."""


def choice_of(only: str, *, excluded: bool, group: str | None, sort: str) -> Choice:
    """`only`: states separated by commas, or `all`. `sort`: `update`, or a column.

    Raises UsageError that lists the accepted words.
    """
    words = [word for word in only.lower().split(",") if word]
    for word in words:
        if word not in (ALL, PREPARING) and word not in _STATES:
            there = ", ".join((*_STATES, PREPARING))
            raise UsageError(f'invalid --only "{word}": use all, {there}')
    if sort != "update" and sort not in _KEYS:
        raise UsageError(f'invalid --sort "{sort}": use update, {", ".join(_KEYS)}')
    everything = ALL in words or not words
    states = frozenset(_STATES if everything else [NodeState(word) for word in words if word != PREPARING])
    asked_for = excluded or "excluded" in words
    if excluded:
        states |= {NodeState.EXCLUDED}
    return Choice(states=states, excluded=asked_for, group=group, sort=sort, preparing=PREPARING in words)


def chosen_rows(survey: Survey, wanted: Choice) -> tuple[NodeRow, ...]:
    """The rows to show. Excluded nodes are among them only if asked for, or while they still have a pod of ours.

    With OnDelete no node is next by itself, so `old` means every pod that may be deleted.
    """
    states = wanted.states
    if NodeState.OLD in states and survey.daemonset.rolling_update is None:
        states |= {NodeState.NEXT}
    rows = [
        row
        for row in survey.in_update_order
        if (row.state in states or (wanted.preparing and row.preparing))
        and (wanted.group is None or row.group == wanted.group)
        and (row.state is not NodeState.EXCLUDED or wanted.excluded or row.pod is not None)
    ]
    return tuple(rows if wanted.sort == "update" else sorted(rows, key=_KEYS[wanted.sort]))


def check_group(survey: Survey, wanted: Choice) -> None:
    """Raises CommandError for a group without nodes; it lists the groups that exist."""
    groups = sorted({row.group for row in survey.rows})
    if wanted.group is None or wanted.group in groups:
        return
    if survey.snapshot.nodes is None:
        raise CommandError(f'which nodes are in "{wanted.group}" cannot be told without the right to list nodes')
    there = f": there are {', '.join(groups)}" if groups else ""
    raise CommandError(f'no node is in "{wanted.group}"{there}')


def footer(survey: Survey, rows: Sequence[NodeRow]) -> str:
    """Such as `4 of 24 nodes shown (--only all); 3 more nodes do not match (--excluded): 2 taint, 1
    node selector`."""
    shown = sum(row.state is not NodeState.EXCLUDED for row in rows)
    desired = survey.counts.desired
    words = [f"{counted(shown, 'node', of=desired)} shown" + ("" if shown == desired else " (--only all)")]
    named = {row.node for row in rows}
    hidden = [row.why for row in survey.rows if row.state is NodeState.EXCLUDED and row.node not in named]
    if hidden:
        whys = Counter("taint" if why.startswith("taint ") else why for why in hidden)  # their keys are in the table
        causes = ", ".join(f"{count} {why}" for why, count in whys.most_common())
        noun = "node does" if len(hidden) == 1 else "nodes do"
        words.append(f"{len(hidden)} more {noun} not match (--excluded): {causes}")
    return "; ".join(words)
