"""A rollout by its nodes, with a row per node, its state and the reason; else by the DaemonSet's status.

`forecast_world` is the world the controller would decide from, built from what the plugin has read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from controller.api import formats
from controller.api.daemonset import DaemonSet, DaemonSetStatus, Phase, Rollout
from controller.api.names import DEGRADED, HASH_LABEL, INVALID_SPEC, TEMPLATE_REFUSED
from controller.api.node import Node
from controller.api.objects import JSON, JSONObject, Value
from controller.api.revision import Revision
from controller.inplace.change import NotPossible, changes_to
from controller.planner.explanation import Explainer, NodeState
from controller.planner.failure import effective_daemonset, is_overridden, retry_of
from controller.planner.node_fit import Rules
from controller.planner.progress import Standing, advance, due_at, phase_of, standing_of
from controller.planner.revisions import placements_of
from controller.planner.rollout_state import RolloutState, rollout_state
from controller.planner.world import RESIZE_DISABLED, BeingPulled, Unpullable, Unpulled, World, unpulled
from kubectl_plugin.errors import CommandError
from kubectl_plugin.rollout.nodes import NodeCounts, NodeRow, RowReader
from kubectl_plugin.rollout.snapshot import NodePull, PullStage, RevisionDetail, Snapshot, worst_pulls

_NOT_KNOWN: Final = NotPossible(why="without the right to list revisions it is unknown whether it is done in place")


def forecast_world(snapshot: Snapshot, daemonset: DaemonSet | None = None) -> World:
    """What the controller would decide from now; `daemonset` is another spec to try.

    Feature gates cannot be read: defaults are assumed, except that a pod being resized proves that cpu and memory
    change in place. Without the right to list nodes, nodes with pods are used; without the right to list revisions,
    hashes in the status and on pods, all numbered 0. Unfinished image pulls do not block."""
    daemonset = daemonset or snapshot.daemonset
    pulls = snapshot.pulls if daemonset.identity == snapshot.daemonset.identity else ()
    waiting = unpulled_of(daemonset, worst_pulls(pulls))
    return world_with(
        snapshot, daemonset, {node: one for node, one in waiting.items() if isinstance(one, Unpullable)}
    )


def world_with(snapshot: Snapshot, daemonset: DaemonSet, lacking: Mapping[str, Unpulled]) -> World:
    """Like `forecast_world`, with the nodes that wait for an image (`World.unpulled`). Raises ValueError."""
    revisions = _revisions(snapshot)
    daemonset = effective_daemonset(daemonset, revisions)
    rolling, nodes = daemonset.rolling_update, snapshot.nodes
    template = daemonset.spec.template if nodes is not None else {}
    resizable = any(
        detail.pod.in_progress is not None and detail.pod.in_progress.resize is not None for detail in snapshot.pods
    )
    changes = changes_to(daemonset, revisions, resizable=resizable)
    return World(
        daemonset=daemonset,
        rules=Rules(
            template,
            rolling.selector if rolling and nodes is not None else None,
            daemonset.spec.selector,
            order=rolling.order if rolling and nodes is not None else (),
            topology=rolling.topology if rolling and nodes is not None else None,
        ),
        nodes=nodes if nodes is not None else _stand_ins(snapshot),
        pods=tuple(detail.pod for detail in snapshot.pods),
        revisions=revisions,
        changes=changes if snapshot.revisions_readable else dict.fromkeys(changes, _NOT_KNOWN),
        reads_env=True,
        no_resize="" if resizable else RESIZE_DISABLED,
        placements=placements_of(revisions, {})
        if nodes is not None
        else {revision.uid: Rules({}) for revision in revisions},
        unmapped=snapshot.unmapped,
        unpulled=lacking,
        now=snapshot.now,
        collisions=(daemonset.status.collision_count or 0) if daemonset.status else 0,
    )


def _revisions(snapshot: Snapshot) -> tuple[Revision, ...]:
    """Without the right to list them: the hash comes from the status once it has seen this spec, since a revision
    stored by another controller may have a hash that differs from the computed one."""
    if snapshot.revisions_readable:
        return tuple(detail.revision for detail in snapshot.revisions)
    daemonset, status = snapshot.daemonset, snapshot.daemonset.status
    if status is None or not status.update_revision or status.observed_generation < daemonset.generation:
        return ()
    live = status.update_revision
    older = sorted({detail.pod.hash for detail in snapshot.pods} - {"", live})
    return (
        _known_by_hash(daemonset, live, daemonset.spec.template, daemonset.identity),
        *(_known_by_hash(daemonset, hash_, {}, hash_) for hash_ in older),
    )


def _known_by_hash(daemonset: DaemonSet, hash_: str, template: JSONObject, identity: str) -> Revision:
    return Revision(
        namespace=daemonset.namespace,
        name=f"{daemonset.name}-{hash_}",
        uid=hash_,
        version="",
        owner_uid=daemonset.uid,
        owner_index=0,
        labels={HASH_LABEL: hash_},
        number=0,
        template=template,
        identity=identity,
    )


def _stand_ins(snapshot: Snapshot) -> tuple[Node, ...]:
    names = sorted({detail.pod.node for detail in snapshot.pods} - {""})
    return tuple(Node(name=name, uid="", version="", labels={}, taints=()) for name in names)


def unpulled_of(daemonset: DaemonSet, pulls: Mapping[str, NodePull]) -> Mapping[str, Unpulled]:
    """Nodes that wait for an image, as in `World`; for in-place updates also those that will never have it."""
    if not daemonset.waits_for_images:
        return {}
    failed = {node: unpulled(one.why) for node, one in pulls.items() if one.stage is PullStage.FAILED}
    pulling = [node for node, one in pulls.items() if one.stage not in (PullStage.THERE, PullStage.FAILED)]
    return {**{node: BeingPulled() for node in pulling}, **(failed if daemonset.in_place else {})}


class StatedCondition(Value):
    """A status condition; missing or non-string fields are empty."""

    status: str
    reason: str
    message: str
    is_current: bool
    """Whether it was written for the newest spec."""


def record_of(daemonset: DaemonSet) -> Rollout:
    """The rollout record in the status; without one, a record computed from the counts, without times."""
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
    """An unknown phase, from a later controller, counts as Progressing, so that waits go on."""
    return next((one for one in Phase if one == rollout.phase), Phase.PROGRESSING)


def _standing(daemonset: DaemonSet, status: DaemonSetStatus) -> Standing:
    """From the counts alone, which ignore `rollingUpdate.selector`."""
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
        left_to_update=max(target - updated, 0),
        held_nodes=max(desired - max(target, updated), 0),
        completed=updated >= target,
    )


def _target(daemonset: DaemonSet, status: DaemonSetStatus) -> int:
    """Nodes to update. The partition applies only to old pods: if none exist and nodes lack pods, all nodes count."""
    desired, rolling = status.desired_number_scheduled, daemonset.rolling_update
    if rolling is None or status.updated_number_scheduled >= status.current_number_scheduled < desired:
        return desired
    try:
        return max(desired - max(formats.scaled(rolling.partition, desired, round_up=False), 0), 0)
    except ValueError:
        return desired


def is_overruled(daemonset: DaemonSet, record: Rollout) -> bool:
    """Whether a person has asked for another try of the aborted revision, or for its rollout in spite of failures."""
    aborted = record.aborted_revision or ""
    return retry_of(daemonset, aborted) not in (None, record.retried) or is_overridden(daemonset, aborted)


def is_observed(daemonset: DaemonSet) -> bool:
    """Whether a controller has seen the newest spec, even if it refused it."""
    status = daemonset.status
    seen = status is not None and status.observed_generation >= daemonset.generation
    return seen or bool(refusal_of(daemonset))


def refusal_of(daemonset: DaemonSet) -> str:
    """Why the controller or the server refuses the newest spec; empty if neither does. Only the controller knows: it
    asks the server once, by a dry run of a new pod."""
    found = condition(daemonset, DEGRADED)
    refused = found.is_current and found.reason in (TEMPLATE_REFUSED, INVALID_SPEC)
    return found.message or found.reason if refused else ""


def is_unusable(daemonset: DaemonSet) -> bool:
    """Whether the controller refused the newest spec itself, not just its pods."""
    found = condition(daemonset, DEGRADED)
    return found.is_current and found.reason == INVALID_SPEC


def condition(daemonset: DaemonSet, kind: str) -> StatedCondition:
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
    """Placement, selector or limits are invalid, so the nodes cannot be listed."""


OVERDUE_SECONDS: Final = 60.0
"""Seconds a controller may take to notice a passed deadline."""


class _Survey(Value, dict=True, gc=True):
    snapshot: Snapshot
    standing: Standing
    derived_record: Rollout
    """By the pods that were read, so the controller's own record may be older."""
    counts: NodeCounts
    current: int | None
    """Number of the revision that is rolled out; None if unknown."""
    hash: str

    @property
    def phase(self) -> Phase:
        return phase_in(self.derived_record)

    @property
    def daemonset(self) -> DaemonSet:
        return self.snapshot.daemonset

    @property
    def controller_record(self) -> Rollout:
        """The controller's own record of the current revision, with its times; empty without one."""
        return self.derived_record

    @property
    def controller_agrees(self) -> bool:
        """Whether the controller's record, if any, has the same phase: it may know of nodes not seen here."""
        status = self.daemonset.status
        keeps_one = status is not None and status.rollout is not None and status.rollout.phase
        return not keeps_one or self.controller_record.phase == self.derived_record.phase

    @property
    def certain(self) -> bool:
        """Whether the controller says Stalled or Aborted, or would by now: the API server's clock may be ahead. An
        abort that a person has overruled since is not over before the controller has seen that."""
        recorded = self.controller_record
        if recorded.phase == Phase.ABORTED:
            return not is_overruled(self.daemonset, recorded)
        overdue = self.snapshot.now - due_at(recorded, self.daemonset.progress_deadline)
        return recorded.phase == Phase.STALLED or overdue >= OVERDUE_SECONDS


