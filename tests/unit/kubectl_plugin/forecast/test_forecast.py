"""What would happen next: the planner's order, wave by wave, from worlds in one line; repeated waves are copies."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from controller.api.daemonset import LifecycleHook, Phase
from controller.planner.blocker_texts import Blocker
from controller.planner.world import World
from kubectl_plugin.forecast.forecast import MOST_WAVES, Forecast, finished, forecast_by_wave
from kubectl_plugin.forecast.simulate import OUTSIDE_BUDGET, Wave
from kubectl_plugin.rollout.in_place import How
from tests.beds.forecasts import forecast
from tests.beds.worlds import (
    NOW,
    ago,
    changing,
    ds,
    everywhere,
    failed,
    gated,
    in_place,
    node,
    numbered,
    pending,
    pod,
    refusing,
    revision,
    served,
    taint,
    template,
    world,
)

MARK = {How.RECREATE: "", How.SURGE: "^", How.CREATE: "+", How.FINISH: "=", How.REMOVE: "-", How.IN_PLACE: "*"}
"""What stands before a node's number; "!" after it: at once, outside the budget."""


def told(found: Forecast) -> list[str]:
    """`["4 3", "2 1"]`: two waves of two nodes each, all re-created."""
    return [_wave(one) for one in found.waves]


def _wave(wave: Wave) -> str:
    return " ".join(
        f"{MARK[one.how]}{one.node.removeprefix('node-')}{'!' if one.is_urgent else ''}" for one in wave.moves
    )


def old(count: int = 5, **strategy: Any) -> World:
    """node-0 … with v1 everywhere, and v2 wanted."""
    return world(ds("v2", **strategy), nodes=count, pods=everywhere(count))


@pytest.mark.parametrize(
    ("strategy", "waves"),
    [
        ({}, ["4", "3", "2", "1", "0"]),
        ({"max_unavailable": 2}, ["4 3", "2 1", "0"]),
        ({"max_unavailable": "50%"}, ["4 3 2", "1 0"]),
        ({"max_unavailable": 100}, ["4 3 2 1 0"]),
        ({"max_unavailable": 3, "burst": 1}, ["4 3 2", "1 0"]),
        ({"partition": 3}, ["4", "3"]),
        ({"partition": "50%", "max_unavailable": 2}, ["4 3", "2"]),
        ({"partition": 5}, []),
        ({"max_surge": 2}, ["^4 ^3", "^2 ^1", "^0"]),
        ({"max_surge": 1, "partition": 3}, ["^4", "^3"]),
        ({"rolling_update_type": "InPlaceIfPossible", "max_unavailable": 4}, ["4 3 2 1", "0"]),
        ({"paused": True}, []),
        ({"on_delete": True}, []),
    ],
)
def test_waves_of_a_healthy_rollout(strategy: dict[str, Any], waves: list[str]) -> None:
    found = forecast(old(**strategy))
    assert told(found) == waves
    assert found.changes == bool(waves)
    assert found.rest == ()


def test_the_selector_chooses_the_nodes() -> None:
    fleet = [node(f"node-{number}", labels={"track": "canary"} if number in (1, 3) else {}) for number in range(5)]
    found = forecast(world(ds("v2", selector={"track": "canary"}), nodes=fleet, pods=everywhere(5)))
    assert told(found) == ["3", "1"]
    assert found.kept_nodes[Blocker.SELECTOR] == ("node-4", "node-2", "node-0")
    assert found.phase is Phase.HELD


def test_minimum_ready_seconds_and_the_pace_are_waited_for() -> None:
    found = forecast(old(3, min_ready=20), pace=10.0)
    assert [round(one.begins) for one in found.waves] == [0, 30, 60]
    assert round(found.seconds) == 90


