"""The record of a rollout by the controller's own account: for who may not read pods, and for unreadable specs."""

from __future__ import annotations

from controller.api.daemonset import DaemonSetStatus, Phase
from controller.planner.budget import Budget, budget_of
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.report.documents import API_VERSION
from kubectl_plugin.report.overview import Line, line_of
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.stated import refusal_of, stated
from kubectl_plugin.report.status.document import BudgetUse, NodeCounts, RevisionNumbers, RolloutStatus
from kubectl_plugin.report.status.endings import Ending, Wanted, go_on, gone, well
from kubectl_plugin.report.status.reading import paused_by, steps_now, strategy_of


def stated_status(snapshot: Snapshot, why: str = "") -> RolloutStatus:
    """Less than `rollout_status` tells: no nodes by name, no problems. The counts add up all the same.

    `why` is the message where there is something to say.
    """
    daemonset, rollout, line = snapshot.daemonset, stated(snapshot.daemonset), line_of(snapshot)
    limits, counts = _limits(snapshot, line.desired), daemonset.status or DaemonSetStatus()
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
        strategy=strategy_of(snapshot, limits),
        nodes=_counts(counts, line),
        budget=_budget(limits, counts),
        groups=(),
        problems=(),
        steps=steps_now(snapshot, line.desired),
        started_at=rollout.start_time,
        last_progress_at=rollout.last_progress_time,
        completed_at=rollout.completion_time,
        paused=paused_by(snapshot, rollout),
        unreadable=snapshot.missing_rights,
    )


def stated_line(status: RolloutStatus) -> str:
    """`Progressing 4/8 updated, 2 updating: c-04 does not get ready`; see `line.status_line`."""
    moving = f", {status.nodes.updating} updating" if status.nodes.updating else ""
    return f"{stated_progress(status)}{moving}" + (f": {status.message}" if status.message else "")


def stated_progress(status: RolloutStatus) -> str:
    return f"{status.phase} {status.nodes.updated}/{status.nodes.target} updated"


def stated_ending(snapshot: Snapshot, status: RolloutStatus, wanted: Wanted) -> Ending | None:
    """As `endings.ending_of`, by the controller's word alone; what its pods do nobody knows."""
    phase = Phase(status.phase)
    if phase not in (Phase.PENDING, Phase.TERMINATING) and wanted.revision is not None:
        if status.revision.current is None:
            return untold_revision(status.name)
        if status.revision.current != wanted.revision:
            words = f"revision {wanted.revision} of {status.name} is not the one that is rolled out"
            return _failed(ExitCode.REFUSED, f"{words}: it is {status.revision.current} now")
    match phase:
        case Phase.HEALTHY:
            return well(status.name, status.nodes.desired)
        case Phase.HELD if not wanted.require_full:
            return Ending(code=ExitCode.DONE)
        case Phase.HELD:
            return _ended(status, ExitCode.WAITING, f"is held at {_on_it(status)}", go_on(snapshot.daemonset))
        case Phase.PAUSED:
            return _ended(status, ExitCode.WAITING, f"is paused at {_on_it(status)}", "resume")
        case Phase.MANUAL:
            words = f"waits for pods to be deleted, updateStrategy is OnDelete: {_on_it(status)}"
            return _ended(status, ExitCode.WAITING, words)
        case Phase.STALLED:
            refusal = refusal_of(snapshot.daemonset)
            words = f"is refused: {refusal}" if refusal else f"stalled at {_of_target(status)}"
            return _ended(status, ExitCode.STUCK, words)
        case Phase.DEGRADED if wanted.fail_fast:
            unserved = status.nodes.desired - status.nodes.available
            return _ended(status, ExitCode.STUCK, f"is over, but {unserved} nodes have no available pod")
        case Phase.TERMINATING:
            return gone(status.name)
    return None


def untold_revision(name: str) -> Ending:
    """Of who waits for a revision by its number and may not read the numbers."""
    words = f"which revision of {name} is rolled out cannot be told without the right to list controllerrevisions"
    return _failed(ExitCode.FAILED, words)


def stated_unfinished(status: RolloutStatus, after: str = "") -> Ending:
    """As `endings.unfinished`."""
    timed = f"timed out after {after}: " if after else ""
    words = f"{timed}daemonset.apps.kruise.io/{status.name} is at {_of_target(status)} ({status.phase})"
    return _failed(ExitCode.TIMED_OUT, words)


def _on_it(status: RolloutStatus) -> str:
    return f"{status.nodes.updated} of {status.nodes.desired} nodes"


def _of_target(status: RolloutStatus) -> str:
    return f"{status.nodes.updated} of {status.nodes.target} nodes"


def _ended(status: RolloutStatus, code: int, words: str, verb: str = "") -> Ending:
    hints = (f"kubectl kruise-ds {verb} {status.name} -n {status.namespace}",) if verb else ()
    return _failed(code, f"rollout of daemonset.apps.kruise.io/{status.name} {words}", *hints)


def _failed(code: int, words: str, *hints: str) -> Ending:
    return Ending(code=code, error=CommandError(words, hints=hints, exit_code=code))


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


def _revision(snapshot: Snapshot, line: Line) -> RevisionNumbers:
    status = snapshot.daemonset.status
    hash_ = status.update_revision if status else ""
    return RevisionNumbers(current=line.revision, hash=hash_, previous=None)


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