class StatusSurvey(_Survey):
    """A rollout by the DaemonSet's status, where its nodes cannot be listed."""


class NodeSurvey(_Survey):
    """A rollout by its nodes."""

    rows: tuple[NodeRow, ...]
    """One row per node, by ascending name, then deleted nodes that still have pods."""
    pulls: Mapping[str, NodePull]
    """The nodes that pull images of the newest revision ahead."""
    explainer: Explainer

    @property
    def rollout(self) -> RolloutState:
        return self.explainer.rollout

    @property
    def template(self) -> JSONObject:
        """The template that is rolled out: not that of the spec while an aborted revision goes back."""
        return self.rollout.world.daemonset.spec.template

    @cached_property
    def previous_revision(self) -> RevisionDetail | None:
        """The newest older revision that nodes still have, else the newest older one."""
        by_uid = {detail.revision.uid: detail for detail in self.snapshot.revisions}
        older = [by_uid[one.uid] for one in self.rollout.older if one.uid in by_uid]
        carried = {row.pod.pod.hash for row in self.rows if row.pod is not None}
        return next((one for one in older if one.revision.hash in carried), older[0] if older else None)

    @property
    def previous_number(self) -> int | None:
        return self.previous_revision.revision.number if self.previous_revision else None

    @property
    def controller_record(self) -> Rollout:
        status = self.daemonset.status
        if status is None or status.rollout is None or status.update_revision != self.hash:
            return Rollout()
        return status.rollout

    @property
    def counts_differ(self) -> bool:
        """Whether the controller's counts differ although it has seen the newest spec."""
        status, rollout = self.daemonset.status, self.controller_record
        if status is None or not self.standing.observed or self.snapshot.nodes is None:
            return False
        counted = (status.desired_number_scheduled, rollout.target if rollout.phase else self.standing.target)
        return counted != (self.standing.desired, self.standing.target)

    @cached_property
    def in_update_order(self) -> tuple[NodeRow, ...]:
        """In the order in which the controller updates them, excluded nodes last."""
        excluded = [row for row in self.rows if row.state is NodeState.EXCLUDED]
        rows = {row.node: row for row in self.rows if row.state is not NodeState.EXCLUDED}
        nodes = self.rollout.in_update_order if rows else ()
        return (*(rows[node.name] for node in nodes if node.name in rows), *excluded)

    def rows_in(self, *states: NodeState) -> list[NodeRow]:
        return [row for row in self.in_update_order if row.state in states]


