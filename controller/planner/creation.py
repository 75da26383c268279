"""Which empty nodes get a pod now, and of which revision (D9, behaviour.md §7.4)."""

from __future__ import annotations

from collections.abc import Sequence

from controller.api.revision import Revision
from controller.planner.actions import CreatePod
from controller.planner.board import Board
from controller.planner.eligibility import Fit
from controller.planner.manifest import pod_name
from controller.planner.quota import is_frozen
from controller.planner.slot import Slot


def new_pod(board: Board, slot: Slot, revision: Revision) -> CreatePod:
    world = board.world
    name = pod_name(world.daemonset, slot.node, revision.hash, slot.uids, world.predecessors.get(slot.node))
    return CreatePod(node=slot.node, name=name, revision=revision)


def creations(board: Board, empty: Sequence[Slot]) -> tuple[list[CreatePod], bool]:
    """Pods for `empty`, the nodes that should run one and may get it, ascending; and whether the burst left some out.

    Each is of the revision that its node may hold (D9); at a first deployment there is only one. With
    partitionedScaling, nodes that never had a pod wait for their turn.
    """
    if not empty:
        return [], False
    fallback = board.older[0] if board.older else board.revision
    may_hold = {slot.node for slot in board.may_hold_current}
    burst = board.budget.burst
    if board.progressive:
        back = sum(1 for slot in empty if slot.had_old and slot.node in may_hold)
        empty = _in_turn(board, empty, back)
        may_hold |= {slot.node for slot in empty if not _was_served(slot)}
    made = [new_pod(board, slot, board.revision if slot.node in may_hold else fallback) for slot in empty[:burst]]
    return made, len(empty) > burst


def _in_turn(board: Board, empty: Sequence[Slot], back: int) -> list[Slot]:
    """Nodes that lost their pod, and as many new ones as the quota of the current revision has room for.

    `back` nodes lost an old pod and get a current one. The reference does not even replace a lost pod while there is
    no room (§7.4). Only what the controller has seen itself counts as lost: after a restart in between, the node
    waits like a new one.
    """
    taken = sum(1 for slot in board.slots if slot.fit is Fit.RUN and slot.had_current)
    room = board.quota - taken - back
    rolling = board.rolling_update
    frozen = bool(board.older) and rolling is not None and is_frozen(board.slots, rolling)
    chosen = []
    for slot in empty:
        if _was_served(slot):
            chosen.append(slot)
        elif room > 0 and not frozen and (slot.selected or not board.older):
            chosen.append(slot)
            room -= 1
    return chosen


def _was_served(slot: Slot) -> bool:
    return slot.had_current or slot.had_old