def test_the_grace_period_before_a_restart_is_waited_for() -> None:
    start = changing(in_place(grace=60), nodes=2, pods=[gated(one) for one in everywhere(2)])
    found = forecast(start, pace=10.0)
    assert told(found) == ["*1", "*0"]
    assert [wave.begins for wave in found.waves] == [0.0, 70.0]
    assert found.seconds == 140.0


def test_a_pod_that_is_losing_its_traffic_is_updated_at_the_end_of_that() -> None:
    drained = gated(pod("node-1"), draining=True, since=NOW - 40)
    found = forecast(changing(in_place(grace=60), nodes=2, pods=[gated(pod("node-0")), drained]), pace=10.0)
    assert told(found) == ["*1", "*0"], "not outside the budget: it is no failure"
    assert [wave.begins for wave in found.waves] == [0.0, 30.0]
    assert found.seconds == 100.0
    assert found.most_unavailable == 1


def test_a_pod_that_loses_its_traffic_for_nothing_gets_it_back() -> None:
    drained = gated(pod("node-1"), draining=True, since=NOW - 40)
    paused = in_place(grace=60, paused=True)
    found = forecast(changing(paused, nodes=2, pods=[gated(pod("node-0")), drained]), pace=10.0)
    assert told(found) == []
    assert not found.end.unavailable_nodes


def test_an_old_pod_that_is_not_available_goes_at_once_and_uses_the_budget() -> None:
    pods = (*served("node-0", "node-2", "node-3", "node-4"), pod("node-1", ready=None))
    found = forecast(world(ds("v2"), pods=pods))
    assert told(found) == ["1!", "4", "3", "2", "0"]
    assert found.waves[0].moves[0].why == OUTSIDE_BUDGET
    assert found.most_unavailable == 1


def test_a_lost_pod_outside_the_partition_comes_back_old() -> None:
    found = forecast(
        world(ds("v2", partition=4), pods=(*served("node-1", "node-2", "node-3"), *served("node-4", rev="v2")))
    )
    assert told(found) == ["+0"]
    assert found.waves[0].moves[0].revision == 1


def test_partitioned_scaling_keeps_new_nodes_without_a_pod() -> None:
    found = forecast(
        world(ds("v2", partition=3, partitioned_scaling=True), pods=served("node-4", "node-3", rev="v2"))
    )
    assert not found.changes
    assert found.kept_nodes[Blocker.SCALING] == ("node-2", "node-1", "node-0")


def test_a_surge_under_way_is_finished_before_the_next_begins() -> None:
    pods = (*served("node-0", "node-1", "node-2"), pending("node-2", "v2"))
    found = forecast(world(ds("v2", max_surge=1), nodes=3, pods=pods))
    assert told(found) == ["=2 ^1", "^0"]
    assert found.waves[0].after == ("node-2",)
    assert found.most_unavailable == 0


def test_an_unwanted_pod_is_removed() -> None:
    fleet = [*numbered(2), node("node-2", taint("x", "NoExecute"))]
    found = forecast(world(ds("v1"), nodes=fleet, pods=everywhere(3)))
    assert told(found) == ["-2"]
    assert found.waves[0].moves[0].why == "its node should not run it"


def test_a_pod_that_ended_comes_back_where_a_new_node_would_wait() -> None:
    daemonset = ds("v2", partition=5, partitioned_scaling=True)
    pods = (*served("node-0", "node-1", "node-2"), pod("node-3", phase="Succeeded", ready=None))
    found = forecast(world(daemonset, pods=pods))
    assert told(found) == ["3"]
    assert found.waves[0].moves[0].revision == 1
    assert found.kept_nodes[Blocker.SCALING] == ("node-4",)


def test_only_so_many_waves_are_worked_out_and_the_rest_is_listed_in_order() -> None:
    found = forecast(old(9, max_unavailable=2, partition=1), waves=2)
    assert told(found) == ["8 7", "6 5"]
    assert found.rest == ("node-4", "node-3", "node-2", "node-1")
    assert (found.width, found.phase, found.kept_nodes.get(Blocker.PARTITION, ())) == (2, None, ("node-0",))


