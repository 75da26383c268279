"""The record of a rollout by the controller's own account: for who may not read pods, and for unreadable specs."""

from __future__ import annotations

from controller.api.daemonset import DaemonSetStatus
from controller.planner.budget import Budget, budget_of
from kubectl_plugin.report.documents import API_VERSION
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.stated import stated
from kubectl_plugin.report.status.document import BudgetUse, NodeCounts, RevisionNumbers, RolloutStatus
from kubectl_plugin.report.status.reading import paused_by, steps_now, strategy_of
from kubectl_plugin.report.status.telling import Telling


def stated_status(told: Telling) -> RolloutStatus:
    """Less than `rollout_status` tells: no nodes by name, no problems. The counts add up all the same."""
    snapshot, daemonset, rollout = told.snapshot, told.daemonset, stated(told.daemonset)
    limits, counts = _limits(snapshot, told.desired), daemonset.status or DaemonSetStatus()
    return RolloutStatus(
        api_version=API_VERSION,
        kind="RolloutStatus",
        namespace=daemonset.namespace,
        name=daemonset.name,
        generation=daemonset.generation,
        phase=told.phase.value,
        since=rollout.last_transition_time,
        reason="AsStated",
        message=told.why,
        revision=RevisionNumbers(current=told.revision, hash=counts.update_revision, previous=None),
        images={},
        strategy=strategy_of(snapshot, limits),
        nodes=_counts(counts, told),
        budget=_budget(limits, counts),
        groups=(),
        problems=(),
        steps=steps_now(snapshot, told.desired),
        started_at=rollout.start_time,
        last_progress_at=rollout.last_progress_time,
        completed_at=rollout.completion_time,
        paused=paused_by(snapshot, rollout),
        unreadable=snapshot.missing_rights,
    )


def _budget(limits: Budget, counts: DaemonSetStatus) -> BudgetUse:
    """Who uses it is not known, nor how much of maxSurge is in use."""
    if limits.max_surge:
        return BudgetUse(max=limits.max_surge, used=None, by=())
    unserved = max(counts.desired_number_scheduled - counts.number_available, 0)
    return BudgetUse(max=limits.max_unavailable, used=unserved, by=())


def _limits(snapshot: Snapshot, desired: int) -> Budget:
    """All 0 where they cannot be read."""
    try:
        return budget_of(snapshot.daemonset, desired)
    except ValueError:
        return Budget(desired=desired, max_unavailable=0, max_surge=0, partition=0, burst=0)


def _counts(status: DaemonSetStatus, told: Telling) -> NodeCounts:
    """Nodes with a new pod that is not available yet are told as updating, with an old one as old."""
    updated = min(status.updated_number_scheduled, told.desired)
    done = min(told.done, updated)
    missing = max(told.desired - status.current_number_scheduled, 0)
    return NodeCounts(
        desired=told.desired,
        target=told.target,
        updated=done,
        updating=updated - done,
        failing=0,
        next=0,
        old=told.desired - updated - missing,
        available=status.number_available,
        unplanned=0,
        missing=missing,
    )