Survey: TypeAlias = NodeSurvey | StatusSurvey


def survey(snapshot: Snapshot, by: str = "zone") -> NodeSurvey:
    """`by` groups the nodes (`group_of`). Without the right to list nodes, there are rows only for nodes with a pod,
    and counts come from the controller's status. Raises UnreadableSpecError."""
    try:
        pulls = worst_pulls(snapshot.pulls)
        rollout = rollout_state(world_with(snapshot, snapshot.daemonset, unpulled_of(snapshot.daemonset, pulls)))
        standing = standing_of(rollout, observed=is_observed(snapshot.daemonset))
    except (ValueError, msgspec.ValidationError) as error:
        raise UnreadableSpecError(f"cannot make sense of the spec of {snapshot.key.name}: {error}") from error
    daemonset = snapshot.daemonset
    status = daemonset.status
    if (refusal := refusal_of(daemonset)) and (standing.left_to_update or is_unusable(daemonset)):
        standing = replace(standing, refused=refusal)
    record = advance(
        status, standing, revision_hash=rollout.revision.hash, deadline=daemonset.progress_deadline, now=snapshot.now
    )
    if snapshot.nodes is None and status is not None and standing.observed:
        record = record_of(daemonset)
        desired = max(status.desired_number_scheduled, standing.desired)
        standing = replace(standing, desired=desired, target=record.target, done=record.done)
    explainer = Explainer(rollout)
    reader = RowReader(snapshot, explainer, by, pulls)
    rows = tuple(reader.row(node) for node in rollout.nodes)
    return NodeSurvey(
        snapshot=snapshot,
        standing=standing,
        derived_record=record,
        counts=_counts(rows, standing, unseen=standing.desired - rollout.budget.desired),
        current=rollout.revision.number if snapshot.revisions_readable else None,
        hash=rollout.revision.hash,
        rows=rows,
        pulls=pulls,
        explainer=explainer,
    )


