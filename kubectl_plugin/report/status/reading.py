"""The record that `status` prints, read off one look at a rollout."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from controller.api.base import JSON
from controller.api.daemonset import Phase, Rollout
from controller.planner.budget import Budget
from controller.planner.states import NodeState
from kubectl_plugin.failures import CommandError
from kubectl_plugin.report.documents import API_VERSION
from kubectl_plugin.report.last_action import pause_of
from kubectl_plugin.report.node_row import NodeRow
from kubectl_plugin.report.revisions.images import images_of
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.status.document import (
    BudgetUse,
    Group,
    ImageChange,
    NodeCounts,
    Pause,
    Problem,
    RevisionNumbers,
    RolloutStatus,
    StepsNow,
    Strategy,
)
from kubectl_plugin.report.status.reasons import WRITES_FAIL, reason_of, writes_fail
from kubectl_plugin.report.steps import steps_of
from kubectl_plugin.report.survey import Survey


def rollout_status(survey: Survey) -> RolloutStatus:
    """The record of one look."""
    daemonset, counts, rollout = survey.daemonset, survey.counts, survey.recorded
    reason = reason_of(survey)
    return RolloutStatus(
        api_version=API_VERSION,
        kind="RolloutStatus",
        namespace=daemonset.namespace,
        name=daemonset.name,
        generation=daemonset.generation,
        phase=survey.phase.value,
        since=rollout.last_transition_time if rollout.phase == survey.phase else None,
        reason=reason.word,
        message=reason.text,
        revision=RevisionNumbers(current=survey.current, hash=survey.board.revision.hash, previous=survey.previous),
        images=_images(survey),
        strategy=strategy_of(survey.snapshot, survey.board.budget),
        nodes=NodeCounts(**msgspec.structs.asdict(counts)),
        budget=_budget(survey),
        groups=_groups(survey.rows) if survey.snapshot.nodes is not None else (),
        problems=_problems(survey),
        steps=steps_now(survey.snapshot, survey.board.budget.desired),
        started_at=rollout.start_time,
        last_progress_at=rollout.last_progress_time,
        completed_at=rollout.completion_time,
        paused=paused_by(survey.snapshot, rollout),
        unreadable=survey.snapshot.missing_rights,
    )


def _budget(survey: Survey) -> BudgetUse:
    board = survey.board
    most = board.budget.max_surge if board.surging else board.budget.max_unavailable
    by = board.mid_surge if board.surging else board.unserved_nodes
    return BudgetUse(max=most, used=len(by), by=tuple(sorted(by)))


def _groups(rows: Iterable[NodeRow]) -> tuple[Group, ...]:
    """By key; nodes that should not run the pod are in none."""
    found: dict[str, list[int]] = {}
    for row in rows:
        if row.state is not NodeState.EXCLUDED:
            tally = found.setdefault(row.group, [0, 0])
            tally[0] += 1
            tally[1] += row.state in (NodeState.UPDATED, NodeState.UNPLANNED)
    return tuple(Group(key=key, nodes=found[key][0], updated=found[key][1]) for key in sorted(found))


def _problems(survey: Survey) -> tuple[Problem, ...]:
    troubled = [row for row in survey.in_update_order if row.trouble is not None]
    troubled.sort(key=lambda row: row.state is not NodeState.FAILING)
    words = writes_fail(survey.daemonset)
    return (*((_of_writes(words),) if words else ()), *(_problem(row) for row in troubled))


def _of_writes(words: str) -> Problem:
    return Problem(
        node="", pod="", container="", reason=WRITES_FAIL, restarts=0, exit_code=None, message=words, revision=None
    )


def _problem(row: NodeRow) -> Problem:
    assert row.trouble is not None, "only troubled nodes are asked about"
    trouble = row.trouble
    return Problem(
        node=row.node,
        pod=row.pod.pod.name if row.pod else "",
        container=trouble.container,
        reason=trouble.reason,
        restarts=trouble.restarts,
        exit_code=trouble.exit_code,
        message=trouble.message,
        revision=row.revision,
    )


def _images(survey: Survey) -> dict[str, ImageChange]:
    if survey.former is None:
        return {}
    before = images_of(survey.former.revision.template)
    after = images_of(survey.daemonset.spec.template)
    names = [*after, *(name for name in before if name not in after)]
    return {
        name: ImageChange(before=before.get(name), after=after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    }


def strategy_of(snapshot: Snapshot, budget: Budget) -> Strategy:
    """`budget`: the limits in nodes."""
    daemonset, rolling = snapshot.daemonset, snapshot.daemonset.rolling_update
    return Strategy(
        type=daemonset.spec.update_strategy.type or "RollingUpdate",
        rolling_update_type=(rolling.rolling_update_type or "Standard") if rolling else None,
        max_unavailable=budget.max_unavailable,
        max_surge=budget.max_surge,
        partition=budget.partition,
        paused=rolling is not None and rolling.paused,
        selector=_selector(snapshot.document),
    )


def _selector(document: JSON) -> JSON:
    """As it is written, because a program may want to hand it on."""
    for field in ("spec", "updateStrategy", "rollingUpdate", "selector"):
        document = document.get(field) if isinstance(document, dict) else None
    return document


def steps_now(snapshot: Snapshot, desired: int) -> StepsNow | None:
    """A list of steps that cannot be read is none: `promote` says what is wrong with it."""
    daemonset, rolling = snapshot.daemonset, snapshot.daemonset.rolling_update
    if rolling is None:
        return None
    try:
        steps = steps_of(daemonset.annotations, rolling.partition, desired)
    except (CommandError, ValueError):
        return None
    if steps is None:
        return None
    return StepsNow(values=steps.values, index=steps.index, count=steps.count, next=steps.next)


def paused_by(snapshot: Snapshot, rollout: Rollout) -> Pause | None:
    """`rollout`: the controller's record."""
    rolling = snapshot.daemonset.rolling_update
    if rolling is None or not rolling.paused:
        return None
    action = pause_of(snapshot.daemonset)
    if action is None:
        since = rollout.last_transition_time if rollout.phase == Phase.PAUSED else None
        return Pause(at=since or "", by="", reason="")
    return Pause(at=action.at, by=action.by, reason=action.reason)
