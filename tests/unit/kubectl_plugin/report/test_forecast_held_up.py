"""What a forecast makes of pods that fail, nodes that are silent and templates that are refused."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import LifecycleHook, Phase
from controller.planner.obstacles import Obstacle
from kubectl_plugin.forecast.forecast import Forecast, forecast
from tests.beds.dry_runs import refusing
from tests.beds.worlds import (
    ago,
    ds,
    everywhere,
    failed,
    node,
    numbered,
    pending,
    pod,
    revision,
    served,
    taint,
    template,
    world,
)
from tests.unit.kubectl_plugin.report.foretold import old, told


@pytest.mark.parametrize("strategy", [{}, {"max_surge": 2}, {"max_unavailable": "50%"}, {"partition": 3}])
def test_of_a_refused_revision_no_pod_is_created_even_on_empty_nodes(strategy: dict[str, Any]) -> None:
    refused = refusing("v2", "not here")
    first = world(ds("v2", **strategy), verdicts=refused, ask_at=inf)
    assert told(forecast(first)) == []
    assert forecast(first).kept_nodes[Obstacle.REFUSED] == ("node-4", "node-3", "node-2", "node-1", "node-0")
    assert forecast(first).phase is not Phase.HEALTHY


def test_of_an_older_revision_pods_are_created_all_the_same() -> None:
    """What the partition keeps old gets an older revision, which the server has accepted before."""
    pods = served("node-0", "node-1", "node-2", "node-4")
    found = forecast(world(ds("v2", partition=5), pods=pods, verdicts=refusing("v2", "not here"), ask_at=inf))
    assert told(found) == ["+3"]


def test_nodes_excluded_by_the_older_revision_hold_nothing_up() -> None:
    pool = {"pool": "a"}
    nodes = [node("node-0"), node("node-1"), node("node-2", labels=pool), node("node-3", labels=pool)]
    stored = [revision("v1", of=template("v1", nodeSelector=pool)), revision("v2")]
    pods = served("node-2", "node-3")
    found = forecast(world(ds("v2", partition=2), nodes=nodes, pods=pods, revisions=stored))
    assert told(found) == ["3", "2"]
    assert (found.kept_nodes[Obstacle.PLACEMENT], found.kept_nodes.get(Obstacle.PARTITION, ())) == (
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
    return [one.pods[0].hash for one in found.end.slots]


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
    assert found.kept_nodes[Obstacle.BUDGET] == ("node-1", "node-0")
    assert found.phase is Phase.STALLED


def test_a_pod_that_failed_is_made_again_and_fails_again() -> None:
    pods = (*served("node-0", "node-1"), failed("node-2", "v2"))
    found = forecast(world(ds("v2"), nodes=3, pods=pods), never_ready=frozenset({("node-2", "v2")}))
    assert told(found) == ["2"]
    assert found.waves[0].moves[0].why == "it failed"
    assert found.kept_nodes[Obstacle.BUDGET] == ("node-1", "node-0")


def test_the_new_version_may_mend_what_fails_with_the_old_one() -> None:
    pods = (*served("node-0", "node-1"), pod("node-2", ready=None))
    found = forecast(world(ds("v2"), nodes=3, pods=pods), never_ready=frozenset({("node-2", "v1")}))
    assert told(found) == ["2!", "1", "0"]
    assert found.phase is Phase.HEALTHY


def test_a_refused_template_moves_nobody() -> None:
    start = replace(old(3), verdicts=refusing("v2", "no such luck"), ask_at=float("inf"))
    found = forecast(start)
    assert not found.changes
    assert (found.kept_nodes[Obstacle.REFUSED], found.phase) == (("node-2", "node-1", "node-0"), Phase.STALLED)


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
    assert found.kept_nodes[Obstacle.UNREACHABLE] == ("node-4",)


def test_on_a_node_that_is_not_ready_no_pod_gets_ready() -> None:
    fleet = [*numbered(3), node("node-3", taint("node.kubernetes.io/not-ready", "NoExecute"))]
    pods = (*everywhere(3), pod("node-3", ready=None))
    found = forecast(world(ds("v2", max_unavailable=2), nodes=fleet, pods=pods))
    assert told(found) == ["3! 2", "1", "0"]
    assert [one.holding for one in found.waves] == [(), ("node-3",), ("node-3",)]
    assert found.phase is Phase.STALLED
