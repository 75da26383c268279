"""How pods are created and deleted: every new pod comes from `new_pod`, and every deletion goes through `retire`,
which respects whatever holds the pod.

The stage that rolls out: it chooses the nodes that get the current revision now.

Cares for running pods, beside whatever the stages do: those that are being updated in place, that are prepared for
their deletion, or that have a readiness gate of ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from math import inf
from zlib import crc32

import msgspec

from controller.api.formats import LONGEST_ITEM, listed, shortened
from controller.api.in_place import Resize, Underway
from controller.api.names import (
    FAILED_IN_PLACE,
    IN_PLACE_GRACE_ANNOTATION,
    INVALID_ANNOTATION,
    LIFECYCLE_STATE_LABEL,
    LONGEST_IN_PLACE_GRACE,
    NOT_IN_PLACE,
    RESIZE_DEFERRED,
    RESIZE_REFUSED,
    InPlaceRefusal,
)
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.inplace.change import InPlaceChange
from controller.planner.actions import (
    Action,
    CancelDelete,
    ContinueInPlace,
    CreatePod,
    DeletePod,
    DeleteReason,
    DrainPod,
    Note,
    OpenGates,
    PrepareDelete,
    ProbeTemplate,
    RelabelPod,
    ResizePod,
    Step,
    UpdateInPlace,
    refusal_note,
)
from controller.planner.blocker_checks import (
    deletion_blocker,
    drained_until,
    first_write_of_update,
    handlers,
    image_blocker,
    in_place_change_of,
    in_the_way,
    is_given_up,
    is_recreated,
    is_updated_in_place,
    others_first,
    outgoing,
    resize_refusal,
    rollout_blocker,
    update_blocker,
)
from controller.planner.limits import only_held
from controller.planner.node_fit import Fit
from controller.planner.nodes import NodeInfo
from controller.planner.pod_template import pod_name
from controller.planner.rollout_state import RolloutState
from controller.planner.world import POD_QUOTA, Accepted, BackoffKey, TemplateRefused, Unasked, taken_away


def new_pod(rollout: RolloutState, node: NodeInfo, revision: Revision) -> CreatePod:
    world = rollout.world
    name = pod_name(world.daemonset, node.name, node.uids, world.predecessors.get(node.name))
    return CreatePod(
        node=node.name,
        name=world.unanswered_names.get(node.name, name),
        revision=revision,
        strict=revision is rollout.revision and rollout.strict,
    )


def asked(rollout: RolloutState, first: str, others: Iterable[str]) -> Step:
    """The step that asks the server, by a dry run, about a pod of the current revision on the `first` node; after a
    refusal on one of the others, as the node may be the cause."""
    tries = rollout.world.asked
    candidates = [node for node in others if node != first] if tries else []
    node = min(candidates, key=lambda node: crc32(f"{tries} {node}".encode()), default=first)
    name = pod_name(rollout.world.daemonset, node, ("dry-run",), None)
    probe = ProbeTemplate(node=node, name=name, revision=rollout.revision, strict=rollout.strict)
    return Step() if probe.backoff_key in rollout.world.in_backoff else Step(actions=(probe,), again=True)


def retire(
    pod: Pod, why: DeleteReason, rollout: RolloutState, refusal: InPlaceRefusal | None = None
) -> DeletePod | PrepareDelete | None:
    """The next step towards the deletion of `pod`; None while something keeps it. A pod that the preDelete hook
    matches is prepared first, and deleted once the hook does not match any more. `refusal`: why it is not updated in
    place, if that was asked for."""
    if deletion_blocker(rollout, pod):
        return None
    hook = rollout.world.daemonset.pre_delete
    if hook is None or not (held_by := handlers(pod, hook)):
        return DeletePod(pod=pod.ref, node=pod.node, why=why, refusal=refusal, as_seen=hook is not None)
    return PrepareDelete(
        pod=pod.ref,
        node=pod.node,
        why=why,
        mark=hook.mark_pod_not_ready,
        held_by=listed(held_by, separator=" and "),
        tried=BackoffKey.of_object(pod.uid) in rollout.world.due_again,
    )


def roll_out(rollout: RolloutState) -> Step:
    """The stage. Replaces old pods within the budget; does nothing while paused, or with OnDelete.

    It also does nothing while the current revision is not stored: nobody could roll back to it later.
    """
    if rollout_blocker(rollout) or not rollout.revision.uid:
        return Step()
    free: Sequence[NodeInfo] = rollout.outdated
    daemonset = rollout.world.daemonset
    world = rollout.world
    particular = world.in_backoff or world.not_before or world.unpulled or rollout.taken
    if particular or daemonset.in_place_grace or daemonset.pre_delete:
        free = [node for node in free if update_blocker(rollout, node) is None]
    candidates = others_first(rollout.world, free, partial(first_write_of_update, rollout))
    chosen = _within_budget(rollout, candidates)[: rollout.budget.burst]
    verdict = rollout.verdict
    if not chosen:
        step = Step(actions=_retire_surplus(rollout))
    elif not isinstance(verdict, Accepted):
        step = _asked_first(rollout, verdict, chosen[0], candidates)
    elif rollout.surging:
        beside = [
            new_pod(rollout, node, rollout.revision) for node in chosen if POD_QUOTA not in rollout.world.in_backoff
        ]
        step = Step(actions=(*beside, *_retire_surplus(rollout)))
    else:
        step = _replaced(rollout, chosen)
    drained = (drained_until(rollout, node) for node in rollout.outdated) if len(free) < len(rollout.outdated) else ()
    wake_at = min((moment for moment in (step.wake_at, *drained) if moment is not None), default=None)
    return msgspec.structs.replace(step, more=len(free) > len(chosen), wake_at=wake_at)


def _within_budget(rollout: RolloutState, candidates: Sequence[NodeInfo]) -> list[NodeInfo]:
    """The candidates that are updated now: all whose old pod does not serve, the others as the limit allows, those
    that are younger than minReadySeconds first.

    An unreachable node is left out, because a write there would change nothing; it only counts. While surging, a pod
    that is held before its deletion counts as one that serves: a new pod beside it is not urgent.
    """
    surging, at_once, young, within = rollout.surging, list[NodeInfo](), list[NodeInfo](), list[NodeInfo]()
    for node in candidates:
        if node.unreachable or (surging and in_the_way(rollout, node)):
            continue
        if node.old_available or (surging and only_held(node)):
            within.append(node)
        else:
            (young if node.old_ready else at_once).append(node)
    if surging:
        return at_once + (young + within)[: rollout.room]
    return at_once + young[: rollout.room_for(len(young))] + within[: rollout.room]


def _asked_first(
    rollout: RolloutState, verdict: Unasked | TemplateRefused, first: NodeInfo, candidates: Sequence[NodeInfo]
) -> Step:
    """The step until the dry run has accepted the template: no old pod goes before that."""
    if isinstance(verdict, TemplateRefused) and rollout.world.now < rollout.world.ask_at:
        return Step(notes=(refusal_note(verdict),), wake_at=rollout.world.ask_at)
    return asked(rollout, first.name, (node.name for node in candidates))


def _replaced(rollout: RolloutState, chosen: Sequence[NodeInfo]) -> Step:
    """The step that updates the chosen nodes: in place if that is asked for and possible, else by new pods. A note
    says why it is not possible."""
    in_place, actions = rollout.in_place, list[Action]()
    reasons: dict[tuple[str, str], None] = {}
    for node in chosen:
        if (pod := node.old) is None:
            continue
        change = in_place_change_of(rollout, pod) if in_place else None
        if isinstance(change, InPlaceChange):
            actions.append(_in_place(rollout, node, pod, change))
            continue
        refusal = None if change is None else change.refusal
        if (deletion := retire(pod, DeleteReason.OUTDATED, rollout, refusal)) is not None:
            actions.append(deletion)
            if change is not None:
                reasons[pod.hash, change.why] = None
    notes = [_recreated(*reason) for reason in reasons]
    if in_place and (asked := rollout.world.daemonset.unreadable_grace) is not None:
        notes.append(_unreadable(asked))
    return Step(actions=tuple(actions), notes=tuple(notes))


def _in_place(rollout: RolloutState, node: NodeInfo, pod: Pod, change: InPlaceChange) -> DrainPod | UpdateInPlace:
    """The update in place of one pod. If a container restarts and a grace period is set, a ready pod is drained
    first: it has traffic as soon as it is ready, long before it counts as available."""
    if pod.ready and change.restarts and rollout.world.daemonset.in_place_grace:
        return DrainPod(pod=pod.ref, node=node.name)
    tried = BackoffKey.of_object(pod.uid) in rollout.world.due_again
    return UpdateInPlace(
        pod=pod.ref,
        node=node.name,
        before=pod.hash,
        revision=rollout.revision,
        change=change,
        tried=tried,
        moved=rollout.world.moved,
    )


def _unreadable(asked: str) -> Note:
    shown = shortened(asked, LONGEST_ITEM)
    text = f"annotation {IN_PLACE_GRACE_ANNOTATION}: {shown!r} is not a whole number of seconds from 0 to "
    text += f"{LONGEST_IN_PLACE_GRACE}, so there is no grace period"
    return Note(warning=True, reason=INVALID_ANNOTATION, message=text)


def _recreated(revision_hash: str, why: str) -> Note:
    text = f"pods of revision {revision_hash} are recreated, they cannot be updated in place: {why}"
    return Note(warning=False, once=True, reason=NOT_IN_PLACE, message=text)


def _retire_surplus(rollout: RolloutState) -> tuple[DeletePod | PrepareDelete, ...]:
    """The deletions on `RolloutState.surplus`, whatever the quota is: these nodes get no new pod."""
    surplus = [node.old for node in rollout.surplus[: rollout.budget.burst] if node.old is not None]
    retired = (retire(pod, DeleteReason.SURPLUS, rollout) for pod in surplus)
    return tuple(action for action in retired if action is not None)


def settle_running_pods(rollout: RolloutState, taken: Collection[BackoffKey]) -> Step:
    """At most `burst` writes. None goes to the pods `taken`, which other actions of this pass write to, nor to pods
    that are about to be released."""
    care = _Care(rollout)
    perhaps = [  # a cheap test first: few of many pods need care
        (node, pod)
        for node in rollout.nodes
        for pod in node.pods
        if pod.gates or pod.underway is not None or LIFECYCLE_STATE_LABEL in pod.labels
    ]
    for node, pod in perhaps:
        place = BackoffKey.of_object(pod.uid)
        if _needs_care(pod) and not (pod.dying or pod.ended or place in taken or place in rollout.world.awaited):
            care.of(node, pod)
    return Step(
        actions=tuple(care.actions[: rollout.budget.burst]),
        notes=tuple(care.notes[: rollout.budget.burst]),
        wake_at=min(care.wakes, default=None),
        more=care.waits,
    )


def _needs_care(pod: Pod) -> bool:
    return pod.underway is not None or pod.held_by_hook or not all(gate.open for gate in pod.gates)


class _Care:
    def __init__(self, rollout: RolloutState) -> None:
        self.rollout = rollout
        self.actions: list[Action] = []
        self.notes: list[Note] = []
        self.wakes: list[float] = []
        self.waits = False
        """Whether the next change of pods should wake the DaemonSet soon."""

    def of(self, node: NodeInfo, pod: Pod) -> None:
        if (pod.held_by_hook or pod.marked) and (self._is_wanted(node, pod) or is_given_up(self.rollout, pod)):
            keeping = CancelDelete(pod=pod.ref, labels=taken_away(self.rollout.world, pod))
            if keeping.backoff_key not in self.rollout.world.in_backoff:
                self.actions.append(keeping)
            return
        underway = pod.underway
        if underway is not None and underway.lasts(self.rollout.world.now):
            self.waits, before = True, len(self.actions)
            if underway.taken_back:
                self._give_up(pod, underway.taken_back)
            elif BackoffKey.of_object(pod.uid) not in self.rollout.world.in_backoff:
                self._go_on(pod, underway)
            if len(self.actions) > before or not self._serves(pod, underway):
                return
        if not pod.due_gates:
            return
        self.waits = True
        opening = OpenGates(pod=pod.ref, gates=pod.due_gates)
        if pod.bound and opening.backoff_key not in self.rollout.world.in_backoff and not self._is_next(pod):
            self.actions.append(opening)

    def _serves(self, pod: Pod, underway: Underway) -> bool:
        """Whether the pod may have traffic because only its resize waits, for an unknown time."""
        world = self.rollout.world
        waits = underway.resize is Resize.DEFERRED or (resize_refusal(world, pod) and not is_recreated(world, pod))
        return bool(waits) and underway.only_resizes

    def _give_up(self, pod: Pod, former: str) -> None:
        """Give the pod its former label back: it is an old pod again, and serves until the next attempt."""
        relabel = RelabelPod(pod=pod.ref, hash=former, taken_back=True)
        if relabel.backoff_key not in self.rollout.world.in_backoff:
            self.actions.append(relabel)

    def _go_on(self, pod: Pod, underway: Underway) -> None:
        if pod.complaint:
            text = f"pod {pod.name} on node {pod.node} does not start again: {pod.complaint}"
            self.notes.append(Note(warning=True, reason=FAILED_IN_PLACE, message=text))
        if underway.until < inf:
            self.wakes.append(underway.until)
        if underway.resize is Resize.DEFERRED:
            text = f"pod {pod.name} on node {pod.node} is not resized yet: {underway.problem}"
            self.notes.append(Note(warning=False, once=True, reason=RESIZE_DEFERRED, message=text))
        if refusal := resize_refusal(self.rollout.world, pod):
            text = f"pod {pod.name} on node {pod.node} cannot be resized: {refusal}"
            self.notes.append(Note(warning=True, reason=RESIZE_REFUSED, message=text))
            if is_recreated(self.rollout.world, pod):
                deletion = retire(pod, DeleteReason.NOT_RESIZED, self.rollout, InPlaceRefusal.RESIZE_REFUSED)
                self.actions += [deletion] if deletion is not None else []
                return
        if underway.resize is Resize.WANTED and self.rollout.world.resizable:
            self.actions.append(ResizePod(pod=pod.ref, node=pod.node))
        elif underway.continues and not underway.is_due(self.rollout.world.now):
            self.wakes.append(underway.due)
        elif underway.continues and not self._has_its_turn(pod):
            order = self._revisions.get(pod.hash, self.rollout.revision)
            self.actions.append(ContinueInPlace(pod=pod.ref, node=pod.node, revision=order, waiting=underway.waiting))

    def _is_wanted(self, node: NodeInfo, pod: Pod) -> bool:
        """Whether the pod has to stay: nothing wants it deleted, now or when its turn comes. If its node is gone,
        nobody knows; then False, so that a deletion that was begun goes on."""
        if node.fit is None or node.fit is Fit.LEAVE or pod not in (node.current, node.old):
            return False
        if is_recreated(self.rollout.world, pod):
            return False
        if node.paired:  # on an unreachable node neither is chosen now
            return not node.unreachable and pod is not outgoing(self.rollout, node)
        return pod.uid not in self._leaving

    @cached_property
    def _leaving(self) -> frozenset[str]:
        """Uids of old pods that the update deletes, from nodes with only that pod."""
        rollout = self.rollout
        if rollout_blocker(rollout) is not None or rollout.refused:
            return frozenset()
        pods = [
            node.old for node in (rollout.surplus if rollout.surging else rollout.outdated) if node.old is not None
        ]
        return frozenset([pod.uid for pod in pods if not is_updated_in_place(rollout, pod)])

    def _is_next(self, pod: Pod) -> bool:
        """Whether its readiness gate was closed for an update that comes next; then it stays closed. After a failed
        update it is opened until an attempt succeeds."""
        rollout = self.rollout
        place = BackoffKey.of_object(pod.uid)
        if place in rollout.world.in_backoff or place in rollout.world.due_again:
            return False
        if not rollout.in_place or not pod.draining:
            return False
        return self._has_its_turn(pod) and isinstance(in_place_change_of(rollout, pod), InPlaceChange)

    def _has_its_turn(self, pod: Pod) -> bool:
        """Whether the rollout updates the pod as soon as it can. While its image is missing, it does not."""
        if (
            pod.hash == self.rollout.revision.hash
            or rollout_blocker(self.rollout) is not None
            or self.rollout.refused
        ):
            return False
        return pod.uid in self._waiting

    @cached_property
    def _waiting(self) -> frozenset[str]:
        rollout = self.rollout
        due = [node for node in rollout.outdated if not (rollout.world.unpulled and image_blocker(rollout, node))]
        return frozenset([node.old.uid for node in due if node.old is not None])

    @cached_property
    def _revisions(self) -> Mapping[str, Revision]:
        """All stored revisions by hash."""
        return {one.hash: one for one in (*self.rollout.older, self.rollout.revision)}
