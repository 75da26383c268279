"""A rollout by its nodes: the planner's own state, and a row per node that says how it stands and why."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

import msgspec
from msgspec.structs import replace

from controller.api import formats
from controller.api.daemonset import DaemonSet, DaemonSetStatus, Phase, Rollout
from controller.api.names import DEGRADED, INVALID_SPEC, TEMPLATE_REFUSED
from controller.api.objects import JSON, JSONObject, Value
from controller.planner.explanation import Explainer, NodeState
from controller.planner.progress import Standing, advance, due_at, phase_of, standing_of
from controller.planner.rollout_state import RolloutState, rollout_state
from kubectl_plugin.errors import CommandError
from kubectl_plugin.rollout.nodes import NodeCounts, NodeRow, RowReader
from kubectl_plugin.rollout.snapshot import NodePull, RevisionDetail, Snapshot, worst_pulls
from kubectl_plugin.rollout.world_of import unpulled_of, world_with


class StatedCondition(Value):
    """A condition of the status; fields that are missing, or no text, are empty."""

    status: str
    reason: str
    message: str
    is_current: bool
    """Whether it was written for the newest spec."""


def record_of(daemonset: DaemonSet) -> Rollout:
    """The rollout record in the status. A controller that keeps none gets one made from its counts, without times."""
    status = daemonset.status
    if daemonset.terminating:
        return Rollout(phase=Phase.TERMINATING)
    if status is None or not is_observed(daemonset):
        return Rollout(phase=Phase.PENDING)
    if status.rollout is not None and status.rollout.phase:
        return status.rollout
    standing = _standing(daemonset, status)
    return Rollout(phase=phase_of(standing), target=standing.target, done=standing.done)


def phase_in(rollout: Rollout) -> Phase:
    """The phase of the record. A word that is unknown here, as of a later controller, counts as Progressing: that is
    neither an end nor a failure, so that a wait goes on.
    """
    return next((one for one in Phase if one == rollout.phase), Phase.PROGRESSING)


def _standing(daemonset: DaemonSet, status: DaemonSetStatus) -> Standing:
    """Worked out from the counts alone, which do not tell the nodes of `rollingUpdate.selector` from the others."""
    desired, updated = status.desired_number_scheduled, status.updated_number_scheduled
    target = _target(daemonset, status)
    return Standing(
        on_delete=daemonset.rolling_update is None,
        paused=daemonset.paused,
        desired=desired,
        target=target,
        updated=updated,
        done=min(target, updated, status.number_available),
        available=status.number_available,
        outdated=max(target - updated, 0),
        kept=max(desired - max(target, updated), 0),
        completed=updated >= target,
    )


def _target(daemonset: DaemonSet, status: DaemonSetStatus) -> int:
    """The number of nodes to update. A partition only keeps old pods: where there is none, and nodes lack their pod,
    all nodes count."""
    desired, rolling = status.desired_number_scheduled, daemonset.rolling_update
    if rolling is None or status.updated_number_scheduled >= status.current_number_scheduled < desired:
        return desired
    try:
        return max(desired - max(formats.scaled(rolling.partition, desired, round_up=False), 0), 0)
    except ValueError:
        return desired


def is_observed(daemonset: DaemonSet) -> bool:
    """Whether a controller has seen the newest spec, perhaps only to report that it cannot be used."""
    status = daemonset.status
    seen = status is not None and status.observed_generation >= daemonset.generation
    return seen or bool(refusal_of(daemonset))


def refusal_of(daemonset: DaemonSet) -> str:
    """Why the controller can do nothing with this very spec, in the server's or its own words; empty while it can.

    Only the controller knows this: it asks the server once, by a dry run, whether it would accept a new pod.
    """
    found = condition(daemonset, DEGRADED)
    refused = found.is_current and found.reason in (TEMPLATE_REFUSED, INVALID_SPEC)
    return found.message or found.reason if refused else ""


def is_unusable(daemonset: DaemonSet) -> bool:
    """Whether the controller refused this very spec itself, and not only the pods that would be made of it."""
    found = condition(daemonset, DEGRADED)
    return found.is_current and found.reason == INVALID_SPEC


def condition(daemonset: DaemonSet, kind: str) -> StatedCondition:
    """The condition of that type; empty if there is none."""
    found: JSONObject = next((one for one in daemonset.conditions if one.get("type") == kind), {})
    return StatedCondition(
        status=_text(found.get("status")),
        reason=_text(found.get("reason")),
        message=_text(found.get("message")),
        is_current=found.get("observedGeneration") == daemonset.generation,
    )


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""


class UnreadableSpecError(CommandError):
    """Placement, selector or limits are invalid, so that the nodes cannot be listed one by one."""


GRACE: Final = 60.0
"""Seconds by which a deadline may have passed before the controller notices it."""


class Survey(Value, dict=True, gc=True):
    """How a rollout stands, by its nodes and pods: made by `survey`."""

    snapshot: Snapshot
    explainer: Explainer
    standing: Standing
    record: Rollout
    """The state of the rollout by the pods that were read; the controller's own record may be a moment older."""
    rows: tuple[NodeRow, ...]
    """One row per node, by ascending name; after them deleted nodes that still have pods."""

    pulls: Mapping[str, NodePull]
    """The nodes for which images of the newest revision are pulled ahead."""

    @property
    def phase(self) -> Phase:
        return phase_in(self.record)

    @property
    def rollout(self) -> RolloutState:
        return self.explainer.rollout

    @property
    def daemonset(self) -> DaemonSet:
        return self.snapshot.daemonset

    @cached_property
    def current(self) -> int | None:
        """Number of the revision that is rolled out; None without the right to list revisions."""
        return self.rollout.revision.number if self.snapshot.revisions_readable else None

    @cached_property
    def previous_revision(self) -> RevisionDetail | None:
        """The revision that is replaced: the newest older one that nodes still have, else the newest older one."""
        by_uid = {one.revision.uid: one for one in self.snapshot.revisions}
        older = [by_uid[one.uid] for one in self.rollout.older if one.uid in by_uid]
        carried = {row.pod.pod.hash for row in self.rows if row.pod is not None}
        return next((one for one in older if one.revision.hash in carried), older[0] if older else None)

    @property
    def previous_number(self) -> int | None:
        """Number of `previous_revision`; None without one."""
        return self.previous_revision.revision.number if self.previous_revision else None

    @cached_property
    def counts(self) -> NodeCounts:
        tally = dict.fromkeys(NodeState, 0)
        for row in self.rows:
            tally[row.state] += 1
        unseen = self.standing.desired - self.rollout.budget.desired
        return NodeCounts(
            desired=self.standing.desired,
            target=self.standing.target,
            updated=tally[NodeState.UPDATED] + tally[NodeState.UNPLANNED],
            updating=tally[NodeState.UPDATING],
            failing=tally[NodeState.FAILING],
            next=tally[NodeState.NEXT],
            old=tally[NodeState.OLD],
            missing=tally[NodeState.MISSING] + tally[NodeState.DELETING] + unseen,
            available=self.standing.available,
            unplanned=tally[NodeState.UNPLANNED],
        )

    @property
    def recorded(self) -> Rollout:
        """The controller's own record of the current revision, with times that do not depend on when one looks; empty
        while it has made none.
        """
        status = self.daemonset.status
        if status is None or status.rollout is None or status.update_revision != self.rollout.revision.hash:
            return Rollout()
        return status.rollout

    @property
    def controller_agrees(self) -> bool:
        """Whether the controller's record has the same phase: it may know of nodes that we have not seen. Also true
        if the controller keeps no record.
        """
        status = self.daemonset.status
        keeps_one = status is not None and status.rollout is not None and status.rollout.phase
        return not keeps_one or self.recorded.phase == self.record.phase

    @property
    def certain(self) -> bool:
        """Whether the controller agrees that it is Stalled, or would by now: the API server's clock may be ahead."""
        overdue = self.snapshot.now - due_at(self.recorded, self.daemonset.progress_deadline)
        return self.recorded.phase == Phase.STALLED or overdue >= GRACE

    @property
    def counts_differ(self) -> bool:
        """Whether the controller's counts differ from ours, although it has seen the newest spec."""
        status, rollout = self.daemonset.status, self.recorded
        if status is None or not self.standing.observed or self.snapshot.nodes is None:
            return False
        counted = (status.desired_number_scheduled, rollout.target if rollout.phase else self.standing.target)
        return counted != (self.standing.desired, self.standing.target)

    @cached_property
    def in_update_order(self) -> tuple[NodeRow, ...]:
        """The rows by descending name, excluded nodes last."""
        excluded = [row for row in self.rows if row.state is NodeState.EXCLUDED]
        return (*(row for row in reversed(self.rows) if row.state is not NodeState.EXCLUDED), *excluded)

    def rows_in(self, *states: NodeState) -> list[NodeRow]:
        """The nodes in any of these states, in update order."""
        return [row for row in self.in_update_order if row.state in states]


