"""How pods are created and deleted: every new pod comes from `new_pod`, and every deletion goes through `retire`,
which respects whatever holds the pod."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.api.text import listed
from controller.api.wellknown import InPlaceRefusal
from controller.planner.actions import CreatePod, DeletePod, DeleteReason, PrepareDelete, ProbeTemplate
from controller.planner.board import Board
from controller.planner.manifest import pod_name
from controller.planner.obstacle_checks import handlers, obstacle_to_deletion
from controller.planner.place import Place
from controller.planner.slot import Slot
from controller.planner.step import Step


def new_pod(board: Board, slot: Slot, revision: Revision) -> CreatePod:
    world = board.world
    name = pod_name(world.daemonset, slot.node, slot.uids, world.predecessors.get(slot.node))
    return CreatePod(
        node=slot.node,
        name=world.unanswered_names.get(slot.node, name),
        revision=revision,
        strict=revision is board.revision and board.strict,
    )


def asked(board: Board, first: str, others: Iterable[str]) -> Step:
    """The step that asks the server, by a dry run, about a pod of the current revision on the `first` node; after a
    refusal on one of the others, as the node may be the cause."""
    tries = board.world.asked
    candidates = [node for node in others if node != first] if tries else []
    node = min(candidates, key=lambda node: crc32(f"{tries} {node}".encode()), default=first)
    name = pod_name(board.world.daemonset, node, ("dry-run",), None)
    probe = ProbeTemplate(node=node, name=name, revision=board.revision, strict=board.strict)
    return Step() if probe.place in board.world.held_back else Step(actions=(probe,), again=True)


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
