"""The record that `status` prints, read off one look at a rollout, and completed with words found elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from msgspec.structs import asdict, replace

from controller.api.base import JSON
from controller.api.daemonset import DaemonSetStatus, Phase, Rollout
from controller.api.meta import Key
from controller.planner.budget import Budget, budget_of
from controller.planner.states import NodeState
from kubectl_plugin.failures import CommandError
from kubectl_plugin.report.controller_account import stated_rollout
from kubectl_plugin.report.documents import API_VERSION
from kubectl_plugin.report.last_action import pause_of
from kubectl_plugin.report.node_row import NodeRow
from kubectl_plugin.report.pulls import counts_of
from kubectl_plugin.report.revisions.images import images_of
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.status.document import (
    BudgetUse,
    Group,
    ImageChange,
    Pause,
    Problem,
    RevisionNumbers,
    RolloutStatus,
    Strategy,
)
from kubectl_plugin.report.status.reasons import WRITES_FAIL, PhaseReason, reason_of, writes_fail
from kubectl_plugin.report.status.telling import Telling
from kubectl_plugin.report.steps import Steps, steps_of
from kubectl_plugin.report.survey import Survey
from kubectl_plugin.report.trouble import Trouble

Run: TypeAlias = tuple[Key, str, int]
"""A pod, one of its containers, and how often that was restarted."""

MOST: Final = 3
"""Problems that are looked into."""
_KUBELET: Final = "back-off "
"""How the kubelet's own words for a container that waits begin; they say nothing of why it ended."""


def rollout_status(told: Telling, survey: Survey) -> RolloutStatus:
    """What `told` was read off as well."""
    board = survey.board
    document = _document(
        told, survey.recorded, board.budget, board.revision.hash, reason=reason_of(survey), use=_budget(survey)
    )
    groups = _groups(survey.rows) if survey.snapshot.nodes is not None else ()
    preparing = tuple([one for row in survey.in_update_order for one in row.preparing])
    return replace(
        document,
        images=_images(survey),
        images_ahead=counts_of(survey.pulls.values()) if survey.pulls else None,
        groups=groups,
        problems=_problems(survey),
        preparing=preparing,
    )


def stated_status(told: Telling) -> RolloutStatus:
    """By the controller's own account, for who may not read pods, and for unreadable specs: no nodes by name, no
    problems. The counts add up all the same.
    """
    counts, limits = told.daemonset.status or DaemonSetStatus(), _limits(told)
    reason, use = PhaseReason(word="AsStated", text=told.why), _stated_budget(limits, counts)
    return _document(told, stated_rollout(told.daemonset), limits, counts.update_revision, reason=reason, use=use)


def _document(
    told: Telling, rollout: Rollout, limits: Budget, hash_: str, *, reason: PhaseReason, use: BudgetUse
) -> RolloutStatus:
    """`rollout`: the controller's record."""
    snapshot, daemonset = told.snapshot, told.daemonset
    return RolloutStatus(
        api_version=API_VERSION,
        kind="RolloutStatus",
        namespace=daemonset.namespace,
        name=daemonset.name,
        generation=daemonset.generation,
        phase=told.phase.value,
        since=rollout.last_transition_time if rollout.phase == told.phase else None,
        reason=reason.word,
        message=reason.text,
        revision=RevisionNumbers(current=told.revision, hash=hash_, previous=told.previous),
        strategy=_strategy(snapshot, limits),
        nodes=told.counts,
        budget=use,
        steps=_steps(snapshot, limits.desired),
        started_at=rollout.start_time,
        last_progress_at=rollout.last_progress_time,
        completed_at=rollout.completion_time,
        paused=_paused(snapshot, rollout),
        unreadable=snapshot.unread_words,
    )


def _budget(survey: Survey) -> BudgetUse:
    board = survey.board
    by = board.mid_surge if board.surging else board.unserved_nodes
    return BudgetUse(max=board.most, used=len(by), by=tuple(sorted(by)))


def _stated_budget(limits: Budget, counts: DaemonSetStatus) -> BudgetUse:
    """Who uses it is not known, nor how much of maxSurge is in use."""
    if limits.max_surge:
        return BudgetUse(max=limits.max_surge, used=None, by=())
    unserved = max(counts.desired_number_scheduled - counts.number_available, 0)
    return BudgetUse(max=limits.max_unavailable, used=unserved, by=())


