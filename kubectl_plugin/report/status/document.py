"""`RolloutStatus`: what `status -o json` prints, one documented record of a rollout.

Within `kruise-ds/v1` keys are only added, never renamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus, Phase, Rollout
from controller.api.objects import JSONObject, Value
from controller.planner.explanation import NodeState
from controller.planner.limits import Budget
from kubectl_plugin.failures import CommandError
from kubectl_plugin.report.documents import API_VERSION
from kubectl_plugin.report.last_action import pause_of
from kubectl_plugin.report.node_row import NodeCounts, NodeRow
from kubectl_plugin.report.preparing import Preparing
from kubectl_plugin.report.pulls import PullCounts, counts_of
from kubectl_plugin.report.revisions.images import images_of
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.stated_status import stated_rollout
from kubectl_plugin.report.status.brief import Brief
from kubectl_plugin.report.status.problems import Problem, problems_of
from kubectl_plugin.report.status.reasons import PhaseReason, reason_of
from kubectl_plugin.report.status.strategy import (
    BudgetUse,
    Strategy,
    budget_use,
    limits_of,
    stated_budget_use,
    strategy_of,
)
from kubectl_plugin.report.steps import Steps, steps_of
from kubectl_plugin.report.survey import Survey


class RevisionNumbers(Value, rename="camel"):
    current: int | None
    """None without the right to list the revisions."""
    hash: str
    previous: int | None
    """The newest older one that nodes still have; None for the first revision."""

    @property
    def shown(self) -> str:
        """The current number, or `?`, for people."""
        return "?" if self.current is None else str(self.current)


class ImageChange(Value, rename={"before": "from", "after": "to"}):
    """The images of one container. None: the container does not exist on that side."""

    before: str | None
    after: str | None


class Group(Value, rename="camel"):
    key: str
    nodes: int
    updated: int


class PauseNote(Value, rename="camel"):
    """Who paused it, when and why; the texts are empty if that was not recorded."""

    at: str
    by: str
    reason: str


class RolloutStatus(Value, rename="camel", kw_only=True):
    api_version: str
    kind: str
    namespace: str
    name: str
    generation: int
    phase: Phase
    since: str | None
    """When that phase began."""
    reason: str
    message: str
    revision: RevisionNumbers
    images: Mapping[str, ImageChange] = {}
    """The images that change, by container."""
    strategy: Strategy
    nodes: NodeCounts
    budget: BudgetUse
    groups: tuple[Group, ...] = ()
    """Empty without the right to list nodes."""
    problems: tuple[Problem, ...] = ()
    """Writes that fail first, then nodes with a pod of the new revision, in update order."""
    preparing: tuple[Preparing, ...] = ()
    """Pods that the preDelete hook holds, in update order; empty without the right to read pods."""
    steps: Steps | None
    started_at: str | None
    last_progress_at: str | None
    completed_at: str | None
    paused: PauseNote | None
    images_ahead: PullCounts | None = None
    """How many nodes have the images that are pulled ahead of the update; None if none are."""
    unreadable: tuple[str, ...]
    """What may not be read, and is therefore missing here."""

    @property
    def document(self) -> JSONObject:
        """The same as JSON."""
        made: JSONObject = msgspec.to_builtins(self)
        return made


def rollout_status(brief: Brief) -> RolloutStatus:
    """The status. Where the nodes cannot be listed one by one it lacks what only they tell; the
    counts still add up."""
    if brief.survey is None:
        return _stated(brief)
    survey, rollout = brief.survey, brief.survey.rollout
    document = _document(
        brief,
        survey.recorded,
        rollout.budget,
        rollout.revision.hash,
        reason=reason_of(survey),
        use=budget_use(survey),
    )
    return replace(
        document,
        images=_images(survey),
        images_ahead=counts_of(survey.pulls.values()) if survey.pulls else None,
        groups=_groups(survey.rows) if survey.snapshot.nodes is not None else (),
        problems=problems_of(survey),
        preparing=tuple([one for row in survey.in_update_order for one in row.preparing]),
    )


def _stated(brief: Brief) -> RolloutStatus:
    """The status by the controller's own account, for users who may not read pods and for specs
    that cannot be used."""
    daemonset, counts = brief.daemonset, brief.daemonset.status or DaemonSetStatus()
    limits = limits_of(daemonset, brief.counts.desired)
    reason, use = PhaseReason(word="AsStated", text=brief.why), stated_budget_use(limits, counts)
    return _document(brief, stated_rollout(daemonset), limits, counts.update_revision, reason=reason, use=use)


def _document(
    brief: Brief, rollout: Rollout, limits: Budget, hash_: str, *, reason: PhaseReason, use: BudgetUse
) -> RolloutStatus:
    """`rollout`: the controller's record."""
    snapshot, daemonset = brief.snapshot, brief.daemonset
    return RolloutStatus(
        api_version=API_VERSION,
        kind="RolloutStatus",
        namespace=daemonset.namespace,
        name=daemonset.name,
        generation=daemonset.generation,
        phase=brief.phase,
        since=rollout.last_transition_time if rollout.phase == brief.phase else None,
        reason=reason.word,
        message=reason.text,
        revision=RevisionNumbers(current=brief.revision, hash=hash_, previous=brief.previous_number),
        strategy=strategy_of(snapshot, limits),
        nodes=brief.counts,
        budget=use,
        steps=_steps(snapshot, limits.desired),
        started_at=rollout.start_time,
        last_progress_at=rollout.last_progress_time,
        completed_at=rollout.completion_time,
        paused=_paused(snapshot, rollout),
        unreadable=snapshot.unread_words,
    )


def _groups(rows: Iterable[NodeRow]) -> tuple[Group, ...]:
    """Groups by key; nodes that should not run the pod belong to none."""
    updated: dict[str, list[bool]] = {}
    for row in rows:
        if row.state is not NodeState.EXCLUDED:
            updated.setdefault(row.group, []).append(row.state in (NodeState.UPDATED, NodeState.UNPLANNED))
    return tuple(Group(key=key, nodes=len(of_it), updated=sum(of_it)) for key, of_it in sorted(updated.items()))


def _images(survey: Survey) -> dict[str, ImageChange]:
    if survey.previous_revision is None:
        return {}
    before = images_of(survey.previous_revision.revision.template)
    after = images_of(survey.daemonset.spec.template)
    return {
        name: ImageChange(before=before.get(name), after=after.get(name))
        for name in {**after, **before}
        if before.get(name) != after.get(name)
    }


def _steps(snapshot: Snapshot, desired: int) -> Steps | None:
    """None also for an invalid list of steps: `promote` says what is wrong with it."""
    daemonset, rolling = snapshot.daemonset, snapshot.daemonset.rolling_update
    if rolling is None:
        return None
    try:
        return steps_of(daemonset.annotations, rolling.partition, desired)
    except (CommandError, ValueError):
        return None


def _paused(snapshot: Snapshot, rollout: Rollout) -> PauseNote | None:
    """`rollout`: the controller's record."""
    if not snapshot.daemonset.paused:
        return None
    action = pause_of(snapshot)
    if action is None:
        since = rollout.last_transition_time if rollout.phase == Phase.PAUSED else None
        return PauseNote(at=since or "", by="", reason="")
    return PauseNote(at=action.at, by=action.by, reason=action.reason)
