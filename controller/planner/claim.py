"""The stage that claims pods and revisions: adopts those that match the selector and have no controller, and releases
those that no longer match."""

from __future__ import annotations

from collections.abc import Collection

from controller.api.pod import Pod
from controller.planner.actions import (
    Action,
    AdoptPod,
    AdoptRevision,
    CancelDelete,
    OpenGates,
    ReleasePod,
)
from controller.planner.board import Board
from controller.planner.place import Place
from controller.planner.step import Step


def claim(board: Board) -> Step:
    """Adopt and release pods, adopt revisions.

    At most `burst` of them in one pass. An orphan that is being deleted is never adopted. Before the first adoption,
    the DaemonSet itself is read from the server.
    """
    world = board.world
    matches = world.rules.owns
    unmatched = [pod for pod in board.unmatched if Place.of_object(pod.uid) not in world.held_back]
    releases = [_release(pod, world.held_back) for pod in unmatched if not pod.dying]
    adopted = [
        AdoptPod(pod=pod.ref, owners=pod.owner_index)
        for pod in world.orphans
        if not pod.dying and not pod.ended and matches(pod.labels) and Place.of_object(pod.uid) not in world.held_back
    ]
    histories = [
        AdoptRevision(revision=revision.ref, owners=revision.owner_index)
        for revision in world.orphan_revisions
        if not revision.dying and matches(revision.labels) and Place.of_object(revision.uid) not in world.held_back
    ]
    actions: tuple[Action, ...] = (
        *sorted(releases, key=lambda one: one.pod.name),
        *sorted(adopted, key=lambda one: one.pod.name),
        *sorted(histories, key=lambda one: one.revision.name),
    )
    return Step(actions=actions[: board.budget.burst], more=bool(actions))


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
