"""Forecasts a rollout by running the controller's own planner repeatedly on a simulated world.

A wave is everything that happens before a pod must get ready or time must pass.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Final, TypeVar

from msgspec.structs import replace

from controller.api.daemonset import Phase
from controller.api.objects import Value
from controller.planner.actions import CreatePod
from controller.planner.blocker_texts import Blocker
from controller.planner.explanation import Explainer
from controller.planner.plan import Plan, plan
from controller.planner.rollout_state import RolloutState, rollout_state
from controller.planner.status import Status
from controller.planner.world import BackoffKey, TemplateRefused, World
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

_FAR = 365 * 86_400.0
"""Forecast horizon in seconds."""
MOST_WAVES: Final = 200
"""Each wave takes time in proportion to the number of nodes: on 5,000 nodes an eighth of a second."""
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

    @property
    def changes(self) -> bool:
        return bool(self.waves or self.rest)

    @property
    def width(self) -> int:
        """Nodes per wave, estimated from the last two computed waves."""
        return max((len(wave.moves) for wave in self.waves[-2:]), default=1)


class RestlessError(RuntimeError):
    """The planner never stops acting, which is a bug in the planner or the simulation."""


T = TypeVar("T")


def finished(course: Generator[int, None, T], after_each: Callable[[int], None] = lambda _: None) -> T:
    """What `course` returns in the end. `after_each` gets what it yields."""
    while True:
        try:
            after_each(next(course))
        except StopIteration as end:
            result: T = end.value
            return result


def forecast_by_wave(
    world: World, *, never_ready: NeverReady = frozenset(), waves: int = MOST_WAVES, pace: float = 0.0
) -> Generator[int, None, Forecast]:
    """The first `waves` waves; `world` counts as fresh. `pace`: seconds from a pod's creation until it is ready. The
    server accepts every write, except pods of revisions that `world.verdicts` refuses; it is asked again at
    `world.retry_dry_run_at`. Yields the number of waves so far. Raises ValueError for a spec that the planner cannot
    use."""
    return _Forecaster(replace(world, fresh=True), never_ready, waves, pace).run()


class _Forecaster:
    def __init__(self, world: World, never_ready: NeverReady, limit: int, pace: float) -> None:
        self._world, self._began = world, world.now
        self._never_ready, self._limit, self._pace = never_ready, limit, pace
        self._waves: list[Wave] = []
        self._open: Wave | None = None
        self._after: tuple[str, ...] = ()
        self._surged: set[str] = set()
        self._status: Status | None = None
        self._most_unavailable = 0
        self._seconds = 0.0
        self._cut_short = False

    def run(self) -> Generator[int, None, Forecast]:
        start = rollout_state(self._world)
        self._world = with_drains_under_way(self._world)
        most = 40 * (len(start.nodes) + len(self._world.pods)) + 400
        for _ in range(most):
            before = len(self._waves)
            if not self._pass():
                return self._forecast(start)
            if len(self._waves) > before:
                yield len(self._waves)
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
            if self._open is None and len(self._waves) == self._limit:
                self._cut_short = True
                return False
            self._move(rollout, moves)
        self._world = world_after(self._world, decided)
        return True

    def _refused(self, decided: Plan) -> dict[BackoffKey, float]:
        verdicts, until = self._world.verdicts, self._world.retry_dry_run_at
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
