"""Which nodes do not get the current revision, and what keeps it from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from controller.planner.board import Board
from controller.planner.eligibility import Fit
from controller.planner.explanation import Explainer
from controller.planner.obstacles import Obstacle

Kept: TypeAlias = Mapping[Obstacle, tuple[str, ...]]
"""Nodes with an older revision, or with no pod, in update order; only obstacles that there are, as they are told."""
_PASSING = (Obstacle.TERMINATING, Obstacle.BACK_OFF, Obstacle.STALE)
"""They end by themselves, so nobody is told of them here."""


def kept_on(board: Board) -> Kept:
    """Who is left when the planner does nothing more on this board."""
    explainer = Explainer(board)
    found: dict[Obstacle, list[str]] = {}
    for slot in reversed(board.slots):
        if slot.fit is not Fit.RUN or slot.current is not None:
            continue
        obstacle = explainer.obstacle(slot)
        if obstacle is None and slot.old is not None:
            obstacle = Obstacle.BUDGET  # taken by those before it
        elif obstacle is Obstacle.HELD_BACK:
            obstacle = Obstacle.REFUSED  # a forecast knows no other failure
        if obstacle is not None and obstacle not in _PASSING:
            found.setdefault(obstacle, []).append(slot.node)
    return {obstacle: tuple(found[obstacle]) for obstacle in Obstacle if obstacle in found}


def left_to_update(board: Board) -> tuple[str, ...]:
    """Who would be next on this board, in update order: without those that a hook holds or nobody can reach."""
    return tuple([slot.node for slot in Explainer(board).in_turn])
