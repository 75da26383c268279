"""The status of a rollout in brief: all that the one-line summary and the end of a wait are decided from. It is made
from the nodes or, if these could not be read, from the controller's status.
"""

from __future__ import annotations

from typing import Final

from controller.api.daemonset import DaemonSet, DaemonSetStatus, Phase, Rollout
from controller.api.objects import Value, epoch
from controller.planner.explanation import NodeState
from controller.planner.progress import due_at
from kubectl_plugin.report.last_action import paused_words
from kubectl_plugin.report.node_row import NodeCounts
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.stated_status import phase_in, refusal_of, stated_rollout
from kubectl_plugin.report.status.reasons import (
    awaited_nodes_words,
    failing_words,
    reason_of,
    refused_writes_words,
    stated_reason_words,
    without_pod_name,
)
from kubectl_plugin.report.survey import Survey

GRACE: Final = 60.0
"""Seconds by which a deadline may have passed before the controller notices it."""


class Brief(Value):
    """What one line can say of a rollout. `brief_of` makes it from the nodes, `stated_brief` from the controller's
    status.
    """

    snapshot: Snapshot
    phase: Phase
    revision: int | None
    """Number of the revision that is rolled out; None if it cannot be known."""
    counts: NodeCounts
    done: int
    """How many of `counts.target` nodes are done."""
    moving: str
    """How many nodes are being updated, in words."""
    why: str
    """Why it waits; empty if it waits for nothing."""
    refused: str
    """Why the controller cannot use the spec, in words; empty if it can."""
    survey: Survey | None = None
    """The survey that this was made from; None: it was made from the controller's status."""

    @property
    def previous_number(self) -> int | None:
        """Number of the revision that is replaced; None if there is none to go back to."""
        return self.survey.previous_number if self.survey is not None else None

    @property
    def failing(self) -> str:
        """The nodes that will not become ready by themselves, in words."""
        return failing_words(self.survey.rows_in(NodeState.FAILING)) if self.survey is not None else ""

    @property
    def controller_agrees(self) -> bool:
        """Whether the controller's status says the same."""
        return self.survey is None or self.survey.controller_agrees

    @property
    def certain(self) -> bool:
        """Whether Stalled, if that is the phase, is beyond doubt."""
        return self.survey is None or is_certain(self.survey)

    @property
    def degraded_for_long(self) -> bool:
        """Whether the phase, if it is Degraded, has been so for longer than the progress deadline."""
        return is_degraded_for_long(self.snapshot)

    @property
    def daemonset(self) -> DaemonSet:
        return self.snapshot.daemonset

    @property
    def writes(self) -> str:
        """Why the server refuses the controller's writes; empty while they succeed."""
        return refused_writes_words(self.daemonset)

    @property
    def awaited_nodes(self) -> str:
        """The unreachable nodes for which everything that is left waits, in words; empty if something else is
        left."""
        return awaited_nodes_words(self.snapshot, self.survey)

    @property
    def progress(self) -> str:
        """`Progressing 4/8 updated`."""
        return f"{self.phase} {self.done}/{self.counts.target} updated"

    @property
    def line(self) -> str:
        """Such as `Progressing 4/8 updated, 1 updating, 1 failing (c-04 CrashLoopBackOff)`. It contains no ages, so
        that it changes only when something happens.
        """
        moved = f"{self.progress}, {self.moving}" if self.moving else self.progress
        return f"{moved}: {self.why}" if self.why else moved

    @property
    def milestone(self) -> str:
        """A key that changes when `line` is worth printing again, which is not at every pod that comes or goes."""
        if self.phase is not Phase.PROGRESSING:
            return self.line
        return f"{self.progress} {self.failing} {bool(self.writes)} {self.awaited_nodes}"


def brief_of(survey: Survey) -> Brief:
    """Made from the nodes."""
    return Brief(
        snapshot=survey.snapshot,
        phase=survey.phase,
        revision=survey.current,
        counts=survey.counts,
        done=survey.record.done,
        moving=_moving_words(survey),
        why=_why_words(survey),
        refused=without_pod_name(survey.standing.refused),
        survey=survey,
    )


def stated_brief(snapshot: Snapshot) -> Brief:
    """Made from the controller's status, where the nodes cannot be listed one by one."""
    daemonset, rollout = snapshot.daemonset, stated_rollout(snapshot.daemonset)
    counts = _stated_counts(daemonset.status or DaemonSetStatus(), rollout)
    of_this_spec = (one.revision.number for one in snapshot.revisions if one.revision.identity == daemonset.identity)
    return Brief(
        snapshot=snapshot,
        phase=phase_in(rollout),
        revision=next(of_this_spec, None),
        counts=counts,
        done=rollout.done,
        moving=f"{counts.updating} updating" if counts.updating else "",
        why=stated_reason_words(snapshot),
        refused=without_pod_name(refusal_of(daemonset)),
    )


def is_certain(survey: Survey) -> bool:
    """Whether the controller agrees, or would by now: the API server's clock may be ahead of the controller's."""
    rollout = survey.recorded
    overdue = survey.snapshot.now - due_at(rollout, survey.daemonset.progress_deadline)
    return rollout.phase == Phase.STALLED or overdue >= GRACE


def is_degraded_for_long(snapshot: Snapshot) -> bool:
    """Whether the controller's record has been Degraded for longer than the progress deadline, not counting the time
    in which it was so because of unreachable nodes only. The controller itself leaves it at Degraded then: the
    rollout is over."""
    rollout = stated_rollout(snapshot.daemonset)
    since = max(epoch(rollout.last_transition_time) or 0.0, epoch(rollout.last_progress_time) or 0.0)
    if rollout.phase != Phase.DEGRADED or rollout.nodes_unreachable_since or not since:
        return False
    return snapshot.now - since >= snapshot.daemonset.progress_deadline


def _stated_counts(status: DaemonSetStatus, rollout: Rollout) -> NodeCounts:
    """A node whose new pod is not available yet counts as updating; one with an old pod counts as old."""
    desired = status.desired_number_scheduled
    updated = min(status.updated_number_scheduled, desired)
    done = min(rollout.done, updated)
    missing = max(desired - status.current_number_scheduled, 0)
    return NodeCounts(
        desired=desired,
        target=rollout.target,
        updated=done,
        updating=updated - done,
        failing=0,
        next=0,
        old=desired - updated - missing,
        available=status.number_available,
        unplanned=0,
        missing=missing,
    )


def _moving_words(survey: Survey) -> str:
    """The counts of a rollout that is Progressing; empty in other phases, where the line says why instead."""
    if survey.phase is not Phase.PROGRESSING:
        return ""
    counts, failed = survey.counts, survey.rows_in(NodeState.FAILING)
    parts = [f"{counts.updating} updating"]
    parts += [f"{counts.missing} missing"] if counts.missing else []
    parts += [f"{len(failed)} failing ({failing_words(failed)})"] if failed else []
    return ", ".join(parts)


def _why_words(survey: Survey) -> str:
    paused = paused_words(survey.snapshot)
    if survey.phase is Phase.PROGRESSING:
        awaited = awaited_nodes_words(survey.snapshot, survey)
        return refused_writes_words(survey.daemonset) or awaited or paused
    if survey.phase is Phase.PAUSED:
        return reason_of(survey).text
    return "; ".join(filter(None, (reason_of(survey).text, paused)))
