"""Finds the blocker of a rollout: the one reason for which nodes that should be updated now wait."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from controller.api.base import Value
from controller.api.text import joined
from controller.api.wellknown import FAILED_IN_PLACE, HELD_BY_HOOK, NODES_UNREACHABLE, RESIZE_DEFERRED, RESIZE_REFUSED
from controller.planner.board import Board
from controller.planner.explanation import Explainer
from controller.planner.hook_messages import holding, some
from controller.planner.obstacle_checks import resize_deferral, resize_refusal
from controller.planner.obstacles import Obstacle
from controller.planner.phase import Standing
from controller.planner.world import Unpullable

WAITS_FOR: Final = "waits for "
"""How `awaiting` begins."""


class Blocker(Value):
    """A reason why a rollout waits, for the condition, and a text."""

    reason: str
    text: str


_WAITS = {
    Obstacle.UNPULLED: Blocker(reason="ImagesNotPulled", text="the new image cannot be pulled on"),
    Obstacle.UNANSWERED: Blocker(reason="ServerSilent", text="the server has not answered what was asked for"),
    Obstacle.PULLING: Blocker(reason="PullingImages", text="the new image is being pulled on"),
    Obstacle.UNREACHABLE: Blocker(reason=NODES_UNREACHABLE, text="it is the turn of unreachable nodes:"),
}


def blocker_of(explainer: Explainer, standing: Standing) -> Blocker | None:
    """The blocker of a rollout: why nodes that should be updated now wait, if that is neither a pod nor the budget;
    None: the rollout moves."""
    if standing.awaited:
        return Blocker(reason=NODES_UNREACHABLE, text=awaiting(standing.awaited))
    if Obstacle.HOOK in explainer.waiting or _holds_a_node(explainer):
        return Blocker(reason=HELD_BY_HOOK, text=holding(explainer))
    if explainer.board.in_place and (stuck := _stuck_in_place(explainer.board)) is not None:
        return stuck
    return _all_wait(explainer)


def awaiting(names: Collection[str]) -> str:
    """Such as `waits for 3 unreachable nodes: node-2, node-1, node-0`."""
    return f"{WAITS_FOR}{len(names)} unreachable {'node' if len(names) == 1 else 'nodes'}: {some(names)}"


def _all_wait(explainer: Explainer) -> Blocker | None:
    """The blocker of a rollout in which every node waits for somebody else to act, though not all of them for
    unreachable nodes. Its reason is the first in the order of `_WAITS`."""
    board, waiting = explainer.board, explainer.waiting
    found = [(one, slots) for one in _WAITS if (slots := waiting.get(one))]
    if {one for one, _ in found} <= {Obstacle.UNREACHABLE} or sum(len(slots) for _, slots in found) < len(
        board.outdated
    ):
        return None
    parts = []
    for obstacle, slots in found:
        first = board.world.unpulled.get(slots[0].node)
        why = f": {first.why}" if obstacle is Obstacle.UNPULLED and isinstance(first, Unpullable) else ""
        parts.append(f"{_WAITS[obstacle].text} {some(slot.node for slot in slots)}{why}")
    return Blocker(reason=_WAITS[found[0][0]].reason, text=joined(*parts))


def _holds_a_node(explainer: Explainer) -> bool:
    """Whether the preDelete hook keeps a failed pod, or an old one whose successor is available."""
    held = {pod.node for pod in explainer.held_by_hook}
    return any(slot.node in held and explainer.obstacle(slot) is Obstacle.HOOK for slot in explainer.board.slots)


def _stuck_in_place(board: Board) -> Blocker | None:
    """The blocker for pods that were updated in place and do not become what the revision asks for."""
    updated = [slot.current for slot in board.slots if slot.current is not None and not slot.current_available]
    pods = [pod for pod in updated if pod.underway is not None]
    for reason, text, why in (
        (
            RESIZE_REFUSED,
            "the resize of pods is refused on",
            {pod.node: resize_refusal(board.world, pod) for pod in pods},
        ),
        (RESIZE_DEFERRED, "the resize of pods is deferred on", {pod.node: resize_deferral(pod) for pod in pods}),
        (FAILED_IN_PLACE, "containers do not start again on", {pod.node: pod.problem or "" for pod in pods}),
    ):
        if names := [node for node in why if why[node]]:
            return Blocker(reason=reason, text=f"{text} {some(names)}: {why[names[0]]}")
    return None
