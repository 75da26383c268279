"""Every deletion that the planner wants goes through `retire`: never past what stands in its way.

A pod that the preDelete hook matches is prepared first, and deleted once it matches no more. Where nobody wants the
deletion any longer, `is_wanted` says so and all that is taken back.
"""

from __future__ import annotations

from collections.abc import Collection

from controller.api.pod import Pod
from controller.api.text import listed
from controller.api.wellknown import InPlaceRefusal
from controller.planner.actions import DeletePod, DeleteReason, PrepareDelete
from controller.planner.board import Board
from controller.planner.eligibility import Fit
from controller.planner.place import Place
from controller.planner.slot import Slot
from controller.planner.stops import (
    handlers,
    hooked,
    in_place_change,
    outgoing,
    to_deletion,
    to_rollout,
)


def retire(
    pod: Pod, why: DeleteReason, board: Board, refusal: InPlaceRefusal | None = None
) -> DeletePod | PrepareDelete | None:
    """What comes next on the way to the deletion of `pod`, or None while something keeps it. `refusal`: why it is
    not updated in place, where that was asked for."""
    if to_deletion(board, pod):
        return None
    hook = board.world.daemonset.pre_delete
    if hook is None or not hooked(pod, hook):
        return DeletePod(pod=pod.ref, node=pod.node, why=why, refusal=refusal, as_seen=hook is not None)
    return PrepareDelete(
        pod=pod.ref,
        node=pod.node,
        why=why,
        mark=hook.mark_pod_not_ready,
        held_by=listed(handlers(pod, hook), separator=" and "),
        tried=Place.of_object(pod.uid) in board.world.due_again,
    )


def is_wanted(board: Board, slot: Slot, pod: Pod, leaving: Collection[str]) -> bool:
    """Whether `pod` is to stay: nothing wants it deleted, now or when its turn comes; `leaving` as `leaving_for_good`
    says. Of a node that is gone nobody knows: what was begun there stays begun."""
    if slot.fit is None or slot.fit is Fit.LEAVE or pod.ended:
        return False
    if pod is not slot.current and pod is not slot.old:
        return False
    if slot.paired:  # of a silent node neither is chosen now
        return not slot.unreachable and pod is not outgoing(board, slot)
    return pod.uid not in leaving


def leaving_for_good(board: Board) -> frozenset[str]:
    """Uids of lone old pods that go for the sake of the update."""
    if to_rollout(board) is not None or board.refused:
        return frozenset()
    pods = [slot.old for slot in (board.surplus if board.surging else board.outdated) if slot.old is not None]
    return frozenset([pod.uid for pod in pods if not in_place_change(board, pod)])
