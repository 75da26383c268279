"""What another template does to each node: who moves, in which order, who stays, and who can not move.

Asked of the controller's own planner: the board of the DaemonSet as it would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from controller.api.base import Value
from controller.planner.board import Board
from controller.planner.eligibility import Fit
from controller.planner.lifecycle import hooked
from controller.planner.slot import Slot


class Obstacle(StrEnum):
    """Why a node keeps a pod of another revision."""

    MANUAL = "manual"
    """OnDelete."""
    TAINTED = "tainted"
    """No new pod is started there, and the old one may stay."""
    UNREACHABLE = "unreachable"
    HOOKED = "hooked"
    """A preDelete hook holds the pod."""
    UNSELECTED = "unselected"
    """`rollingUpdate.selector` does not match the node."""
    PAUSED = "paused"
    PARTITION = "partition"


class Moves(Value):
    """Names of nodes, in the order in which the controller turns to them."""

    at_once: tuple[str, ...]
    """Their pod is not available: it is replaced whatever the budget says."""
    later: tuple[str, ...]
    """The others, as the budget lets them go."""
    wave: int
    """How many of `later` go at a time; 0 while `spent_by` takes all of the budget."""
    starting: tuple[str, ...]
    """They have no pod, and get one of the wanted revision."""
    staying: tuple[str, ...]
    """They have a pod of the wanted revision."""
    held: dict[Obstacle, tuple[str, ...]]
    """Those that do not move, and why; only obstacles that there are."""
    spent_by: tuple[str, ...]
    """They are without an available pod, use the budget of maxUnavailable, and nothing is replaced there."""
    surging: bool
    """Whether a new pod comes beside the old one, instead of after it."""

    @property
    def moving(self) -> tuple[str, ...]:
        return self.at_once + self.later

    @property
    def waves(self) -> tuple[tuple[str, ...], ...]:
        """`later` in parts of `wave` nodes; none when nothing can go."""
        if not self.wave:
            return ()
        return tuple(self.later[start : start + self.wave] for start in range(0, len(self.later), self.wave))


def moves_of(board: Board) -> Moves:
    """`board`: of the DaemonSet with the wanted template, laid out over the pods that there are now."""
    in_turn = list(board.outdated)
    turns = {slot.node for slot in in_turn}
    held: dict[Obstacle, list[str]] = {}
    for slot in reversed(board.slots):
        obstacle = _obstacle(board, slot, in_turn=slot.node in turns) if slot.only_old else None
        if obstacle is not None:
            held.setdefault(obstacle, []).append(slot.node)
            turns.discard(slot.node)
    going = [slot for slot in in_turn if slot.node in turns]
    lacking = [slot for slot in board.may_hold_current if slot.current is None and slot.old is None]
    at_once = _names([slot for slot in going if not slot.old_available])
    starting = _names(lacking)
    spent_by = _without_a_pod(board, {*at_once, *starting})
    limit = board.budget.max_surge if board.surging else max(board.budget.max_unavailable - len(spent_by), 0)
    return Moves(
        at_once=at_once,
        later=_names([slot for slot in going if slot.old_available]),
        wave=limit,
        starting=starting,
        staying=_names([slot for slot in reversed(board.slots) if slot.fit is Fit.RUN and slot.current is not None]),
        held={obstacle: tuple(nodes) for obstacle, nodes in held.items()},
        spent_by=spent_by,
        surging=board.surging,
    )


def _obstacle(board: Board, slot: Slot, *, in_turn: bool) -> Obstacle | None:
    """None for a node that moves, and for one where no pod should be: that pod goes for another reason."""
    if slot.fit is Fit.STAY:
        return Obstacle.TAINTED
    if slot.fit is not Fit.RUN:
        return None
    if board.rolling_update is None:
        return Obstacle.MANUAL
    if not in_turn:
        return _kept_by(board, slot)
    if slot.unreachable:
        return Obstacle.UNREACHABLE
    if slot.old is not None and hooked(slot.old, board.world.daemonset.pre_delete):
        return Obstacle.HOOKED
    return None


def _kept_by(board: Board, slot: Slot) -> Obstacle:
    if not slot.selected:
        return Obstacle.UNSELECTED
    return Obstacle.PAUSED if slot in board.target else Obstacle.PARTITION


def _without_a_pod(board: Board, cared_for: set[str]) -> tuple[str, ...]:
    lacking = [slot for slot in reversed(board.slots) if slot.unreachable or not slot.serves]
    return _names([slot for slot in lacking if slot.fit is Fit.RUN and slot.node not in cared_for])


def _names(slots: Sequence[Slot]) -> tuple[str, ...]:
    return tuple(slot.node for slot in slots)
