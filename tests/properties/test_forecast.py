"""In any world, what is foretold is what the toy cluster then does, which carries plans out in its own way."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.planner.plan import Plan
from controller.planner.world import World
from tests.beds.forecasts import forecast
from tests.beds.random_worlds import worlds
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import ds, everywhere, picture, world
from tests.properties.size import every_day


class Chronicle:
    """The nodes that the toy's controller turns to, stretch by stretch; a stretch ends where it has to wait."""

    def __init__(self, start: World) -> None:
        self.silent = {one.name for one in start.nodes if one.unreachable}
        self.cluster = ToyCluster(start, dead=self.silent)
        self.surged: set[str] = set()
        self.stretches: list[list[str]] = [[]]

    def run(self) -> list[list[str]]:
        for _ in range(2000):
            self._step()
            if not self.cluster.plan.actions:
                self.stretches.append([])
                if not self._wait():
                    return [list(dict.fromkeys(one)) for one in self.stretches if one]
        raise AssertionError(f"no rest\n{picture(self.cluster.world, self.cluster.plan)}")

    def _step(self) -> None:
        before = self.cluster.world
        there = {one.node for one in before.pods if not (one.terminating or one.ended)}
        for word in self.cluster.step():
            node = word[1:].split()[0]
            if word[0] == "+" and node in there:
                self.surged.add(node)
            if word[0] == "+" or (word[0] == "-" and node not in self.surged):
                self.stretches[-1].append(node)

    def _wait(self) -> bool:
        cluster = self.cluster
        before, known = cluster.world.pods, {one.name for one in cluster.world.nodes}
        for one in before:
            if (one.terminating and one.node not in self.silent) or (one.bound and one.node not in known):
                cluster.lose(one.name)
        if known:
            cluster.ready(*known)
        if cluster.world.pods != before:
            return True
        wake_at = cluster.plan.wake_at
        if wake_at is None or wake_at <= cluster.world.now:
            return False
        cluster.pass_time(wake_at - cluster.world.now)
        return True


def foretells_what_happens(start: World) -> None:
    found = forecast(start)
    waves = [[move.node for move in wave.moves] for wave in found.waves]
    note(f"{waves}\n{picture(start, Plan())}")
    assert waves == Chronicle(start).run()


@every_day(150)
@given(start=worlds(healthy=True))
def test_in_any_world_the_forecast_is_what_happens(start: World) -> None:
    foretells_what_happens(start)


@every_day(100)
@given(start=worlds())
def test_silent_nodes_make_no_difference_to_that(start: World) -> None:
    """Without a hook, which lets pods go in a forecast, and not in the toy."""
    daemonset = replace(start.daemonset, spec=replace(start.daemonset.spec, lifecycle=None))
    foretells_what_happens(replace(start, daemonset=daemonset, fresh=True, verdicts={}))


@every_day(100)
@given(start=worlds(healthy=True))
def test_a_shorter_look_sees_the_same_beginning(start: World) -> None:
    whole, part = forecast(start), forecast(start, waves=2)
    assert part.waves == whole.waves[:2]
    assert part.changes == whole.changes


@every_day(100)
@given(
    chance=st.randoms(use_true_random=False),
    limit=st.sampled_from([{"max_unavailable": 1}, {"max_unavailable": 3}, {"max_surge": 2}]),
    partition=st.integers(0, 8),
)
def test_pods_that_get_ready_one_by_one_keep_the_order(chance: Random, limit: dict[str, Any], partition: int) -> None:
    start = world(ds("v2", partition=partition, **limit), nodes=8, pods=everywhere(8))
    cluster, sign = ToyCluster(start), "+" if "max_surge" in limit else "-"
    turned_to: list[str] = []
    while True:
        turned_to += [word[1:].split()[0] for word in cluster.settle() if word[0] == sign]
        waiting = sorted(one.node for one in cluster.world.pods if not one.ready)
        if not waiting:
            break
        cluster.ready(chance.choice(waiting))
    assert turned_to == [move.node for wave in forecast(start).waves for move in wave.moves]
