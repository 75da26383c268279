"""A forecast that writes down repeated waves says the same as one that simulates each."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.names import TAINT_NOT_READY, TAINT_UNREACHABLE
from controller.planner.plan import Plan, plan
from controller.planner.world import World
from kubectl_plugin.forecast import forecast as module
from kubectl_plugin.forecast.forecast import Forecast, forecast, repeated
from tests.beds.worlds import ago, changing, ds, everywhere, gated, in_place, node, pod, revision, taint, world
from tests.unit.kubectl_plugin.rollout.foretold import old


def outcome(found: Forecast) -> Any:
    """All that a plan says of it, but for the names of new pods. Times are rounded, as adding them in another order
    does."""
    waves = [replace(one, begins=round(one.begins, 2)) for one in found.waves]
    pods = sorted(
        (one.node, one.hash, one.ready, one.terminating, one.updated_in_place, round(one.created, 2))
        for one in found.end.world.pods
    )
    numbers = (found.phase, found.most_unavailable, round(found.seconds, 2), round(found.end.world.now, 2))
    return waves, found.rest, found.kept_nodes, numbers, pods


def both(start: World, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> tuple[Any, Any, int]:
    """What it says with and without repeated waves, and how many of them there are."""
    written = 0
    real = repeated

    def counted(*given: Any) -> Any:
        nonlocal written
        found = real(*given)
        written += len(found[1]) if found is not None else 0
        return found

    with monkeypatch.context() as patched:
        patched.setattr(module, "repeated", counted)
        short = outcome(forecast(start, **settings))
    with monkeypatch.context() as patched:
        patched.setattr(module, "are_alike", lambda waves: False)
        whole = outcome(forecast(start, **settings))
    return short, whole, written


STRATEGIES: list[dict[str, Any]] = [
    {},
    {"max_unavailable": 2},
    {"max_unavailable": "5%", "min_ready": 20},
    {"max_unavailable": 3, "burst": 1},
    {"partition": 9},
    {"partition": "40%", "max_unavailable": 2},
    {"max_surge": 1},
    {"max_surge": 2, "min_ready": 15},
    {"max_surge": 1, "partition": 7},
    {"rolling_update_type": "InPlaceIfPossible", "max_unavailable": 2},
]


@pytest.mark.parametrize("pace", [0.0, 41.0])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_waves_that_repeat_are_those_of_a_whole_simulation(
    strategy: dict[str, Any], pace: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    short, whole, written = both(old(41, **strategy), monkeypatch, pace=pace)
    assert short == whole
    assert written >= 4


@pytest.mark.parametrize("limit", [3, 5, 8, 9, 20])
def test_no_more_waves_are_written_down_than_are_asked_for(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    short, whole, _ = both(old(41), monkeypatch, waves=limit)
    assert short == whole
    assert len(short[0]) == limit


def test_updates_in_place_repeat_too(monkeypatch: pytest.MonkeyPatch) -> None:
    start = changing(in_place(grace=60), nodes=30, pods=[gated(one) for one in everywhere(30)])
    short, whole, written = both(start, monkeypatch, pace=10.0)
    assert short == whole
    assert written >= 20


@pytest.mark.parametrize("strategy", [one for one in STRATEGIES if "partition" not in one], ids=str)
def test_old_revisions_may_alternate_where_pods_are_replaced(
    strategy: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    revisions = (revision("v0", 1), revision("v1", 2), revision("v2", 3))
    pods = [pod(f"node-{number}", f"v{number % 2}") for number in range(40)]
    start = world(ds("v2", **strategy), nodes=40, pods=pods, revisions=revisions)
    short, whole, written = both(start, monkeypatch, pace=30.0)
    assert short == whole
    assert written or "rolling_update_type" in strategy


@pytest.mark.parametrize("strategy", [{}, {"max_unavailable": 2}, {"max_surge": 2}], ids=str)
@pytest.mark.parametrize("place", [29, 27, 26, 25, 24, 23, 15, 2, 0])
def test_no_wave_repeats_after_one_that_never_gets_ready(
    place: int, strategy: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = [pod(f"node-{number:02}") for number in range(30)]
    start = world(ds("v2", **strategy), nodes=[node(one.node) for one in pods], pods=pods)
    short, whole, _ = both(start, monkeypatch, never_ready=frozenset({(f"node-{place:02}", "v2")}), pace=30.0)
    assert short == whole


@pytest.mark.parametrize("seed", range(40))
def test_a_fleet_of_all_sorts_is_foretold_as_by_a_whole_simulation(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    count = random.randint(40, 70)
    names = [f"node-{number:02}" for number in range(count)]
    sorts = ("none", "unready", "done", "older", "lost", "not ready", "young", "never")
    odd = {name: random.choice(sorts) for name in random.sample(names, random.randint(0, 5))}
    pods = []
    for name in names:
        match odd.get(name):
            case "none":
                continue
            case "unready":
                pods.append(pod(name, ready=None))
            case "done":
                pods.append(pod(name, "v2"))
            case "older":
                pods.append(pod(name, "v0"))
            case "young":
                pods.append(pod(name, ready=ago(2)))
            case _:
                pods.append(pod(name, ready=ago(random.randint(100, 9000))))
    taints = {"lost": TAINT_UNREACHABLE, "not ready": TAINT_NOT_READY}
    nodes = [node(name, *(taint(taints[sort]) for sort in (odd.get(name),) if sort in taints)) for name in names]
    strategy = random.choice(STRATEGIES)
    start = world(
        ds("v2", **strategy),
        nodes=nodes,
        pods=pods,
        revisions=(revision("v0", 1), revision("v1", 2), revision("v2", 3)),
    )
    never = frozenset((name, "v2") for name, sort in odd.items() if sort == "never")
    pace = random.choice((0.0, 30.0))
    short, whole, _ = both(start, monkeypatch, never_ready=never, pace=pace, waves=random.choice((0, 0, 12)))
    assert short == whole, (strategy, odd)


@pytest.mark.parametrize("strategy", [{}, {"max_surge": 1}], ids=str)
def test_of_a_large_fleet_only_a_few_waves_are_simulated(
    strategy: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = 0

    def counted(world: World) -> Plan:
        nonlocal passes
        passes += 1
        return plan(world)

    monkeypatch.setattr(module, "plan", counted)
    found = forecast(old(2000, **strategy), pace=30.0)
    assert passes < 200, "eight thousand without repeated waves"
    assert (len(found.waves), found.seconds) == (2000, 60_000.0)
