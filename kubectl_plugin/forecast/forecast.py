"""Forecasts a rollout by running the controller's own planner repeatedly on a simulated world.

A wave is everything that happens before a pod must get ready or time must pass. Waves that only repeat the ones
before them on other nodes are copied, not simulated: simulating each takes time quadratic in the number of nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Final, TypeAlias

from msgspec.structs import replace

from controller.api.daemonset import Phase
from controller.api.names import HASH_LABEL
from controller.api.objects import Value
from controller.api.pod import Pod
from controller.planner.actions import CreatePod
from controller.planner.blocker_texts import Blocker
from controller.planner.explanation import Explainer
from controller.planner.plan import Plan, plan
from controller.planner.rollout_state import RolloutState, rollout_state
from controller.planner.status import Status
from controller.planner.world import BackoffKey, TemplateRefused, World, predecessor
from kubectl_plugin.forecast.simulate import (
    NeverReady,
    NodeMove,
    Wave,
    node_moves,
    one_per_node,
    with_drains_under_way,
    world_after,
    world_after_waiting,
)
from kubectl_plugin.rollout.in_place import How

_ALIKE: Final = 4
"""Number of waves that must be alike before further ones are copied."""
_LEFT: Final = 2
"""Waves at the end of a run that are still simulated, so that its end is noticed."""
_JITTER: Final = 1e-3
"""Seconds by which intervals between waves may differ due to rounding."""
_OF_ONE_POD: Final = ("labels", "created", "ready_since", "restarted_at")
"""Fields that an update in place may leave as they were."""
_MEMORY: Final = (
    *("orphans", "in_backoff", "due_again", "not_before", "short_lived", "restored", "coming", "leaving"),
    *("awaited", "strays", "unpulled", "unanswered_names"),
)
"""What a world knows about individual nodes beyond their pods."""


def are_alike(waves: Sequence[Wave]) -> bool:
    """Whether the last waves differ only in their nodes and times."""
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
) -> tuple[World, tuple[Wave, ...]] | None:
    """Copies of the last of `waves`, which are alike, for as long as the next nodes are alike, and the state right
    after the last copy was planned; at most `most` copies, or None if too few. `rollout` is the state after `waves`,
    `first` each node's only pod when the forecast began."""
    world, last = rollout.world, waves[-_ALIKE:]
    width = len(last[0].moves)
    now_there: dict[str, list[Pod]] = {}
    for pod in world.pods:
        now_there.setdefault(pod.node, []).append(pod)
    sample = first.get(last[0].moves[0].node)
    if (
        sample is None
        or rollout.domains is not None
        or rollout.step_progress is not None
        or any(getattr(world, field) for field in _MEMORY)
    ):
        return None
    kind, queue = _kind(sample, world), []
    able = {node.name for node in world.nodes if not node.not_ready}
    able -= {node for node, _ in never_ready}
    moved = [move.node for wave in last for move in wave.moves]
    if any(node not in able or node not in first or _kind(first[node], world) != kind for node in moved):
        return None
    for node in Explainer(rollout).in_turn:
        there = now_there.get(node.name, [])
        plain = node.only_old and node.old_ready and node.name not in world.predecessors
        if not plain or len(there) != 1 or node.name not in able or _kind(there[0], world) != kind:
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

    def run(self, world: World, groups: Sequence[Sequence[Pod]]) -> tuple[World, tuple[Wave, ...]]:
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
        after = tuple(pod for found in pods.values() for pod in found)
        world = replace(world, pods=after, predecessors=before, now=world.now + len(groups) * self._step)
        return world, tuple(waves[len(self._alike) :])

    def _next(self, before: Wave, nodes: Sequence[str]) -> Wave:
        moves = tuple(
            replace(move, node=node, pod=move.pod and self._own[node].name)
            for move, node in zip(before.moves, nodes, strict=True)
        )
        return replace(before, moves=moves, after=_nodes_of(before), begins=before.begins + self._step)

    def _as_there(self, model: Pod, of: str, node: str, later: float) -> Pod:
        """The counterpart on `node` of `model`, a pod on the node `of`, shifted by `later` seconds."""
        was, own = self._own[of], self._own[node]
        since = None if model.ready_since is None else model.ready_since + later
        shifted = replace(model, node=node, created=model.created + later, ready_since=since)
        if model.uid != was.uid:
            name = f"{model.name}-{node}"
            return replace(shifted, name=name, uid=f"planned-{name}")
        unchanged = [field for field in _OF_ONE_POD if getattr(model, field) == getattr(was, field)]
        kept = {field: getattr(own, field) for field in unchanged}
        return replace(shifted, name=own.name, uid=own.uid, version=own.version, **kept)


