"""Decides which revision an empty node gets, or why it gets no pod yet."""

from __future__ import annotations

from collections.abc import Container, Sequence

from controller.api.revision import Revision
from controller.planner.board import Board
from controller.planner.obstacle_checks import obstacle_to_creation
from controller.planner.obstacles import Obstacle
from controller.planner.place import Place
from controller.planner.retries import others_first
from controller.planner.slot import Slot


def fillable(board: Board) -> list[Slot]:
    """The eligible nodes without a pod that may get one, whatever its revision, ascending."""
    return [slot for slot in board.bare if obstacle_to_creation(board, slot) is None]


def in_order(board: Board, empty: Sequence[Slot]) -> list[Slot]:
    """`empty` in the order of creation, without the nodes that are left for a later pass."""
    return others_first(board.world, empty, lambda slot: Place.of_node(slot.node), scattered=True)


def refills(board: Board, empty: Sequence[Slot]) -> list[tuple[Slot, Revision | Obstacle]]:
    """The revision that each node of `empty` gets, or an obstacle. Call it with `fillable` nodes, `in_order`.

    A node gets the current revision if it may hold that and it is stored, else what `Fallback` says. If that revision
    does not run there, the node stays empty. With partitionedScaling, nodes that never had a pod wait for their turn.
    No node gets a revision of which the server does not know every field.
    """
    refused = Obstacle.REFUSED if board.refused_for_unknown_fields else None
    if board.fills_with_current:
        return [(slot, refused or board.revision) for slot in empty]
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
        if revision is current and refused:
            found.append((slot, refused))
        elif fallback.accepts(slot, revision):
            found.append((slot, revision))
        else:
            found.append((slot, Obstacle.UNSTORED if may else Obstacle.PLACEMENT))
    return found


def _in_turn(board: Board, empty: Sequence[Slot], may_hold: Container[str]) -> tuple[set[str], set[str]]:
    """New nodes that have to wait because the quota is used up, and new nodes that get the current revision.

    Nodes that lost their pod never wait. Nodes that selector or pause keep from the current revision do not count.

    OpenKruise does not even replace a lost pod while the quota is used up. A pod counts as lost only if this process
    has seen it: after a restart, its node waits like a new one.
    """
    returning = [slot for slot in board.eligible if slot.had_old and not slot.live and slot.node in may_hold]
    room = board.quota - sum(1 for slot in board.eligible if slot.had_current) - len(returning)
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
