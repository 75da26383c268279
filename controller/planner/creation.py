"""Which empty nodes get a pod now, and of which revision (D9, behaviour.md §7.4)."""

from __future__ import annotations

from collections.abc import Container, Sequence

from controller.api.revision import Revision
from controller.planner.actions import CreatePod
from controller.planner.board import Board
from controller.planner.eligibility import Fit
from controller.planner.manifest import pod_name
from controller.planner.retries import others_first
from controller.planner.slot import Slot


def new_pod(board: Board, slot: Slot, revision: Revision) -> CreatePod:
    world = board.world
    name = pod_name(world.daemonset, slot.node, slot.uids, world.predecessors.get(slot.node))
    return CreatePod(node=slot.node, name=world.doubtful.get(slot.node, name), revision=revision)


def creations(board: Board, empty: Sequence[Slot]) -> tuple[list[CreatePod], bool]:
    """Pods for `empty`, the nodes that should run one and may get it, ascending; and whether some are left out (by
    burst, or by `others_first`).

    Each is of the current revision where its node may hold that, else as `Fallback` says (D9); where that revision
    does not run, the node stays empty. With partitionedScaling, nodes that never had a pod wait for their turn.
    """
    if not empty:
        return [], False
    may_hold = {slot.node for slot in board.may_hold_current}
    burst = board.budget.burst
    chosen = others_first(board.world, empty, lambda slot: slot.node, scattered=True)
    left_out = len(chosen) < len(empty)
    if board.progressive:
        chosen, started = _in_turn(board, chosen, may_hold)
        may_hold |= started
    fallback = board.fallback
    wanted = [(slot, board.revision if slot.node in may_hold else fallback.revision(slot)) for slot in chosen]
    accepted = [(slot, revision) for slot, revision in wanted if fallback.accepts(slot.node, revision)]
    left_out |= len(accepted) > burst
    return [new_pod(board, slot, revision) for slot, revision in accepted[:burst]], left_out


def _in_turn(board: Board, empty: Sequence[Slot], may_hold: Container[str]) -> tuple[list[Slot], set[str]]:
    """Nodes that lost their pod, and new ones while the quota of the current revision has room; and which of the new
    ones get that revision. Those that selector or pause exclude from it take no room.

    The reference does not even replace a lost pod while there is no room (§7.4). Only what the controller has seen
    itself counts as lost: after a restart in between, the node waits like a new one.
    """
    eligible = [slot for slot in board.slots if slot.fit is Fit.RUN]
    returning = [slot for slot in eligible if _is_bare(slot) and slot.had_old and slot.node in may_hold]
    room = board.quota - sum(1 for slot in eligible if slot.had_current) - len(returning)
    frozen = board.frozen
    chosen: list[Slot] = []
    started: set[str] = set()
    for slot in empty:
        if slot.had_current or slot.had_old:
            chosen.append(slot)
        elif room > 0:
            chosen.append(slot)
            if not board.older or (slot.selected and not frozen):
                started.add(slot.node)
                room -= 1
    return chosen, started


def _is_bare(slot: Slot) -> bool:
    return slot.current is None and slot.old is None