def _nodes_of(wave: Wave) -> tuple[str, ...]:
    return tuple(sorted((move.node for move in wave.moves), reverse=True))


def _shape(move: NodeMove) -> NodeMove:
    return replace(move, node="", pod=None if move.pod is None else "")


def _kind(pod: Pod, world: World) -> Pod:
    """The pod without node-specific fields. When pods are replaced, the old revision does not matter."""
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


_FAR = 365 * 86_400.0
"""Forecast horizon in seconds."""
_LOOK_EVERY = 8
"""Waves between two checks for repetition."""
_PASSING = (Blocker.TERMINATING, Blocker.PODS_DO_NOT_LAST, Blocker.STALE)
"""Blockers that resolve by themselves and are not reported."""


class Forecast(Value, gc=True):
    """What happens if nothing is changed and every new pod becomes available."""

    waves: tuple[Wave, ...]
    rest: tuple[str, ...]
    """Nodes beyond the computed waves, in update order."""
    start: RolloutState
    end: RolloutState
    """The rollout after the last of `waves`, or when nothing more happens."""
    kept_nodes: Mapping[Blocker, tuple[str, ...]]
    """Nodes that keep an old revision or get no pod, in update order, by blocker."""
    phase: Phase | None
    """The phase at `end`; None if `waves` is incomplete."""
    most_unavailable: int
    """The maximum number of nodes without an available pod at any moment, including now."""
    seconds: float
    """Seconds from now until the last pod of `waves` is available."""
    copied: int
    """How many of `waves` were copied from those before, not simulated."""

    @property
    def changes(self) -> bool:
        return bool(self.waves or self.rest)

    @property
    def width(self) -> int:
        """Nodes per wave, estimated from the last two computed waves."""
        return max((len(wave.moves) for wave in self.waves[-2:]), default=1)


Progress: TypeAlias = Callable[[int], None]
"""Called with the number of waves computed so far."""


class RestlessError(RuntimeError):
    """The planner never stops acting, which is a bug in the planner or the simulation."""


def forecast(
    world: World,
    *,
    never_ready: NeverReady = frozenset(),
    waves: int = 0,
    pace: float = 0.0,
    progress: Progress | None = None,
    shorten: bool = True,
) -> Forecast:
    """The first `waves` waves (0: all); `world` counts as fresh. `pace`: seconds from a pod's creation until it is
    ready. The server accepts every write, except pods of revisions that `world.verdicts` refuses; it is asked again
    at `world.ask_at`. `shorten`: waves that repeat are copied. Raises ValueError for a spec that the planner cannot
    use."""
    return _Forecaster(replace(world, fresh=True), never_ready, waves, pace, progress, shorten).run()