def _limits(told: Telling) -> Budget:
    """All 0 where they cannot be read."""
    try:
        return budget_of(told.daemonset, told.counts.desired)
    except ValueError:
        return Budget(desired=told.counts.desired, max_unavailable=0, max_surge=0, partition=0, burst=0)


def _groups(rows: Iterable[NodeRow]) -> tuple[Group, ...]:
    """By key; nodes that should not run the pod are in none."""
    updated: dict[str, list[bool]] = {}
    for row in rows:
        if row.state is not NodeState.EXCLUDED:
            updated.setdefault(row.group, []).append(row.state in (NodeState.UPDATED, NodeState.UNPLANNED))
    return tuple(Group(key=key, nodes=len(of_it), updated=sum(of_it)) for key, of_it in sorted(updated.items()))


def _problems(survey: Survey) -> tuple[Problem, ...]:
    troubled = [(row, row.trouble) for row in survey.in_update_order if row.trouble is not None]
    troubled.sort(key=lambda one: one[0].state is not NodeState.FAILING)
    words = writes_fail(survey.daemonset)
    writes = (Problem(reason=WRITES_FAIL, message=words),) if words else ()
    return (*writes, *(_problem(row, trouble) for row, trouble in troubled))


def _problem(row: NodeRow, trouble: Trouble) -> Problem:
    pod = row.pod.pod.name if row.pod else ""
    return Problem(node=row.node, pod=pod, revision=row.revision, **asdict(trouble))


def _images(survey: Survey) -> dict[str, ImageChange]:
    if survey.former is None:
        return {}
    before = images_of(survey.former.revision.template)
    after = images_of(survey.daemonset.spec.template)
    return {
        name: ImageChange(before=before.get(name), after=after.get(name))
        for name in {**after, **before}
        if before.get(name) != after.get(name)
    }


def _strategy(snapshot: Snapshot, budget: Budget) -> Strategy:
    """`budget`: the limits in nodes."""
    daemonset, rolling = snapshot.daemonset, snapshot.daemonset.rolling_update
    return Strategy(
        type=daemonset.spec.update_strategy.type or "RollingUpdate",
        rolling_update_type=(rolling.rolling_update_type or "Standard") if rolling else None,
        max_unavailable=budget.max_unavailable,
        max_surge=budget.max_surge,
        partition=budget.partition,
        paused=daemonset.paused,
        selector=_selector(snapshot.document),
    )


def _selector(document: JSON) -> JSON:
    """As it is written, because a program may want to hand it on."""
    for field in ("spec", "updateStrategy", "rollingUpdate", "selector"):
        document = document.get(field) if isinstance(document, dict) else None
    return document


def _steps(snapshot: Snapshot, desired: int) -> Steps | None:
    """A list of steps that cannot be read is none: `promote` says what is wrong with it."""
    daemonset, rolling = snapshot.daemonset, snapshot.daemonset.rolling_update
    if rolling is None:
        return None
    try:
        return steps_of(daemonset.annotations, rolling.partition, desired)
    except (CommandError, ValueError):
        return None


def _paused(snapshot: Snapshot, rollout: Rollout) -> Pause | None:
    """`rollout`: the controller's record."""
    if not snapshot.daemonset.paused:
        return None
    action = pause_of(snapshot)
    if action is None:
        since = rollout.last_transition_time if rollout.phase == Phase.PAUSED else None
        return Pause(at=since or "", by="", reason="")
    return Pause(at=action.at, by=action.by, reason=action.reason)


def runs_without_words(status: RolloutStatus) -> list[Run]:
    return [_run(status, one) for one in status.problems[:MOST] if _lacks_words(one)]


def with_words(status: RolloutStatus, found: Mapping[Run, str]) -> RolloutStatus:
    """The kubelet's words are never kept: they are no reason."""
    worded = (
        replace(one, message=found.get(_run(status, one), "")) if _lacks_words(one) else one
        for one in status.problems
    )
    return replace(status, problems=tuple(worded))


def _lacks_words(problem: Problem) -> bool:
    ran = problem.exit_code is not None and problem.restarts > 0
    return ran and (not problem.message or problem.message.startswith(_KUBELET))


def _run(status: RolloutStatus, problem: Problem) -> Run:
    return Key(status.namespace, problem.pod), problem.container, problem.restarts