def test_exactly_as_many_waves_as_there_are_leave_no_rest() -> None:
    found = forecast(old(4, max_unavailable=2), waves=2)
    assert told(found) == ["3 2", "1 0"]
    assert (found.rest, found.phase) == ((), Phase.HEALTHY)


@pytest.mark.parametrize("strategy", [{}, {"max_surge": 2}, {"max_unavailable": "50%"}, {"partition": 3}])
def test_of_a_refused_revision_no_pod_is_created_even_on_empty_nodes(strategy: dict[str, Any]) -> None:
    refused = refusing("v2", "not here")
    first = world(ds("v2", **strategy), verdicts=refused, retry_dry_run_at=inf)
    assert told(forecast(first)) == []
    assert forecast(first).kept_nodes[Blocker.REFUSED] == ("node-4", "node-3", "node-2", "node-1", "node-0")
    assert forecast(first).phase is not Phase.HEALTHY


def test_of_an_older_revision_pods_are_created_all_the_same() -> None:
    """What the partition keeps old gets an older revision, which the server has accepted before."""
    pods = served("node-0", "node-1", "node-2", "node-4")
    refused = refusing("v2", "not here")
    found = forecast(world(ds("v2", partition=5), pods=pods, verdicts=refused, retry_dry_run_at=inf))
    assert told(found) == ["+3"]


def test_nodes_excluded_by_the_older_revision_hold_nothing_up() -> None:
    pool = {"pool": "a"}
    nodes = [node("node-0"), node("node-1"), node("node-2", labels=pool), node("node-3", labels=pool)]
    stored = [revision("v1", of=template("v1", nodeSelector=pool)), revision("v2")]
    pods = served("node-2", "node-3")
    found = forecast(world(ds("v2", partition=2), nodes=nodes, pods=pods, revisions=stored))
    assert told(found) == ["3", "2"]
    assert (found.kept_nodes[Blocker.PLACEMENT], found.kept_nodes.get(Blocker.PARTITION, ())) == (
        ("node-1", "node-0"),
        (),
    )
    assert found.phase is Phase.HELD
    assert [one.holding for one in found.waves] == [(), ()]
    open_now = forecast(world(ds("v2"), nodes=nodes, pods=pods, revisions=stored))
    assert told(open_now) == ["+0 +1", "3", "2"]


def test_a_lost_pod_comes_back_as_most_are_and_after_a_revert_as_current() -> None:
    three = [revision("v1"), revision("v2"), revision("v3")]
    given_up = forecast(world(ds("v3", partition=5), pods=everywhere(5)[1:], revisions=three))
    assert (told(given_up), hashes(given_up)) == (["+0"], ["v1"] * 5)
    back = [revision("v2", 2), revision("v1", 3)]
    pods = [*served("node-1", "node-2", "node-3"), pod("node-4", "v2")]
    reverted = forecast(world(ds("v1", partition=4), pods=pods, revisions=back))
    assert (told(reverted), hashes(reverted)) == (["+0"], ["v1"] * 4 + ["v2"])


def hashes(found: Forecast) -> list[str]:
    """In the end, by node."""
    return [one.pods[0].hash for one in found.end.nodes]


def test_running_updates_are_waited_for_and_failures_keep_their_budget() -> None:
    pods = (
        *served("node-0", "node-1", "node-2"),
        pending("node-3", "v2", created=ago(2)),
        pod("node-4", "v2", ready=None),
    )
    found = forecast(
        world(ds("v2", max_unavailable=2), pods=pods), never_ready=frozenset({("node-4", "v2")}), pace=7.0
    )
    assert told(found) == ["2", "1", "0"]
    first = found.waves[0]
    assert (first.after, first.holding, first.begins) == (("node-3",), ("node-4",), 5.0)
    assert found.most_unavailable == 2
    assert found.phase is Phase.STALLED