def survey(snapshot: Snapshot, by: str = "zone") -> Survey:
    """`by`: how nodes are grouped, see `grouping.group_of`.

    Without the right to list nodes, there are rows only for nodes with a pod; the counts and the progress are then
    taken from the controller's status. Raises UnreadableSpecError.
    """
    try:
        pulls = worst_pulls(snapshot.pulls)
        rollout = rollout_state(world_with(snapshot, snapshot.daemonset, unpulled_of(snapshot.daemonset, pulls)))
    except (ValueError, msgspec.ValidationError) as error:
        raise UnreadableSpecError(f"cannot make sense of the spec of {snapshot.key.name}: {error}") from error
    daemonset = snapshot.daemonset
    status = daemonset.status
    standing = standing_of(rollout, observed=is_observed(daemonset))
    if (refusal := refusal_of(daemonset)) and (standing.outdated or is_unusable(daemonset)):
        standing = replace(standing, refused=refusal)
    record = advance(
        status,
        standing,
        revision_hash=rollout.revision.hash,
        deadline=daemonset.progress_deadline,
        now=snapshot.now,
    )
    if snapshot.nodes is None and status is not None and standing.observed:
        record = record_of(daemonset)
        desired = max(status.desired_number_scheduled, standing.desired)
        standing = replace(standing, desired=desired, target=record.target, done=record.done)
    explainer = Explainer(rollout)
    reader = RowReader(snapshot, explainer, by, pulls)
    return Survey(
        snapshot=snapshot,
        explainer=explainer,
        standing=standing,
        record=record,
        rows=tuple(reader.row(node) for node in rollout.nodes),
        pulls=pulls,
    )