class _Forecaster:
    def __init__(
        self, world: World, never_ready: NeverReady, limit: int, pace: float, progress: Progress | None, shorten: bool
    ) -> None:
        self._world, self._began = world, world.now
        self._never_ready, self._limit, self._pace, self._progress = never_ready, limit, pace, progress
        self._waves: list[Wave] = []
        self._first: dict[str, Pod] = {}
        """The initial pod of each node that had exactly one."""
        self._look_at = 0.0 if shorten else inf
        """The number of waves at which repetition is looked for again."""
        self._copied = 0
        self._open: Wave | None = None
        self._after: tuple[str, ...] = ()
        self._surged: set[str] = set()
        self._status: Status | None = None
        self._most_unavailable = 0
        self._seconds = 0.0
        self._cut_short = False

    def run(self) -> Forecast:
        start = rollout_state(self._world)
        self._world = with_drains_under_way(self._world)
        on_node = Counter(pod.node for pod in self._world.pods)
        self._first = {pod.node: pod for pod in self._world.pods if on_node[pod.node] == 1}
        most = 40 * (len(start.nodes) + len(self._world.pods)) + 400
        for _ in range(most):
            if not self._pass():
                return self._forecast(start)
        raise RestlessError(f"no end after {most} passes")

    def _pass(self) -> bool:
        """Runs one pass and returns whether another may follow."""
        decided = plan(self._world)
        if refused := self._refused(decided):
            self._world = replace(self._world, in_backoff={**self._world.in_backoff, **refused})
            return True
        self._status = decided.status
        if decided.status is not None and decided.status.counts is not None:
            self._most_unavailable = max(self._most_unavailable, decided.status.counts.number_unavailable)
        if not decided.actions:
            self._world = world_after(self._world, decided)
            self._close()
            return self._wait(decided.wake_at)
        rollout = rollout_state(self._world)
        ends = (How.FINISH, How.REMOVE)  # of a surge: only the old pod of an earlier wave goes
        found = node_moves(rollout, decided.actions)
        moves = [one for one in found if not (one.how in ends and one.node in self._surged)]
        if moves:
            if self._open is None and self._limit and len(self._waves) == self._limit:
                self._cut_short = True
                return False
            self._move(rollout, moves)
        self._world = world_after(self._world, decided)
        return True

    def _refused(self, decided: Plan) -> dict[BackoffKey, float]:
        verdicts, until = self._world.verdicts, self._world.ask_at
        creates = [action for action in decided.actions if isinstance(action, CreatePod)]
        refused = [create for create in creates if isinstance(verdicts.get(create.revision.hash), TemplateRefused)]
        return {BackoffKey("node", one.node): until for one in refused}

    def _move(self, rollout: RolloutState, moves: list[NodeMove]) -> None:
        self._surged |= {move.node for move in moves if move.how is How.SURGE}
        wave = self._open
        if wave is None:
            wave = Wave(
                moves=(),
                after=self._after,
                holding=tuple(rollout.unavailable_nodes),
                begins=self._world.now - self._began,
                step=rollout.step_progress.step if rollout.step_progress is not None else None,
            )
        self._open = replace(wave, moves=(*wave.moves, *moves))

    def _close(self) -> None:
        wave, self._open = self._open, None
        if wave is None:
            return
        moves = one_per_node(wave.moves)
        moved = {move.node for move in moves}
        holding = tuple(node for node in wave.holding if node not in moved)
        self._waves.append(replace(wave, moves=moves, holding=holding))
        self._after = ()
        self._repeat()
        if self._progress is not None:
            self._progress(len(self._waves))

    def _repeat(self) -> None:
        """Appends waves that repeat the last ones. A failed attempt costs as much as simulating a wave, so the next
        one is made `_LOOK_EVERY` waves later."""
        count = len(self._waves)
        if count < self._look_at or not are_alike(self._waves):
            return
        most = self._limit - count if self._limit else len(self._first)
        found = repeated(rollout_state(self._world), self._waves, self._first, self._never_ready, most)
        if found is None:
            self._look_at = count + _LOOK_EVERY
            return
        self._world, copies = found
        self._waves += copies
        self._copied += len(copies)
        self._surged |= {move.node for wave in copies for move in wave.moves if move.how is How.SURGE}

    def _wait(self, wake_at: float | None) -> bool:
        passed = world_after_waiting(self._world, self._never_ready, self._pace)
        if passed is not None:
            self._world, ready = passed
            self._after += ready
            self._seconds = self._world.now + self._world.daemonset.spec.min_ready_seconds - self._began
            return True
        if wake_at is not None and self._world.now < wake_at < self._began + _FAR:
            in_backoff = {place: until for place, until in self._world.in_backoff.items() if until > wake_at}
            self._world = replace(self._world, now=wake_at, in_backoff=in_backoff)
            return True
        return False

    def _forecast(self, start: RolloutState) -> Forecast:
        end = rollout_state(self._world)
        more, kept = self._cut_short, _kept_on(end)
        return Forecast(
            waves=tuple(self._waves),
            rest=left_to_update(end) if more else (),
            start=start,
            end=end,
            kept_nodes={
                one: nodes for one, nodes in kept.items() if not (more and one in (Blocker.BUDGET, Blocker.DOMAIN))
            },
            phase=None if more or self._status is None else Phase(self._status.rollout.phase),
            most_unavailable=self._most_unavailable,
            seconds=self._seconds,
            copied=self._copied,
        )


def _kept_on(rollout: RolloutState) -> Mapping[Blocker, tuple[str, ...]]:
    explainer = Explainer(rollout)
    found: dict[Blocker, list[str]] = {}
    for node in rollout.eligible_in_order:
        if node.current is not None:
            continue
        blocker = explainer.blocker(node)
        if blocker is None and node.old is not None:
            blocker = Blocker.BUDGET  # the nodes before it use up the budget
        elif blocker is Blocker.WRITE_FAILED:
            blocker = Blocker.REFUSED  # the only failure that a forecast knows
        if blocker is not None and blocker not in _PASSING:
            found.setdefault(blocker, []).append(node.name)
    return {blocker: tuple(found[blocker]) for blocker in Blocker if blocker in found}


def left_to_update(rollout: RolloutState) -> tuple[str, ...]:
    """The nodes to be updated next, in update order, except those held by a hook or a lost kubelet."""
    return tuple([node.name for node in Explainer(rollout).in_turn])
