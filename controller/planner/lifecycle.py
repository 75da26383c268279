"""How pods are created and deleted: every new pod comes from `new_pod`, and every deletion goes through `retire`,
which respects whatever holds the pod."""

from __future__ import annotations

from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.api.text import listed
from controller.api.wellknown import InPlaceRefusal
from controller.planner.actions import CreatePod, DeletePod, DeleteReason, PrepareDelete
from controller.planner.board import Board
from controller.planner.manifest import pod_name
from controller.planner.obstacle_checks import handlers, obstacle_to_deletion
from controller.planner.place import Place
from controller.planner.slot import Slot


def new_pod(board: Board, slot: Slot, revision: Revision) -> CreatePod:
    world = board.world
    name = pod_name(world.daemonset, slot.node, slot.uids, world.predecessors.get(slot.node))
    return CreatePod(
        node=slot.node,
        name=world.unanswered_names.get(slot.node, name),
        revision=revision,
        strict=revision is board.revision and board.strict,
    )


def retire(
    pod: Pod, why: DeleteReason, board: Board, refusal: InPlaceRefusal | None = None
) -> DeletePod | PrepareDelete | None:
    """The next step towards the deletion of `pod`; None while something keeps it. A pod that the preDelete hook
    matches is prepared first, and deleted once the hook does not match any more. `refusal`: why it is not updated in
    place, if that was asked for."""
    if obstacle_to_deletion(board, pod):
        return None
    hook = board.world.daemonset.pre_delete
    if hook is None or not (held_by := handlers(pod, hook)):
        return DeletePod(pod=pod.ref, node=pod.node, why=why, refusal=refusal, as_seen=hook is not None)
    return PrepareDelete(
        pod=pod.ref,
        node=pod.node,
        why=why,
        mark=hook.mark_pod_not_ready,
        held_by=listed(held_by, separator=" and "),
        tried=Place.of_object(pod.uid) in board.world.due_again,
    )
