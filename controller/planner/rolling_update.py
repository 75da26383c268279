"""Updates nodes to the current revision, within the limits, and settles pods that are in the middle of a change.

A pod is deleted for one of these reasons (`actions.DeleteReason`), always by `retire`:

    OUTDATED     its node is updated (`roll_out`): the pod is old, its node may hold the current revision, the server
                 accepts the template, and the pod is not available or maxUnavailable has room for its node
    SURPLUS      while surging, its node gets no new pod because of a taint, and it is not needed (`surplus`)
    SURGED       while surging, the current pod beside it is available, or it is not ready itself
    EXCESS       another live pod of the same kind is on the node; without surge also one of the other kind
    NOT_RESIZED  its resize is refused, and it is to be recreated then
    UNWANTED     its node must not run it
    FAILED       it failed, and the back-off of its node is over
    SUCCEEDED    it ended, and the back-off of its node is over
    VANISHED     its node went away before it was bound
    STRAY        a webhook changed its labels, so that the selector does not match it

`placement` finds SURGED, EXCESS and the last five. Instead of OUTDATED, a pod is updated in place if the strategy
says so and `blockers.in_place_change_of` finds a change. `blockers` also says what delays these: `update_blocker` the
update of a node, `deletion_blocker` any deletion.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from math import inf
from zlib import crc32

from msgspec.structs import replace

from controller.api import names
from controller.api.formats import LONGEST_ITEM, listed, truncated
from controller.api.in_place import Resize, UpdateInProgress
from controller.api.names import InPlaceRefusal
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.inplace.change import InPlaceChange
from controller.planner import actions, blockers
from controller.planner.actions import Action, DeleteReason, Note, StageResult, refusal_note
from controller.planner.blocker_texts import Blocker
from controller.planner.blockers import in_place_change_of, is_recreated, resize_refusal, rollout_blocker
from controller.planner.node_fit import Fit
from controller.planner.nodes import NodeInfo
from controller.planner.pod_template import pod_name
from controller.planner.rollout_state import RolloutState
from controller.planner.world import POD_QUOTA, Accepted, BackoffKey, TemplateRefused, taken_away


def roll_out(rollout: RolloutState) -> StageResult:
    """The stage that updates nodes. It does nothing with OnDelete, while paused, or before the current revision is
    stored, so that a rollback always finds it."""
    if rollout_blocker(rollout) or not rollout.revision.uid:
        return StageResult()
    world, turns = rollout.world, Turns(rollout)
    free = turns.free
    candidates = blockers.others_first(world, free, partial(blockers.first_write_of_update, rollout))
    chosen = turns.within_limits(candidates)[: rollout.budget.burst]
    if not chosen:
        result = StageResult(actions=_retire_surplus(rollout))
    elif not isinstance(rollout.dry_run.verdict, Accepted):
        result = _dry_run_first(rollout, chosen[0], candidates)
    elif rollout.surging:
        creates = (
            [] if POD_QUOTA in world.in_backoff else [new_pod(rollout, node, rollout.revision) for node in chosen]
        )
        result = StageResult(actions=(*creates, *_retire_surplus(rollout)))
    else:
        result = _update(rollout, chosen)
    waiting = rollout.outdated if len(free) < len(rollout.outdated) else ()
    wakes = [result.wake_at, *(blockers.drained_until(rollout, node) for node in waiting)]
    wake_at = min((moment for moment in wakes if moment is not None), default=None)
    return replace(result, more=len(free) > len(chosen), wake_at=wake_at)


class Turns:
    """Which nodes of `RolloutState.outdated` are updated next, and what the others wait for."""

    def __init__(self, rollout: RolloutState) -> None:
        self._rollout = rollout

    @cached_property
    def free(self) -> list[NodeInfo]:
        """The nodes whose update only the limits may delay."""
        return [node for node in self._rollout.outdated if node.name not in self._blocked]

    @cached_property
    def blockers(self) -> Mapping[str, Blocker | None]:
        """What keeps single nodes from their turn, by name; None: a pod beside the old one is deleted first."""
        rollout = self._rollout
        _, young, available = self._by_traffic(self.free)
        found = dict[str, Blocker | None]()
        if rollout.domains is not None:
            admitted = {node.name for node in rollout.domains.admitted(young, len(young), available, len(available))}
            found = {node.name: Blocker.DOMAIN for node in young + available if node.name not in admitted}
        full = [*(() if rollout.room_for(len(young)) else young), *(() if rollout.room else available)]
        return {**found, **{node.name: Blocker.BUDGET for node in full}, **self._blocked}

    @cached_property
    def _blocked(self) -> Mapping[str, Blocker | None]:
        """`blockers` apart from the limits."""
        rollout, world, surging = self._rollout, self._rollout.world, self._rollout.surging
        delays = (world.in_backoff, world.not_before, world.unpulled, rollout.blocked_nodes)
        special = any((*delays, world.daemonset.in_place_grace, world.daemonset.pre_delete))
        blocked = dict[str, Blocker | None]()
        for node in rollout.outdated:
            others = blockers.in_the_way(rollout, node) if surging else ()
            if others:
                found = blockers.replacement_blocker(rollout, others)
            else:
                found = blockers.update_blocker(rollout, node) if special else None
            if found is None and node.unreachable:
                found = Blocker.UNREACHABLE  # a write would have no effect there
            if others or found is not None:
                blocked[node.name] = found
        return blocked

    def within_limits(self, candidates: Iterable[NodeInfo]) -> list[NodeInfo]:
        """The candidates to update now: all whose old pod has no traffic, and as many others as the limits have room
        for, those with pods younger than minReadySeconds first."""
        at_once, young, available = self._by_traffic(candidates)
        young_room, room, domains = self._rollout.room_for(len(young)), self._rollout.room, self._rollout.domains
        if domains is None:
            return at_once + young[:young_room] + available[:room]
        return at_once + domains.admitted(young, young_room, available, room)

    def _by_traffic(self, nodes: Iterable[NodeInfo]) -> tuple[list[NodeInfo], list[NodeInfo], list[NodeInfo]]:
        """The nodes whose old pod has no traffic, is Ready and not yet available, or is available. While surging, the
        latter two count as one, and so does a pod without traffic because of its hook: a new one is not urgent."""
        at_once, young, available = list[NodeInfo](), list[NodeInfo](), list[NodeInfo]()
        surging = self._rollout.surging
        for node in nodes:
            if node.old_available or (surging and node.old_only_held):
                available.append(node)
            else:
                (young if node.old_ready else at_once).append(node)
        return (at_once, [], young + available) if surging else (at_once, young, available)


def _dry_run_first(rollout: RolloutState, first: NodeInfo, candidates: Sequence[NodeInfo]) -> StageResult:
    world, verdict = rollout.world, rollout.dry_run.verdict
    if isinstance(verdict, TemplateRefused) and world.now < world.retry_dry_run_at:
        return StageResult(notes=(refusal_note(verdict),), wake_at=world.retry_dry_run_at)
    return dry_run(rollout, first.name, (node.name for node in candidates))


def dry_run(rollout: RolloutState, first: str, others: Iterable[str]) -> StageResult:
    """A dry run of the current revision on the `first` node; after a refusal on another, as the node may be the
    cause."""
    tries = rollout.world.failed_dry_runs
    candidates = [node for node in others if node != first] if tries else []
    node = min(candidates, key=lambda node: crc32(f"{tries} {node}".encode()), default=first)
    name = pod_name(rollout.world.daemonset, node, ("dry-run",), None)
    probe = actions.ProbeTemplate(node=node, name=name, revision=rollout.revision, strict=rollout.dry_run.strict)
    return (
        StageResult() if probe.backoff_key in rollout.world.in_backoff else StageResult(actions=(probe,), again=True)
    )


def _update(rollout: RolloutState, chosen: Sequence[NodeInfo]) -> StageResult:
    """Updates the chosen nodes: in place if asked for and possible, else by deleting their old pods."""
    writes, why_recreated, daemonset = list[Action](), dict[tuple[str, str], None](), rollout.world.daemonset
    for node in chosen:
        if (pod := node.old) is None:
            continue
        change = in_place_change_of(rollout, pod) if rollout.in_place else None
        if isinstance(change, InPlaceChange):
            writes.append(_in_place(rollout, node, pod, change))
            continue
        deletion = retire(pod, DeleteReason.OUTDATED, rollout, None if change is None else change.refusal)
        if deletion is not None:
            writes.append(deletion)
            if change is not None:
                why_recreated[pod.hash, change.why] = None
    notes = []
    for revision_hash, why in why_recreated:
        text = f"pods of revision {revision_hash} are recreated, they cannot be updated in place: {why}"
        notes.append(Note(warning=False, once=True, reason=names.NOT_IN_PLACE, message=text))
    if rollout.in_place and (asked := daemonset.invalid(names.IN_PLACE_GRACE_ANNOTATION)) is not None:
        shown = truncated(asked, LONGEST_ITEM)
        text = f"annotation {names.IN_PLACE_GRACE_ANNOTATION}: {shown!r} is not a whole number of seconds from 0 to "
        text += f"{names.LONGEST_IN_PLACE_GRACE}, so there is no grace period"
        notes.append(Note(warning=True, reason=names.INVALID_ANNOTATION, message=text))
    return StageResult(actions=tuple(writes), notes=tuple(notes))


def _in_place(
    rollout: RolloutState, node: NodeInfo, pod: Pod, change: InPlaceChange
) -> actions.DrainPod | actions.UpdateInPlace:
    """With a grace period, a ready pod is drained before a restart: it may have traffic before it is available."""
    if pod.ready and change.restarts and rollout.world.daemonset.in_place_grace:
        return actions.DrainPod(pod=pod.ref, node=node.name)
    return actions.UpdateInPlace(
        pod=pod.ref,
        node=node.name,
        before=pod.hash,
        revision=rollout.revision,
        change=change,
        tried=BackoffKey("object", pod.uid) in rollout.world.due_again,
        mutated_images=rollout.world.mutated_images,
    )


def _retire_surplus(rollout: RolloutState) -> tuple[actions.DeletePod | actions.PrepareDelete, ...]:
    surplus = [node.old for node in rollout.surplus[: rollout.budget.burst] if node.old is not None]
    retired = (retire(pod, DeleteReason.SURPLUS, rollout) for pod in surplus)
    return tuple(action for action in retired if action is not None)


def retire(
    pod: Pod, why: DeleteReason, rollout: RolloutState, refusal: InPlaceRefusal | None = None
) -> actions.DeletePod | actions.PrepareDelete | None:
    """The next write of the pod's deletion; None while `deletion_blocker` finds a reason. A pod that the preDelete
    hook matches is prepared first, and deleted once the hook no longer matches it."""
    if blockers.deletion_blocker(rollout, pod):
        return None
    hook = rollout.world.daemonset.pre_delete
    if hook is None or not (held_by := blockers.handlers(pod, hook)):
        return actions.DeletePod(pod=pod.ref, node=pod.node, why=why, refusal=refusal, as_seen=hook is not None)
    return actions.PrepareDelete(
        pod=pod.ref,
        node=pod.node,
        why=why,
        mark=hook.mark_pod_not_ready,
        held_by=listed(held_by, separator=" and "),
        tried=BackoffKey("object", pod.uid) in rollout.world.due_again,
    )


def new_pod(rollout: RolloutState, node: NodeInfo, revision: Revision) -> actions.CreatePod:
    world = rollout.world
    name = pod_name(world.daemonset, node.name, node.uids, world.predecessors.get(node.name))
    return actions.CreatePod(
        node=node.name,
        name=world.pending_names.get(node.name, name),
        revision=revision,
        strict=revision is rollout.revision and rollout.dry_run.strict,
    )


def settle_running_pods(rollout: RolloutState, used_keys: Collection[BackoffKey]) -> StageResult:
    """Continues pods that are updated in place, prepared for their deletion, or have a readiness gate that the
    controller closed. At most `burst` writes, none with a key in `used_keys`, which other actions use."""
    running, world, burst = _RunningPods(rollout), rollout.world, rollout.budget.burst
    candidates = [  # a cheap test first: few of many pods are in the middle of a change
        (node, pod)
        for node in rollout.nodes
        for pod in node.pods
        if pod.gates or pod.in_progress is not None or names.LIFECYCLE_STATE_LABEL in pod.labels
    ]
    for node, pod in candidates:
        unsettled = pod.in_progress is not None or pod.held_by_hook or not all(gate.open for gate in pod.gates)
        key = BackoffKey("object", pod.uid)
        if unsettled and not (pod.terminating or pod.ended or key in used_keys or key in world.in_flight):
            running.add_writes(node, pod)
    return StageResult(
        actions=tuple(running.actions[:burst]),
        notes=tuple(running.notes[:burst]),
        wake_at=min(running.wakes, default=None),
        more=running.waits,
    )


class _RunningPods:
    def __init__(self, rollout: RolloutState) -> None:
        self.rollout, self.world = rollout, rollout.world
        self.actions: list[Action] = []
        self.notes: list[Note] = []
        self.wakes: list[float] = []
        self.waits = False
        """Whether the next change of pods should wake the DaemonSet soon."""

    def add_writes(self, node: NodeInfo, pod: Pod) -> None:
        if (pod.held_by_hook or pod.marked_not_ready) and (
            self._stays(node, pod) or blockers.is_given_up(self.rollout, pod)
        ):
            self._write(actions.CancelDelete(pod=pod.ref, labels=taken_away(self.world, pod)))
            return
        in_progress = pod.in_progress
        if in_progress is not None and in_progress.is_pending(self.world.now):
            self.waits, before = True, len(self.actions)
            if in_progress.reverted_to:
                self._write(actions.RelabelPod(pod=pod.ref, hash=in_progress.reverted_to, reverted=True))
            elif BackoffKey("object", pod.uid) not in self.world.in_backoff:
                self._go_on(pod, in_progress)
            if len(self.actions) > before or not self._keeps_traffic(pod, in_progress):
                return
        if pod.gates_to_open:
            self.waits = True
            if pod.bound and not self._stays_drained(pod):
                self._write(actions.OpenGates(pod=pod.ref, gates=pod.gates_to_open))

    def _write(self, action: actions.CancelDelete | actions.RelabelPod | actions.OpenGates) -> None:
        if action.backoff_key not in self.world.in_backoff:
            self.actions.append(action)

    def _keeps_traffic(self, pod: Pod, in_progress: UpdateInProgress) -> bool:
        """Whether the pod waits only for its resize, for an unknown time."""
        waits = in_progress.resize is Resize.DEFERRED
        waits = waits or (bool(resize_refusal(self.world, pod)) and not is_recreated(self.world, pod))
        return waits and in_progress.only_resizes

    def _go_on(self, pod: Pod, in_progress: UpdateInProgress) -> None:
        about = f"pod {pod.name} on node {pod.node}"
        if pod.failure_message:
            self._note(names.FAILED_IN_PLACE, f"{about} does not start again: {pod.failure_message}")
        if in_progress.until < inf:
            self.wakes.append(in_progress.until)
        if in_progress.resize is Resize.DEFERRED:
            text = f"{about} is not resized yet: {in_progress.problem}"
            self.notes.append(Note(warning=False, once=True, reason=names.RESIZE_DEFERRED, message=text))
        if refusal := resize_refusal(self.world, pod):
            self._note(names.RESIZE_REFUSED, f"{about} cannot be resized: {refusal}")
            if is_recreated(self.world, pod):
                deletion = retire(pod, DeleteReason.NOT_RESIZED, self.rollout, InPlaceRefusal.RESIZE_REFUSED)
                self.actions += [deletion] if deletion is not None else []
                return
        if in_progress.resize is Resize.PROPOSED and not self.world.no_resize:
            self.actions.append(actions.ResizePod(pod=pod.ref, node=pod.node))
        elif in_progress.has_next_batch and not in_progress.can_continue(self.world.now):
            self.wakes.append(in_progress.due)
        elif in_progress.has_next_batch and not self._is_updated_next(pod):
            order = self._revisions.get(pod.hash, self.rollout.revision)
            self.actions.append(
                actions.ContinueInPlace(pod=pod.ref, node=pod.node, revision=order, waiting=in_progress.waiting)
            )

    def _note(self, reason: str, text: str) -> None:
        self.notes.append(Note(warning=True, reason=reason, message=text))

    def _stays(self, node: NodeInfo, pod: Pod) -> bool:
        """Whether the pod is not to be deleted. False if its node is gone."""
        if node.fit is None or node.fit is Fit.LEAVE or pod not in (node.current, node.old):
            return False
        if is_recreated(self.world, pod):
            return False
        if node.paired:  # on an unreachable node neither is chosen now
            return not node.unreachable and pod is not blockers.outgoing(self.rollout, node)
        return pod.uid not in self._to_be_deleted

    @cached_property
    def _to_be_deleted(self) -> frozenset[str]:
        """Uids of old pods that the update deletes, from nodes with only that pod."""
        rollout = self.rollout
        if rollout_blocker(rollout) is not None or rollout.dry_run.refused:
            return frozenset()
        pods = [
            node.old for node in (rollout.surplus if rollout.surging else rollout.outdated) if node.old is not None
        ]
        return frozenset([pod.uid for pod in pods if not blockers.is_updated_in_place(rollout, pod)])

    def _stays_drained(self, pod: Pod) -> bool:
        """Whether its gate stays closed because it is updated again next; not while that update fails."""
        key = BackoffKey("object", pod.uid)
        if key in self.world.in_backoff or key in self.world.due_again or not pod.draining:
            return False
        return self._is_updated_next(pod) and blockers.is_updated_in_place(self.rollout, pod)

    def _is_updated_next(self, pod: Pod) -> bool:
        """Whether the rollout updates the pod as soon as it can; False while its image is missing."""
        rollout = self.rollout
        if pod.hash == rollout.revision.hash or rollout_blocker(rollout) is not None or rollout.dry_run.refused:
            return False
        return pod.uid in self._next

    @cached_property
    def _next(self) -> frozenset[str]:
        due = self.rollout.outdated
        if self.world.unpulled:
            due = tuple([node for node in due if blockers.image_blocker(self.rollout, node) is None])
        return frozenset([node.old.uid for node in due if node.old is not None])

    @cached_property
    def _revisions(self) -> Mapping[str, Revision]:
        return {revision.hash: revision for revision in (*self.rollout.older, self.rollout.revision)}
