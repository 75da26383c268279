"""Which empty nodes get a pod now."""

from __future__ import annotations

from controller.api.revision import Revision
from controller.planner.actions import CreatePod
from controller.planner.board import Board
from controller.planner.manifest import pod_name
from controller.planner.refill import fillable, in_order, refills
from controller.planner.slot import Slot


def new_pod(board: Board, slot: Slot, revision: Revision) -> CreatePod:
    world = board.world
    name = pod_name(world.daemonset, slot.node, slot.uids, world.predecessors.get(slot.node))
    return CreatePod(node=slot.node, name=world.doubtful.get(slot.node, name), revision=revision)


def creations(board: Board) -> tuple[list[CreatePod], bool]:
    """Pods for the nodes that are `fillable`, as `refills` says; and whether some are left out (by burst, or by
    `in_order`)."""
    empty = fillable(board)
    if not empty:
        return [], False
    chosen = in_order(board, empty)
    accepted = [(slot, found) for slot, found in refills(board, chosen) if isinstance(found, Revision)]
    burst = board.budget.burst
    left_out = len(chosen) < len(empty) or len(accepted) > burst
    return [new_pod(board, slot, revision) for slot, revision in accepted[:burst]], left_out
