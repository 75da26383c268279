"""What the controller would do next, and after that: its own planner, run again and again on a simulated world.

Order and grouping are the planner's. A wave is everything that happens before something else has to happen first: a
pod gets ready, or time passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from controller.api.daemonset import Phase
from controller.api.objects import Value
from controller.api.pod import Pod
from controller.planner.actions import CreatePod
from controller.planner.blocker_texts import Blocker
from controller.planner.explanation import Explainer
from controller.planner.plan import Plan, plan
from controller.planner.rollout_state import RolloutState, rollout_state
from controller.planner.status import Status
from controller.planner.world import BackoffKey, TemplateRefused, World
from kubectl_plugin.forecast.moves import How, NodeMove, Wave, node_moves, one_per_node
from kubectl_plugin.forecast.repetition import are_alike, repeated
from kubectl_plugin.forecast.simulation import NeverReady, with_drains_under_way, world_after, world_after_waiting

NEVER: NeverReady = frozenset()
_FAR = 365 * 86_400.0
"""Seconds: nothing later than that is forecast."""
_LOOK_EVERY = 8
"""Waves between two looks whether the next ones only repeat the last."""
_PASSING = (Blocker.TERMINATING, Blocker.BACK_OFF, Blocker.STALE)
"""Blockers that end by themselves, and so are not reported here."""


class Forecast(Value, gc=True):
    """Everything that would happen if nobody changed anything and every new pod became available."""

    waves: tuple[Wave, ...]
    rest: tuple[str, ...]
    """Nodes of the waves that were not worked out one by one, in update order."""
    start: RolloutState
    end: RolloutState
    """The rollout when nothing more happens, or after the last of `waves`."""
    kept_nodes: Mapping[Blocker, tuple[str, ...]]
    """Nodes that keep an old revision, or get no pod, in update order, by the blocker. Blockers without nodes are
    left out."""
    phase: Phase | None
    """The phase at `end`; None if the waves after it were not worked out."""
    most_unavailable: int
    """The most nodes that are without an available pod at any moment, including those without one now."""
    seconds: float
    """Seconds from now until the last pod of `waves` is available."""

    @property
    def changes(self) -> bool:
        """Whether the controller would create or delete any pod."""
        return bool(self.waves or self.rest)

    @property
    def width(self) -> int:
        """Nodes per wave in the last waves that were worked out: an estimate for `rest`."""
        return max((len(wave.moves) for wave in self.waves[-2:]), default=1)


Tell: TypeAlias = Callable[[int], None]
"""Called with the number of waves that are worked out, for those who wait."""


class RestlessError(RuntimeError):
    """The planner never stops acting: a bug in the planner or in the simulation."""


def forecast(
    world: World,
    *,
    never_ready: NeverReady = NEVER,
    waves: int = 0,
    pace: float = 0.0,
    tell: Tell | None = None,
) -> Forecast:
    """`waves`: how many to work out, 0 for all. `pace`: seconds from a pod's creation until it is ready. `tell` is
    called after each wave.

    The world is taken as fresh. The server accepts every write, unless `world.verdicts` refuses a revision: then no
    pod of that revision is created, and the server is asked again at `world.ask_at`. Raises ValueError for a spec
    that the planner cannot use.
    """
    return _Foreseeing(replace(world, fresh=True), never_ready, waves, pace, tell).run()


class _Foreseeing:
    def __init__(self, world: World, never_ready: NeverReady, limit: int, pace: float, tell: Tell | None) -> None:
        self._world, self._began = world, world.now
        self._hopeless, self._limit, self._pace, self._tell = never_ready, limit, pace, tell
        self._waves: list[Wave] = []
        self._first: dict[str, Pod] = {}
        """The pod of each node when the forecast began, of those that had one only."""
        self._look_at = 0
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
        """Run one pass; returns whether there may be another."""
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
        """The nodes whose new pod the server refuses, and until when (seconds since 1970) they are held back."""
        verdicts, until = self._world.verdicts, self._world.ask_at
        creates = [one for one in decided.actions if isinstance(one, CreatePod)]
        refused = [one for one in creates if isinstance(verdicts.get(one.revision.hash), TemplateRefused)]
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
        if self._tell is not None:
            self._tell(len(self._waves))

    def _repeat(self) -> None:
        """Write down the waves that only repeat the last ones. Where these are alike and the next ones are not, the
        next look is some waves later: a look takes as long as simulating a wave."""
        count = len(self._waves)
        if count < self._look_at or not are_alike(self._waves):
            return
        most = self._limit - count if self._limit else len(self._first)
        found = repeated(rollout_state(self._world), self._waves, self._first, self._hopeless, most)
        if found is None:
            self._look_at = count + _LOOK_EVERY
            return
        self._world = found.world
        self._waves += found.waves
        self._surged |= {move.node for wave in found.waves for move in wave.moves if move.how is How.SURGE}

    def _wait(self, wake_at: float | None) -> bool:
        passed = world_after_waiting(self._world, self._hopeless, self._pace)
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
            kept_nodes={one: nodes for one, nodes in kept.items() if not (more and one is Blocker.BUDGET)},
            phase=None if more or self._status is None else Phase(self._status.rollout.phase),
            most_unavailable=self._most_unavailable,
            seconds=self._seconds,
        )


def _kept_on(rollout: RolloutState) -> Mapping[Blocker, tuple[str, ...]]:
    """The nodes that are left, by blocker, when the planner does nothing more on this rollout."""
    explainer = Explainer(rollout)
    found: dict[Blocker, list[str]] = {}
    for node in reversed(rollout.eligible):
        if node.current is not None:
            continue
        blocker = explainer.blocker(node)
        if blocker is None and node.old is not None:
            blocker = Blocker.BUDGET  # the nodes before it use up the budget
        elif blocker is Blocker.IN_BACKOFF:
            blocker = Blocker.REFUSED  # the only failure that a forecast knows
        if blocker is not None and blocker not in _PASSING:
            found.setdefault(blocker, []).append(node.name)
    return {blocker: tuple(found[blocker]) for blocker in Blocker if blocker in found}


def left_to_update(rollout: RolloutState) -> tuple[str, ...]:
    """The nodes that would be updated next on this rollout, in update order, without those that a hook or a lost
    kubelet holds."""
    return tuple([node.name for node in Explainer(rollout).in_turn])
