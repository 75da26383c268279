"""Everything about one rollout at one moment: the planner's own board, and a row per node that says how it stands and
why."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

import msgspec
from msgspec.structs import replace

from controller.api.base import JSONObject, Value
from controller.api.daemonset import DaemonSet, Rollout
from controller.api.node import Node
from controller.api.revision import Revision
from controller.api.wellknown import HASH_LABEL, INVALID_SPEC
from controller.planner.board import Board, lay_out
from controller.planner.eligibility import Rules
from controller.planner.explanation import Explainer
from controller.planner.fallback import placements_of
from controller.planner.in_place.change import InPlaceChange, NotPossible, changes_to
from controller.planner.phase import Phase, Standing
from controller.planner.progress import advance, standing_of
from controller.planner.states import NodeState
from controller.planner.world import BeingPulled, Unpullable, Unpulled, World, unpulled
from kubectl_plugin.failures import CommandError
from kubectl_plugin.report.controller_account import is_observed, refusal_of, stated_rollout
from kubectl_plugin.report.node_row import NodeCounts, NodeRow, RowReader
from kubectl_plugin.report.pulls import NodePull, PullStage, worst_pulls
from kubectl_plugin.report.snapshot import RevisionDetail, Snapshot

_NOT_KNOWN: Final = NotPossible(why="without the right to list revisions nobody can tell whether it is done in place")


class UnreadableSpecError(CommandError):
    """Placement, selector or limits are invalid, so that the nodes cannot be listed one by one."""


class Survey(Value, dict=True, gc=True):
    """What `survey` returns."""

    snapshot: Snapshot
    explainer: Explainer
    standing: Standing
    rollout: Rollout
    """The state of the rollout by the pods that were read; the controller's own record may be a moment older."""
    rows: tuple[NodeRow, ...]
    """One row per node, by ascending name; after them deleted nodes that still have pods."""

    pulls: Mapping[str, NodePull]
    """The nodes for which images of the newest revision are pulled ahead."""

    @property
    def phase(self) -> Phase:
        return Phase(self.rollout.phase)

    @property
    def board(self) -> Board:
        return self.explainer.board

    @property
    def daemonset(self) -> DaemonSet:
        return self.snapshot.daemonset

    @cached_property
    def current(self) -> int | None:
        """Number of the revision that is rolled out; None without the right to list revisions."""
        return self.board.revision.number if self.snapshot.revisions_readable else None

    @cached_property
    def previous_revision(self) -> RevisionDetail | None:
        """The revision that is replaced: the newest older one that nodes still have, else the newest older one."""
        by_uid = {one.revision.uid: one for one in self.snapshot.revisions}
        older = [by_uid[one.uid] for one in self.board.older if one.uid in by_uid]
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
        unseen = self.standing.desired - self.board.budget.desired
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
        if status is None or status.rollout is None or status.update_revision != self.board.revision.hash:
            return Rollout()
        return status.rollout

    @property
    def controller_agrees(self) -> bool:
        """Whether the controller says the same: it may know of nodes that we have not seen. Where it keeps no record,
        we say it alone.
        """
        status = self.daemonset.status
        keeps_one = status is not None and status.rollout is not None and status.rollout.phase
        return not keeps_one or self.recorded.phase == self.rollout.phase

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

    Who may not list nodes sees only those with a pod: how many there are, and how far, is the controller's word.
    Raises UnreadableSpecError.
    """
    try:
        pulls = worst_pulls(snapshot.pulls)
        board = lay_out(replace(world_of(snapshot), unpulled=_unpulled(snapshot.daemonset, pulls)))
    except (ValueError, msgspec.ValidationError) as error:
        raise UnreadableSpecError(f"cannot make sense of the spec of {snapshot.key.name}: {error}") from error
    daemonset = snapshot.daemonset
    status = daemonset.status
    standing = standing_of(board, observed=is_observed(daemonset))
    if (refusal := refusal_of(daemonset)) and (standing.outdated or is_unusable(daemonset)):
        standing = replace(standing, refused=refusal)
    rollout = advance(
        status,
        standing,
        revision_hash=board.revision.hash,
        deadline=daemonset.progress_deadline,
        now=snapshot.now,
    )
    if snapshot.nodes is None and status is not None and standing.observed:
        rollout = stated_rollout(daemonset)
        desired = max(status.desired_number_scheduled, standing.desired)
        standing = replace(standing, desired=desired, target=rollout.target, done=rollout.done)
    explainer = Explainer(board)
    reader = RowReader(snapshot, explainer, by, pulls)
    return Survey(
        snapshot=snapshot,
        explainer=explainer,
        standing=standing,
        rollout=rollout,
        rows=tuple(reader.row(slot) for slot in board.slots),
        pulls=pulls,
    )


def _unpulled(daemonset: DaemonSet, pulls: Mapping[str, NodePull]) -> Mapping[str, Unpulled]:
    """The nodes that wait for an image, as in `World`; for an update in place also those that will never have it."""
    if not daemonset.waits_for_images:
        return {}
    failed = {node: unpulled(one.why) for node, one in pulls.items() if one.stage is PullStage.FAILED}
    pulling = [node for node, one in pulls.items() if one.stage not in (PullStage.THERE, PullStage.FAILED)]
    return {**{node: BeingPulled() for node in pulling}, **(failed if daemonset.in_place else {})}


def is_unusable(daemonset: DaemonSet) -> bool:
    """Whether the controller refused the spec itself, and not only the pods that would be made of it."""
    return any(one.get("reason") == INVALID_SPEC for one in daemonset.conditions)


def world_of(snapshot: Snapshot, daemonset: DaemonSet | None = None) -> World:
    """What the controller would decide from, if it looked now. `daemonset`: another spec to try.

    Its feature gates cannot be seen: the defaults are assumed, except that a pod being resized proves that cpu and
    memory change in place. Without the right to list nodes, those that have a pod are used. Without the right to list
    revisions, those whose hashes the status and the pods have; their numbers are 0 and mean nothing. Images that are
    still being pulled hold nobody back.
    """
    daemonset = daemonset or snapshot.daemonset
    rolling = daemonset.rolling_update
    nodes = snapshot.nodes
    template = daemonset.spec.template if nodes is not None else {}
    revisions = _revisions(snapshot)
    pulls = snapshot.pulls if daemonset.identity == snapshot.daemonset.identity else ()
    return World(
        daemonset=daemonset,
        rules=Rules(template, rolling.selector if rolling and nodes is not None else None, daemonset.spec.selector),
        nodes=nodes if nodes is not None else _stand_ins(snapshot),
        pods=tuple(one.pod for one in snapshot.pods),
        revisions=revisions,
        changes=_changes(snapshot, daemonset, revisions),
        reads_env=True,
        resizable=_resizes(snapshot),
        placements=placements_of(revisions, {}) if nodes is not None else {one.uid: Rules({}) for one in revisions},
        unpulled={
            node: one for node, one in _unpulled(daemonset, worst_pulls(pulls)).items() if isinstance(one, Unpullable)
        },
        now=snapshot.now,
        collisions=(daemonset.status.collision_count or 0) if daemonset.status else 0,
    )


def _changes(
    snapshot: Snapshot, daemonset: DaemonSet, revisions: tuple[Revision, ...]
) -> Mapping[str, InPlaceChange | NotPossible]:
    found = changes_to(daemonset, revisions, resizable=_resizes(snapshot))
    return found if snapshot.revisions_readable else dict.fromkeys(found, _NOT_KNOWN)


def _resizes(snapshot: Snapshot) -> bool:
    return any(one.pod.underway is not None and one.pod.underway.resize is not None for one in snapshot.pods)


def _revisions(snapshot: Snapshot) -> tuple[Revision, ...]:
    """The revision's hash may differ from the one we would compute: stored revisions keep the hash that another
    controller gave them. The status has it once it has seen this very spec."""
    if snapshot.revisions_readable:
        return tuple(one.revision for one in snapshot.revisions)
    daemonset, status = snapshot.daemonset, snapshot.daemonset.status
    if status is None or not status.update_revision or status.observed_generation < daemonset.generation:
        return ()
    live = status.update_revision
    older = sorted({one.pod.hash for one in snapshot.pods} - {"", live})
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
    names = sorted({one.pod.node for one in snapshot.pods} - {""})
    return tuple(Node(name=name, uid="", version="", labels={}, taints=()) for name in names)
