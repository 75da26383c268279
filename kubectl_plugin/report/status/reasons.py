"""Why a rollout is in its phase: a word for programs, and words for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from controller.api.base import Value
from controller.api.daemonset import Phase
from controller.api.wellknown import INVALID_SPEC, PROGRESS_DEADLINE_EXCEEDED, TEMPLATE_REFUSED
from controller.planner.eligibility import Fit
from controller.planner.rollout import blocker
from kubectl_plugin.durations import short
from kubectl_plugin.report.node_row import NodeRow, NodeState
from kubectl_plugin.report.survey import Survey

SHOWN: Final = 3
"""Names of nodes in a sentence; of more only how many they are."""


class Reason(Value):
    word: str
    text: str


def reason_of(survey: Survey) -> Reason:
    match survey.phase:
        case Phase.TERMINATING:
            return Reason(word="Deleting", text="it is being deleted")
        case Phase.PENDING:
            return Reason(word="NotObserved", text=_not_observed(survey))
        case Phase.MANUAL:
            left = survey.standing.outdated
            return Reason(word="OnDelete", text=f"{left} old pods change when they are deleted")
        case Phase.PAUSED:
            return Reason(word="Paused", text=f"{survey.standing.outdated} nodes wait for resume")
        case Phase.STALLED if survey.standing.refused:
            return Reason(word=_refused_word(survey), text=survey.standing.refused)
        case Phase.STALLED:
            return Reason(word=PROGRESS_DEADLINE_EXCEEDED, text=_stuck(survey))
        case Phase.HELD:
            return _held(survey)
        case Phase.HEALTHY:
            return Reason(word="RolloutComplete", text="")
        case Phase.DEGRADED:
            return Reason(word="PodsUnavailable", text=_waiting_for(survey))
    return _progressing(survey)


def rows_in(survey: Survey, *states: NodeState) -> list[NodeRow]:
    """The nodes in any of these states, in update order."""
    return [row for row in survey.in_update_order if row.state in states]


def some(names: Iterable[str], most: int = SHOWN) -> str:
    """`c-03, c-02 and 5 more`."""
    listed = list(names)
    if len(listed) <= most + 1:
        return ", ".join(listed)
    return f"{', '.join(listed[:most])} and {len(listed) - most} more"


def failing(rows: Sequence[NodeRow]) -> str:
    """`c-04 CrashLoopBackOff`."""
    return some(f"{row.node} {row.trouble.reason}" if row.trouble else row.node for row in rows)


def _progressing(survey: Survey) -> Reason:
    stopped = blocker(survey.board)
    if stopped is not None:
        return Reason(word=stopped.reason, text=stopped.text)
    board = survey.board
    text = _waiting_for(survey)
    if not survey.counts.next:
        return Reason(word="PodsStarting" if survey.counts.missing == 0 else "PodsMissing", text=text)
    if board.surging and board.surge_in_use >= board.budget.max_surge:
        return Reason(word="MaxSurgeInUse", text=text)
    if not board.surging and board.unserved >= board.budget.max_unavailable:
        return Reason(word="MaxUnavailableInUse", text=text)
    return Reason(word="Updating", text=text)


def _waiting_for(survey: Survey) -> str:
    """Who may get well by itself comes first."""
    starting = rows_in(survey, NodeState.UPDATING)
    if starting:
        return f"waiting for {some(row.node for row in starting)}"
    failed = rows_in(survey, NodeState.FAILING)
    if failed:
        return failing(failed)
    lacking = rows_in(survey, NodeState.MISSING, NodeState.DELETING)
    if lacking:
        return f"waiting for a pod on {some(row.node for row in lacking)}"
    unserved = [slot.node for slot in reversed(survey.board.slots) if slot.fit is Fit.RUN and not slot.serves]
    return f"waiting for {some(unserved)}" if unserved else ""


def _not_observed(survey: Survey) -> str:
    status = survey.daemonset.status
    seen = status.observed_generation if status else 0
    return f"waiting for a controller to see generation {survey.daemonset.generation} (last seen: {seen or 'none'})"


def _refused_word(survey: Survey) -> str:
    status = survey.daemonset.status
    for one in (status.conditions if status else None) or ():
        if one.get("reason") == INVALID_SPEC:
            return INVALID_SPEC
    return TEMPLATE_REFUSED


def _stuck(survey: Survey) -> str:
    parts = [f"no progress for {short(survey.daemonset.progress_deadline)}", _waiting_for(survey)]
    return ", ".join(part for part in parts if part)


def _held(survey: Survey) -> Reason:
    board, kept = survey.board, survey.standing.kept
    if not board.budget.partition or survey.standing.target < board.quota:
        return Reason(word="SelectorReached", text=f"rollingUpdate.selector leaves out {kept} old ones")
    return Reason(word="PartitionReached", text=f"partition {board.budget.partition} keeps {kept} old")