def _counts(rows: tuple[NodeRow, ...], standing: Standing, unseen: int) -> NodeCounts:
    tally = Counter(row.state for row in rows)
    return NodeCounts(
        desired=standing.desired,
        target=standing.target,
        updated=tally[NodeState.UPDATED] + tally[NodeState.UNPLANNED],
        updating=tally[NodeState.UPDATING],
        failing=tally[NodeState.FAILING],
        next=tally[NodeState.NEXT],
        old=tally[NodeState.OLD],
        missing=tally[NodeState.MISSING] + tally[NodeState.DELETING] + unseen,
        available=standing.available,
        unplanned=tally[NodeState.UNPLANNED],
    )


def survey_of_status(snapshot: Snapshot) -> StatusSurvey:
    """A node whose new pod is not available counts as updating."""
    daemonset = snapshot.daemonset
    status, record = daemonset.status or DaemonSetStatus(), record_of(daemonset)
    desired = status.desired_number_scheduled
    missing = max(desired - status.current_number_scheduled, 0)
    updated = min(status.updated_number_scheduled, desired)
    done = min(record.done, updated)
    goes_back = record.aborted_revision not in (None, status.update_revision)
    revisions = (
        detail.revision
        for detail in snapshot.revisions
        if (
            detail.revision.hash == status.update_revision
            if goes_back
            else detail.revision.identity == daemonset.identity
        )
    )
    return StatusSurvey(
        snapshot=snapshot,
        standing=replace(_standing(daemonset, status), refused=refusal_of(daemonset)),
        derived_record=record,
        counts=NodeCounts(
            desired=desired,
            target=record.target,
            updated=done,
            updating=updated - done,
            old=desired - updated - missing,
            available=status.number_available,
            missing=missing,
        ),
        current=next((revision.number for revision in revisions), None),
        hash=status.update_revision,
    )
