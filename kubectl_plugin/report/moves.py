"""What another template does to each node: which are updated and in which order, which stay, and which cannot be
updated.

The controller's own planner answers that, asked about the DaemonSet as it would be.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.api.objects import Value
from controller.planner.blocker_texts import Blocker
from controller.planner.explanation import Explainer
from controller.planner.nodes import NodeInfo
from controller.planner.rollout_state import RolloutState
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
    held: dict[Blocker, tuple[str, ...]]
    """Nodes that are not updated, by the blocker."""
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


def planned_moves(rollout: RolloutState) -> Moves:
    """`rollout`: of the DaemonSet with the wanted template and its present pods."""
    explainer = Explainer(rollout)
    going = explainer.in_turn
    in_turn = {node.name for node in going}
    held: dict[Blocker, list[str]] = {}
    for node in reversed(rollout.nodes):
        blocker = explainer.blocker(node) if node.only_old else None
        if blocker is not None and node.name not in in_turn:
            held.setdefault(blocker, []).append(node.name)
    at_once = _names([node for node in going if not node.old_ready])
    starting = _names([node for node in rollout.may_hold_current if node.current is None and node.old is None])
    cared_for = {*at_once, *starting}
    spent_by = tuple([node for node in rollout.unavailable_nodes if node not in cared_for])
    limit = rollout.budget.max_surge if rollout.surging else max(rollout.budget.max_unavailable - len(spent_by), 0)
    return Moves(
        at_once=at_once,
        later=_names([node for node in going if node.old_ready]),
        wave=limit,
        starting=starting,
        staying=_names([node for node in reversed(rollout.eligible) if node.current is not None]),
        held={blocker: tuple(nodes) for blocker, nodes in held.items()},
        spent_by=spent_by,
        surging=rollout.surging,
        in_place=rollout.in_place,
    )


def _names(nodes: Sequence[NodeInfo]) -> tuple[str, ...]:
    return tuple(node.name for node in nodes)
