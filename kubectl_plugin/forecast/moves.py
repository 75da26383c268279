"""What the actions of a plan do to each node, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import assert_never

from msgspec.structs import replace

from controller.api.objects import Value
from controller.inplace.change import InPlaceChange, NotPossible
from controller.planner.actions import (
    Action,
    CreatePod,
    DeletePod,
    DeleteReason,
    DrainPod,
    Harmless,
    PrepareDelete,
    UpdateInPlace,
)
from controller.planner.blockers import in_place_change_of
from controller.planner.nodes import NodeInfo
from controller.planner.rollout_state import RolloutState
from kubectl_plugin.rollout.in_place import what_it_restarts


class How(StrEnum):
    RECREATE = "re-create"
    IN_PLACE = "in place"
    SURGE = "surge"
    """A new pod is created beside the old one, which is deleted once the new one is available."""
    CREATE = "create"
    """The node has no pod and gets one."""
    FINISH = "finish"
    """The new pod exists already; the old one is deleted."""
    REMOVE = "remove"


AT_ONCE = "old pod not available: outside the budget"


class NodeMove(Value):
    node: str
    how: How
    why: str
    """Empty unless there is a reason besides the node's turn."""
    detail: str | None = None
    """What an update in place restarts, or why the pod is re-created instead."""
    pod: str | None = None
    """Name of the deleted pod; None if none is deleted."""
    revision: int | None = None
    """Revision number of the new pod; None if none is created."""

    @property
    def is_urgent(self) -> bool:
        """Whether the node is updated outside the budget."""
        return self.why == AT_ONCE


class Wave(Value):
    """Nodes that are updated together, in the controller's order."""

    begins: float
    """Seconds from now, estimated from the pace of recent updates."""
    after: tuple[str, ...]
    """Nodes whose pods must get ready first; empty if the wave begins at once or only waits for time to pass."""
    holding: tuple[str, ...]
    """Other nodes without an available pod when the wave begins; they count against maxUnavailable."""
    moves: tuple[NodeMove, ...]


def node_moves(rollout: RolloutState, actions: Iterable[Action]) -> Iterator[NodeMove]:
    """The moves of `actions`, which were planned for `rollout`; `Harmless` actions are skipped."""
    nodes = {node.name: node for node in rollout.nodes}
    for action in actions:
        if isinstance(action, Harmless):
            continue
        match action:
            case DeletePod() | PrepareDelete():
                yield _deletion(rollout, action, nodes.get(action.node))
            case CreatePod():
                yield _creation(action, nodes.get(action.node))
            case UpdateInPlace() | DrainPod():
                yield _in_place(rollout, action, nodes.get(action.node))
            case _:
                assert_never(action)


def one_per_node(moves: Iterable[NodeMove]) -> tuple[NodeMove, ...]:
    """Merges the moves of each node, such as a deletion and a creation, in the order of the first."""
    merged: dict[str, NodeMove] = {}
    for move in moves:
        before = merged.get(move.node)
        merged[move.node] = move if before is None else _merged(before, move)
    return tuple(merged.values())


def _merged(first: NodeMove, second: NodeMove) -> NodeMove:
    revision = first.revision if second.revision is None else second.revision
    pod = first.pod or second.pod
    surge = How.SURGE in (first.how, second.how)
    how = How.SURGE if surge else How.RECREATE if revision is not None and pod else first.how
    return replace(first, how=how, revision=revision, pod=pod, detail=first.detail or second.detail)


def _in_place(rollout: RolloutState, action: UpdateInPlace | DrainPod, node: NodeInfo | None) -> NodeMove:
    old = node.old if node is not None else None
    change = in_place_change_of(rollout, old) if old is not None else None
    detail = what_it_restarts(change) if isinstance(change, InPlaceChange) else None
    why = "" if node is None or node.old_ready or (old is not None and old.draining) else AT_ONCE
    number = rollout.revision.number
    return NodeMove(node=action.node, how=How.IN_PLACE, why=why, detail=detail, revision=number)


def _deletion(rollout: RolloutState, action: DeletePod | PrepareDelete, node: NodeInfo | None) -> NodeMove:
    old = node.old if node is not None else None
    how = How.FINISH if action.why is DeleteReason.SURGED else How.REMOVE
    why, detail = "" if how is How.FINISH else str(action.why), None
    if action.why is DeleteReason.OUTDATED:
        why = "" if node is None or node.old_ready or (old is not None and old.held_by_hook) else AT_ONCE
        if isinstance(action, DeletePod) and action.refusal is not None and old is not None:
            change = in_place_change_of(rollout, old)
            detail = change.why if isinstance(change, NotPossible) else None
    return NodeMove(node=action.node, how=how, why=why, detail=detail, pod=action.pod.name)


def _creation(action: CreatePod, node: NodeInfo | None) -> NodeMove:
    number = action.revision.number
    if node is not None and node.old is not None:
        why = "" if node.old_ready else AT_ONCE
        return NodeMove(node=action.node, how=How.SURGE, why=why, pod=node.old.name, revision=number)
    was_there = node is not None and (node.had_current or node.had_old)
    why = "its pod is gone" if was_there else "no pod yet"
    return NodeMove(node=action.node, how=How.CREATE, why=why, revision=number)
