"""What another template does to each node: which are updated and in which order, which stay, and which cannot be
updated.

The controller's own planner answers that, asked about the DaemonSet as it would be.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.api.objects import Value
from controller.planner.blockers import Obstacle
from controller.planner.board import Board
from controller.planner.explanation import Explainer
from controller.planner.slot import Slot
from kubectl_plugin.report.in_place import RECREATE, SURGE


class Moves(Value):
    """Names of nodes, in the order in which the controller takes them."""

    at_once: tuple[str, ...]
    """Nodes whose pod is not available: it is replaced whatever the budget allows."""
    later: tuple[str, ...]
    """Nodes whose pod is available: it is replaced as the budget allows."""
    wave: int
    """How many of `later` are updated at a time; 0 while the nodes in `spent_by` use up the budget."""
    starting: tuple[str, ...]
    """Nodes without a pod, which get one of the wanted revision."""
    staying: tuple[str, ...]
    """Nodes that have a pod of the wanted revision already."""
    held: dict[Obstacle, tuple[str, ...]]
    """Nodes that are not updated, by the obstacle."""
    spent_by: tuple[str, ...]
    """Nodes without an available pod that are not updated, but count against maxUnavailable."""
    surging: bool
    """Whether a new pod is created beside the old one, instead of after it."""

    in_place: bool
    """Whether pods are updated in place where possible; `in_place.ways_of` tells for which it is."""

    @property
    def how(self) -> str:
        """How all nodes are updated; empty if it may differ from node to node."""
        return SURGE if self.surging else "" if self.in_place else RECREATE

    @property
    def moving(self) -> tuple[str, ...]:
        return self.at_once + self.later

    @property
    def waves(self) -> tuple[tuple[str, ...], ...]:
        """`later` in groups of `wave` nodes; empty when none can be updated."""
        if not self.wave:
            return ()
        return tuple(self.later[start : start + self.wave] for start in range(0, len(self.later), self.wave))


def planned_moves(board: Board) -> Moves:
    """`board`: of the DaemonSet with the wanted template and its present pods."""
    explainer = Explainer(board)
    going = explainer.in_turn
    in_turn = {slot.node for slot in going}
    held: dict[Obstacle, list[str]] = {}
    for slot in reversed(board.slots):
        obstacle = explainer.obstacle(slot) if slot.only_old else None
        if obstacle is not None and slot.node not in in_turn:
            held.setdefault(obstacle, []).append(slot.node)
    at_once = _names([slot for slot in going if not slot.old_serves])
    starting = _names([slot for slot in board.may_hold_current if slot.current is None and slot.old is None])
    cared_for = {*at_once, *starting}
    spent_by = tuple([node for node in board.unserved_nodes if node not in cared_for])
    limit = board.budget.max_surge if board.surging else max(board.budget.max_unavailable - len(spent_by), 0)
    return Moves(
        at_once=at_once,
        later=_names([slot for slot in going if slot.old_serves]),
        wave=limit,
        starting=starting,
        staying=_names([slot for slot in reversed(board.eligible) if slot.current is not None]),
        held={obstacle: tuple(nodes) for obstacle, nodes in held.items()},
        spent_by=spent_by,
        surging=board.surging,
        in_place=board.in_place,
    )


def _names(slots: Sequence[Slot]) -> tuple[str, ...]:
    return tuple(slot.node for slot in slots)
