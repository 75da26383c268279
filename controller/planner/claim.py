"""The stage that claims pods and revisions: adopts those that match the selector and have no controller, and releases
those that no longer match. Pods that a webhook has taken from us are deleted."""

from __future__ import annotations

from collections.abc import Collection

from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.planner.actions import (
    Action,
    AdoptPod,
    AdoptRevision,
    CancelDelete,
    CreatePod,
    DeleteReason,
    OpenGates,
    ReleasePod,
)
from controller.planner.board import Board
from controller.planner.lifecycle import retire
from controller.planner.place import Place
from controller.planner.placement import place_pods
from controller.planner.step import Step
from controller.planner.world import World


def claim(board: Board) -> Step:
    """Adopt and release pods, adopt revisions, and create pods beside adoptions.

    At most `burst` of them in one pass. An orphan that is being deleted is never adopted. Before the first adoption,
    the DaemonSet itself is read from the server.
    """
    world = board.world
    unmatched = [pod for pod in board.unmatched if Place.of_object(pod.uid) not in world.held_back]
    lost = [
        retire(pod, DeleteReason.STRAY, board) if pod.uid in world.strays else _release(pod, world.held_back)
        for pod in unmatched
        if not pod.dying
    ]
    releases = [one for one in lost if one is not None]
    adopted = [
        AdoptPod(pod=pod.ref, owners=pod.owner_index)
        for pod in board.adoptable
        if Place.of_object(pod.uid) not in world.held_back
    ]
    histories = [
        _adopt(revision, world)
        for revision in world.orphan_revisions
        if not revision.dying
        and world.rules.owns(revision.labels)
        and Place.of_object(revision.uid) not in world.held_back
    ]
    actions: tuple[Action, ...] = (
        *sorted(releases, key=lambda one: one.pod.name),
        *sorted(adopted, key=lambda one: one.pod.name),
        *sorted(histories, key=lambda one: one.revision.name),
    )
    claims = actions[: board.budget.burst]
    return Step(actions=(*claims, *_creates_beside(board, claims)), more=bool(actions))


def _adopt(revision: Revision, world: World) -> AdoptRevision:
    """The adoption of a revision, with a record if no pod has it. A pod has the revision with its hash that was
    adopted or created first."""
    ran = any(pod.hash == revision.hash for pod in (*world.pods, *world.orphans))
    ran = ran and all(one.hash != revision.hash for one in world.revisions)
    return AdoptRevision(
        revision=revision.ref,
        owners=revision.owner_index,
        annotated=revision.annotated,
        never_ran=not ran,
    )


def _creates_beside(board: Board, claims: tuple[Action, ...]) -> list[CreatePod]:
    """Creates that go together with adoptions: lost pods need not wait for adoptions on other nodes, however often
    somebody removes our owner reference there.

    Empty until the history is settled: before that, the revision of the new pods is not known.
    """
    if not (claims and board.revision.uid and all(isinstance(action, AdoptPod) for action in claims)):
        return []
    return [one for one in place_pods(board).actions if isinstance(one, CreatePod)]


def _release(pod: Pod, held_back: Collection[Place]) -> CancelDelete | OpenGates | ReleasePod:
    """The next step to release a pod. A readiness gate that we have closed is opened first, because nobody else will.
    If that write is held back, the pod is released nevertheless."""
    if not pod.ended:
        if pod.held_by_hook or pod.marked:
            return CancelDelete(pod=pod.ref)
        opening = OpenGates(pod=pod.ref, gates=pod.due_gates)
        if pod.bound and opening.gates and opening.place not in held_back:
            return opening
    return ReleasePod(pod=pod.ref, owner_index=pod.owner_index)
