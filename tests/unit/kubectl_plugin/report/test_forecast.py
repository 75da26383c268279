"""What would happen next: the planner's own order, wave by wave, from worlds in one line."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.daemonset import Phase
from controller.planner.obstacles import Obstacle
from kubectl_plugin.forecast.forecast import forecast
from kubectl_plugin.forecast.moves import AT_ONCE
from tests.beds.in_place_worlds import changing, gated, in_place
from tests.beds.worlds import NOW, ds, everywhere, node, numbered, pending, pod, served, taint, world
from tests.unit.kubectl_plugin.report.foretold import old, told


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
    assert found.kept_nodes[Obstacle.SELECTOR] == ("node-4", "node-2", "node-0")
    assert found.phase is Phase.HELD


def test_a_wave_begins_when_the_one_before_is_available() -> None:
    found = forecast(old(max_unavailable=2))
    assert [one.after for one in found.waves] == [(), ("node-4", "node-3"), ("node-2", "node-1")]


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
    assert not found.end.unserved_nodes


def test_an_old_pod_that_is_not_available_goes_at_once_and_uses_the_budget() -> None:
    pods = (*served("node-0", "node-2", "node-3", "node-4"), pod("node-1", ready=None))
    found = forecast(world(ds("v2"), pods=pods))
    assert told(found) == ["1!", "4", "3", "2", "0"]
    assert found.waves[0].moves[0].why == AT_ONCE
    assert found.most_unavailable == 1


def test_a_first_deployment_creates_everywhere_at_once() -> None:
    found = forecast(world(ds("v1"), pods=(), revisions=(), verdicts={}))
    assert told(found) == ["+0 +1 +2 +3 +4"]
    assert found.start.revision.uid == ""
    assert {one.revision for one in found.waves[0].moves} == {1}


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
    assert found.kept_nodes[Obstacle.SCALING] == ("node-2", "node-1", "node-0")


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
    assert found.kept_nodes[Obstacle.SCALING] == ("node-4",)


def test_only_so_many_waves_are_worked_out_and_the_rest_is_listed_in_order() -> None:
    found = forecast(old(9, max_unavailable=2, partition=1), waves=2)
    assert told(found) == ["8 7", "6 5"]
    assert found.rest == ("node-4", "node-3", "node-2", "node-1")
    assert (found.width, found.phase, found.kept_nodes.get(Obstacle.PARTITION, ())) == (2, None, ("node-0",))


def test_exactly_as_many_waves_as_there_are_leave_no_rest() -> None:
    found = forecast(old(4, max_unavailable=2), waves=2)
    assert told(found) == ["3 2", "1 0"]
    assert (found.rest, found.phase) == ((), Phase.HEALTHY)


@pytest.mark.parametrize("limit", [{"max_unavailable": 1}, {"max_surge": 1}, {"max_unavailable": "10%"}])
def test_a_large_fleet_takes_a_second_and_not_minutes(limit: dict[str, Any]) -> None:
    """A number of passes, not seconds: these are the machine's."""
    count = 300
    found = forecast(old(count, **limit), waves=3)
    assert len(found.waves) == 3
    assert len(found.rest) == count - sum(len(one.moves) for one in found.waves)
