"""Waves that only repeat the ones before them, on other nodes: they are written down and not simulated.

On a fleet of thousands of nodes that are updated one by one nearly all waves are such. A wave depends on all nodes,
so simulating each would take a time that grows with the square of their number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from controller.api.names import HASH_LABEL
from controller.api.objects import Value
from controller.api.pod import Pod
from controller.planner.explanation import Explainer
from controller.planner.nodes import NodeInfo
from controller.planner.rollout_state import RolloutState
from controller.planner.world import World, predecessor
from kubectl_plugin.forecast.moves import NodeMove, Wave
from kubectl_plugin.forecast.simulation import NeverReady, is_not_ready

_ALIKE: Final = 4
"""So many waves have to be alike before more like them are written down."""
_LEFT: Final = 2
"""So many waves of a row are left to the simulation, so that it sees the end of the row."""
_JITTER: Final = 1e-3
"""Seconds by which the times between waves may differ: what adding large numbers leaves."""


class Repeated(Value):
    world: World
    """As it is right after the last of `waves` was planned."""
    waves: tuple[Wave, ...]


def are_alike(waves: Sequence[Wave]) -> bool:
    """Whether the last waves are the same but for their nodes and times."""
    last = waves[-_ALIKE:]
    if len(last) < _ALIKE:
        return False
    pairs = [*pairwise(last)]
    steps = [after.begins - before.begins for before, after in pairs]
    follow = all(after.after == _nodes_of(before) for before, after in pairs)
    shapes = {tuple(_shape(move) for move in wave.moves) for wave in last}
    same = len(shapes) == 1 and len(set(*shapes)) == 1 and len({wave.holding for wave in last}) == 1
    return same and follow and max(steps) - min(steps) < _JITTER


def repeated(
    rollout: RolloutState, waves: Sequence[Wave], first: Mapping[str, Pod], never_ready: NeverReady, most: int
) -> Repeated | None:
    """The waves that follow `waves`, which are alike, as long as the nodes in turn are; None if there are too few.

    `rollout`: as it is once the last of `waves` was planned. `first`: the only pod of a node when the forecast began,
    by node. `most`: how many waves at most.
    """
    world, last = rollout.world, waves[-_ALIKE:]
    width = len(last[0].moves)
    now_there: dict[str, list[Pod]] = {}
    for pod in world.pods:
        now_there.setdefault(pod.node, []).append(pod)
    sample = first.get(last[0].moves[0].node)
    if sample is None or _has_memory(world):
        return None
    kind, queue = _kind(sample, world), []
    hopeful = {one.name for one in world.nodes if not (is_not_ready(one) or one.silent)}
    hopeful -= {node for node, _ in never_ready}
    moved = [move.node for wave in last for move in wave.moves]
    if any(node not in hopeful or node not in first or _kind(first[node], world) != kind for node in moved):
        return None
    for node in Explainer(rollout).in_turn:
        there = now_there.get(node.name, [])
        plain = len(there) == 1 and node.name in hopeful and _is_plain(node, world)
        if not plain or _kind(there[0], world) != kind:
            break
        queue.append(there[0])
    count = min(len(queue) // width - _LEFT, most)
    if count < _ALIKE:
        return None
    found = _Repeating(last, {**first, **{pod.node: pod for pod in queue}}, now_there)
    return found.run(world, [queue[place * width : (place + 1) * width] for place in range(count)])


class _Repeating:
    def __init__(self, alike: Sequence[Wave], own: Mapping[str, Pod], now_there: Mapping[str, Sequence[Pod]]) -> None:
        """`own`: the old pod of each node."""
        self._alike, self._own, self._now_there = alike, own, now_there
        self._step = alike[-1].begins - alike[-2].begins

    def run(self, world: World, groups: Sequence[Sequence[Pod]]) -> Repeated:
        """`groups`: the old pods of each wave that is written down."""
        waves = [*self._alike]
        for group in groups:
            waves.append(self._next(waves[-1], [pod.node for pod in group]))
        pods, before = dict(self._now_there), dict(world.predecessors)
        for place in range(len(self._alike) - 2, len(waves)):
            age = min(len(waves) - 1 - place, len(self._alike) - 2)
            model = self._alike[-1 - age]
            later = (place - len(self._alike) + 1 + age) * self._step
            for like, move in zip(model.moves, waves[place].moves, strict=True):
                pods[move.node] = [
                    self._as_there(one, like.node, move.node, later) for one in self._now_there[like.node]
                ]
                if like.node in world.predecessors:
                    before[move.node] = predecessor(self._own[move.node])
        return Repeated(
            world=replace(
                world,
                pods=tuple(pod for found in pods.values() for pod in found),
                predecessors=before,
                now=world.now + len(groups) * self._step,
            ),
            waves=tuple(waves[len(self._alike) :]),
        )

    def _next(self, before: Wave, nodes: Sequence[str]) -> Wave:
        moves = tuple(
            replace(move, node=node, pod=move.pod and self._own[node].name)
            for move, node in zip(before.moves, nodes, strict=True)
        )
        return replace(before, moves=moves, after=_nodes_of(before), begins=before.begins + self._step)

    def _as_there(self, model: Pod, of: str, node: str, later: float) -> Pod:
        """The pod on `node` that corresponds to `model` on the node `of`, which came so many seconds before."""
        was, own = self._own[of], self._own[node]
        since = None if model.ready_since is None else model.ready_since + later
        if model.uid != was.uid:
            name = f"{model.name}-{node}"
            return replace(
                model, name=name, uid=f"planned-{name}", node=node, created=model.created + later, ready_since=since
            )
        created = own.created if model.created == was.created else model.created + later
        since = own.ready_since if model.ready_since == was.ready_since else since
        return replace(
            model,
            name=own.name,
            uid=own.uid,
            version=own.version,
            node=node,
            labels=own.labels if model.labels == was.labels else model.labels,
            created=created,
            ready_since=since,
            restarted_at=own.restarted_at if model.restarted_at == was.restarted_at else model.restarted_at,
        )


def _nodes_of(wave: Wave) -> tuple[str, ...]:
    return tuple(sorted((move.node for move in wave.moves), reverse=True))


def _shape(move: NodeMove) -> NodeMove:
    return replace(move, node="", pod=None if move.pod is None else "")


def _is_plain(node: NodeInfo, world: World) -> bool:
    """Whether nothing sets the node apart from others with a pod of an old revision."""
    return node.only_old and node.old_ready and node.name not in world.predecessors


def _kind(pod: Pod, world: World) -> Pod:
    """The pod without what differs from node to node. Where pods are replaced, it does not matter which old revision
    they are of."""
    gates = tuple(replace(gate, since=None) for gate in pod.gates)
    labels = pod.labels if world.daemonset.in_place else {**pod.labels, HASH_LABEL: ""}
    return replace(
        pod,
        name="",
        uid="",
        version="",
        node="",
        labels=labels,
        created=0.0,
        ready_since=None,
        restarted_at=None if pod.restarted_at is None else 0.0,
        gates=gates,
    )


def _has_memory(world: World) -> bool:
    """Whether something is known of single nodes beyond their pods."""
    return bool(
        world.orphans
        or world.in_backoff
        or world.due_again
        or world.not_before
        or world.short_lived
        or world.restored
        or world.coming
        or world.leaving
        or world.awaited
        or world.strays
        or world.unpulled
        or world.unanswered_names
    )
