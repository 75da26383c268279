"""Who moves when the template goes back, in the controller's own order; each picture checked against its planner."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import LifecycleHook
from controller.api.names import LIFECYCLE_STATE_LABEL, PREPARING_DELETE, TAINT_UNREACHABLE
from controller.planner.blocker_texts import Blocker
from controller.planner.rollout_state import rollout_state
from kubectl_plugin.rollout.in_place import Moves, planned_moves
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import before, ds, node, pod, revision, served, taint, template, world

SIX = tuple(f"node-{number}" for number in range(6))
CANARY = {"track": "canary"}


def back_to_v1(*bad: Any, nodes: Any = 6, **spec: Any) -> Moves:
    """v1 is the template again; the pods of `bad` nodes (names: available; pods as given) have v2, the rest v1."""
    moved = tuple(pod(one, "v2") if isinstance(one, str) else one for one in bad)
    left = {one.node for one in moved}
    pods = (*moved, *served(*(name for name in SIX if name not in left)))
    spec = {"max_unavailable": 2, **spec}
    stored = [revision("v1", 3), revision("v2", 2)]
    return planned_moves(rollout_state(world(ds("v1", **spec), nodes=nodes, pods=pods, revisions=stored)))


def down(on: str) -> Any:
    return pod(on, "v2", ready=None)


@pytest.mark.parametrize("limit", [{"max_unavailable": 1}, {"max_unavailable": 3}, {"max_surge": 2}])
def test_the_controller_turns_to_them_in_this_very_order(limit: dict[str, Any]) -> None:
    bad = (pod("node-5", "v2"), down("node-4"), pod("node-3", "v2"), down("node-2"), pod("node-1", "v2"))
    stored = [revision("v1", 3), revision("v2", 2)]
    cluster = ToyCluster(world(ds("v1", **limit), nodes=6, pods=(*bad, *served("node-0")), revisions=stored))
    expected = planned_moves(rollout_state(cluster.world)).moving
    turned: list[str] = []
    while len(turned) < len(expected):
        said = cluster.settle()
        sign = "+" if "max_surge" in limit else "-"
        turned += [one[1:].split()[0] for one in said if one[0] == sign and one[1:].split()[0] not in turned]
        cluster.ready()
    assert tuple(turned) == expected


def test_a_node_in_the_middle_of_a_surge_has_the_wanted_pod_already() -> None:
    moves = back_to_v1(down("node-5"), pod("node-5", "v1"), max_surge=1)
    assert not moves.moving
    assert "node-5" in moves.staying


def test_under_partition_and_pause_a_node_names_what_keeps_it_longer() -> None:
    moves = back_to_v1("node-5", "node-4", paused=True, partition=1)
    assert moves.held == {Blocker.PAUSED: ("node-5",), Blocker.PARTITION: ("node-4",)}


def test_a_hooked_pod_does_not_go() -> None:
    hook = LifecycleHook(finalizers_handler=frozenset({"demo/hook"}))
    prepared = pod("node-5", "v2", finalizers=("demo/hook",), labels={LIFECYCLE_STATE_LABEL: PREPARING_DELETE})
    moves = back_to_v1(prepared, "node-4", hook=hook)
    assert moves.moving == ("node-4",)
    assert moves.held == {Blocker.HOOK: ("node-5",)}


def test_a_hook_does_not_hold_what_a_surge_puts_beside_the_pod() -> None:
    hook = LifecycleHook(finalizers_handler=frozenset({"demo/hook"}))
    moves = back_to_v1(pod("node-5", "v2", finalizers=("demo/hook",)), "node-4", hook=hook, max_surge=1)
    assert moves.moving == ("node-5", "node-4")
    assert not moves.held


def test_a_node_that_stays_empty_uses_no_budget() -> None:
    """The controller does not wait for it either: what it would get does not run there."""
    stored = [revision("v1", 1, of=template("v1", nodeSelector=CANARY)), revision("v2", 2)]
    nodes = [*SIX[1:], node("node-0", labels=CANARY)]
    around = world(ds("v2", partition=3), nodes=nodes, pods=served(*SIX[2:5], "node-0"), revisions=stored)
    moves = planned_moves(rollout_state(replace(around, predecessors=before("node-1"))))
    assert (moves.spent_by, moves.wave) == ((), 1)


def test_an_unreachable_node_waits_and_uses_the_budget() -> None:
    silent = node("node-5", taint(TAINT_UNREACHABLE, "NoExecute"))
    moves = back_to_v1("node-5", "node-4", "node-3", nodes=[silent, *SIX[:5]])
    assert moves.held == {Blocker.UNREACHABLE: ("node-5",)}
    assert moves.waves == (("node-4",), ("node-3",))
    assert moves.spent_by == ("node-5",)


def test_a_node_that_may_only_keep_its_pod_keeps_it() -> None:
    tainted = node("node-5", taint("demo/maintenance"))
    moves = back_to_v1("node-5", "node-4", nodes=[tainted, *SIX[:5]])
    assert moves.moving == ("node-4",)
    assert moves.held == {Blocker.TAINTED: ("node-5",)}


@pytest.mark.parametrize("selector", [None, CANARY])
def test_a_pod_that_should_not_be_there_is_no_rollback(selector: dict[str, str] | None) -> None:
    unfit = node("node-5", taint("demo/no", "NoExecute"))
    moves = back_to_v1(down("node-5"), nodes=[unfit, *SIX[:5]], selector=selector)
    assert not moves.moving
    assert not moves.held
