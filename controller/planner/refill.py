"""What an empty node is given: a pod of which revision, or none yet, and why."""

from __future__ import annotations

from collections.abc import Container, Sequence

from controller.api.revision import Revision
from controller.planner.board import Board
from controller.planner.eligibility import Fit
from controller.planner.obstacles import Obstacle
from controller.planner.place import Place
from controller.planner.retries import others_first
from controller.planner.slot import Slot
from controller.planner.stops import to_creation


def fillable(board: Board) -> list[Slot]:
    """Nodes that should run a pod and may get one, whatever its revision, ascending."""
    return [slot for slot in board.bare if to_creation(board, slot) is None]


def in_order(board: Board, empty: Sequence[Slot]) -> list[Slot]:
    """The order in which they are served, and without those that are left to a later pass."""
    return others_first(board.world, empty, lambda slot: Place.of_node(slot.node), scattered=True)


def refills(board: Board, empty: Sequence[Slot]) -> list[tuple[Slot, Revision | Obstacle]]:
    """`empty`: those of `fillable`, in the order of `in_order`.

    Each is of the current revision where its node may hold that and it is stored, else as `Fallback` says; where
    that revision does not run, the node stays empty. With partitionedScaling, nodes that never had a pod wait for
    their turn.
    """
    if board.fills_with_current:
        return [(slot, board.revision) for slot in empty]
    may_hold = board.holders
    waiting: Container[str] = ()
    if board.progressive:
        waiting, started = _in_turn(board, empty, may_hold)
        may_hold |= started
    current, fallback, replaced = board.revision, board.fallback, board.fallback.replaces_current
    found: list[tuple[Slot, Revision | Obstacle]] = []
    for slot in empty:
        if slot.node in waiting:
            found.append((slot, Obstacle.SCALING))
            continue
        may = slot.node in may_hold
        revision = current if may and not replaced else fallback.revision(slot)
        if fallback.accepts(slot.node, revision):
            found.append((slot, revision))
        else:
            found.append((slot, Obstacle.UNSTORED if may else Obstacle.PLACEMENT))
    return found


def _in_turn(board: Board, empty: Sequence[Slot], may_hold: Container[str]) -> tuple[set[str], set[str]]:
    """New nodes that wait because the quota of the current revision has no room, and those that get it.

    Nodes that lost their pod never wait. Those that selector or pause exclude from the current revision take no room.

    The reference does not even replace a lost pod while there is no room. Only what the controller has seen
    itself counts as lost: after a restart in between, the node waits like a new one.
    """
    eligible = [slot for slot in board.slots if slot.fit is Fit.RUN]
    returning = [slot for slot in eligible if _is_bare(slot) and slot.had_old and slot.node in may_hold]
    room = board.quota - sum(1 for slot in eligible if slot.had_current) - len(returning)
    frozen = board.frozen
    waiting: set[str] = set()
    started: set[str] = set()
    for slot in empty:
        if slot.had_current or slot.had_old:
            continue
        if room <= 0:
            waiting.add(slot.node)
        elif not board.older or (slot.selected and not frozen):
            started.add(slot.node)
            room -= 1
    return waiting, started


def _is_bare(slot: Slot) -> bool:
    return slot.current is None and slot.old is None
