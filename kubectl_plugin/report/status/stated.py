"""The record of a rollout by the controller's own account: for who may not read pods, and for unreadable specs."""

from __future__ import annotations

from controller.api.daemonset import DaemonSetStatus
from controller.planner.board import Budget, budget_of
from kubectl_plugin.report.documents import API_VERSION
from kubectl_plugin.report.overview import Line, line_of
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.stated import stated
from kubectl_plugin.report.status.document import BudgetUse, NodeCounts, RevisionNumbers, RolloutStatus
from kubectl_plugin.report.status.reading import strategy_of


def stated_status(snapshot: Snapshot, why: str = "") -> RolloutStatus:
    """Less than `rollout_status` tells: no nodes by name, no problems. The counts add up all the same.

    `why` is the message where there is something to say.
    """
    daemonset, rollout, line = snapshot.daemonset, stated(snapshot.daemonset), line_of(snapshot)
    return RolloutStatus(
        api_version=API_VERSION,
        kind="RolloutStatus",
        namespace=daemonset.namespace,
        name=daemonset.name,
        generation=daemonset.generation,
        phase=rollout.phase,
        since=rollout.last_transition_time,
        reason="AsStated",
        message=why or line.why,
        revision=_revision(snapshot, line),
        images={},
        strategy=strategy_of(snapshot, _limits(snapshot, line.desired)),
        nodes=_counts(daemonset.status or DaemonSetStatus(), line),
        budget=BudgetUse(max=0, used=0, by=()),
        groups=(),
        problems=(),
        steps=None,
        started_at=rollout.start_time,
        last_progress_at=rollout.last_progress_time,
        completed_at=rollout.completion_time,
        paused=None,
        unreadable=snapshot.missing_rights,
    )


def _limits(snapshot: Snapshot, desired: int) -> Budget:
    """All 0 where they cannot be read."""
    try:
        return budget_of(snapshot.daemonset, desired)
    except ValueError:
        return Budget(desired=desired, max_unavailable=0, max_surge=0, partition=0, burst=0)


def _revision(snapshot: Snapshot, line: Line) -> RevisionNumbers:
    status = snapshot.daemonset.status
    hash_ = status.update_revision if status else ""
    return RevisionNumbers(current=line.revision or 0, hash=hash_, previous=None)


def _counts(status: DaemonSetStatus, line: Line) -> NodeCounts:
    """Nodes with a new pod that is not available yet are told as updating, with an old one as old."""
    updated = min(status.updated_number_scheduled, line.desired)
    done = min(line.done, updated)
    missing = max(line.desired - status.current_number_scheduled, 0)
    return NodeCounts(
        desired=line.desired,
        target=line.target,
        updated=done,
        updating=updated - done,
        failing=0,
        next=0,
        old=line.desired - updated - missing,
        available=status.number_available,
        unplanned=0,
        missing=missing,
    )