def test_a_failing_pod_that_uses_up_the_budget_stops_everything() -> None:
    pods = (*served("node-0", "node-1"), pod("node-2", "v2", ready=None))
    found = forecast(world(ds("v2"), nodes=3, pods=pods), never_ready=frozenset({("node-2", "v2")}))
    assert not found.changes
    assert found.kept_nodes[Blocker.BUDGET] == ("node-1", "node-0")
    assert found.phase is Phase.STALLED


def test_a_pod_that_failed_is_made_again_and_fails_again() -> None:
    pods = (*served("node-0", "node-1"), failed("node-2", "v2"))
    found = forecast(world(ds("v2"), nodes=3, pods=pods), never_ready=frozenset({("node-2", "v2")}))
    assert told(found) == ["2"]
    assert found.waves[0].moves[0].why == "it failed"
    assert found.kept_nodes[Blocker.BUDGET] == ("node-1", "node-0")


def test_the_new_version_may_mend_what_fails_with_the_old_one() -> None:
    pods = (*served("node-0", "node-1"), pod("node-2", ready=None))
    found = forecast(world(ds("v2"), nodes=3, pods=pods), never_ready=frozenset({("node-2", "v1")}))
    assert told(found) == ["2!", "1", "0"]
    assert found.phase is Phase.HEALTHY


@pytest.mark.parametrize(
    ("strategy", "kept"),
    [
        ({"partition": 3}, {"partition": ("node-2", "node-1", "node-0")}),
        (
            {"paused": True, "partition": 3},
            {"paused": ("node-4", "node-3"), "partition": ("node-2", "node-1", "node-0")},
        ),
        ({"on_delete": True}, {"on_delete": ("node-4", "node-3", "node-2", "node-1", "node-0")}),
        ({"hook": LifecycleHook(finalizers_handler=frozenset({"demo/hook"}))}, {}),
    ],
)
def test_who_is_kept_and_by_what(strategy: dict[str, Any], kept: dict[str, tuple[str, ...]]) -> None:
    assert dict(forecast(old(**strategy)).kept_nodes) == kept


def test_a_silent_node_is_left_alone_and_counts() -> None:
    silent = node("node-4", taint("node.kubernetes.io/unreachable", "NoExecute"))
    found = forecast(world(ds("v2", max_unavailable=2), nodes=[*numbered(4), silent], pods=everywhere(5)))
    assert told(found) == ["3", "2", "1", "0"]
    assert found.kept_nodes[Blocker.UNREACHABLE] == ("node-4",)


def test_on_a_node_that_is_not_ready_no_pod_gets_ready() -> None:
    fleet = [*numbered(3), node("node-3", taint("node.kubernetes.io/not-ready", "NoExecute"))]
    pods = (*everywhere(3), pod("node-3", ready=None))
    found = forecast(world(ds("v2", max_unavailable=2), nodes=fleet, pods=pods))
    assert told(found) == ["3! 2", "1", "0"]
    assert [one.holding for one in found.waves] == [(), ("node-3",), ("node-3",)]
    assert found.phase is Phase.STALLED, "the new pod may be what makes its node not ready"


def test_of_a_large_fleet_a_stated_number_of_waves_is_worked_out() -> None:
    simulated: list[int] = []
    found = finished(forecast_by_wave(old(MOST_WAVES + 50), pace=30.0), simulated.append)
    assert simulated == list(range(1, MOST_WAVES + 1))
    assert (len(found.waves), len(found.rest), found.phase) == (MOST_WAVES, 50, None)
    assert found.seconds == 30.0 * MOST_WAVES


@pytest.mark.parametrize("limit", [1, 3, 8])
def test_no_more_waves_are_worked_out_than_are_asked_for(limit: int) -> None:
    whole, found = forecast(old(20)), forecast(old(20), waves=limit)
    assert found.waves == whole.waves[:limit]
    assert list(found.rest) == [move.node for wave in whole.waves[limit:] for move in wave.moves]
