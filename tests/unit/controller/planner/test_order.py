"""Which nodes are updated first: `rollingUpdate.order`."""

from __future__ import annotations

import pytest

from controller.api.daemonset import OrderRule
from controller.api.selector import Requirement
from controller.planner.node_fit import Rules, UpdateOrder, natural
from controller.planner.rollout_state import rollout_state
from controller.planner.world import World
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import ds, node, pod, served, world

ZONES = {"n1": "zone-10", "n2": "zone-2", "n3": "zone-2", "n4": None, "n5": "zone-10"}
NODES = [node(name, labels={"zone": zone} if zone else {}) for name, zone in ZONES.items()]
BY_ZONE = OrderRule(group_by="zone")
FIRST = OrderRule(match_expressions=(Requirement(key="zone", operator="DoesNotExist"),))


def ordered(*rules: OrderRule, partition: int = 0, pods: tuple[str, ...] = tuple(ZONES), new: str = "") -> World:
    there = [*served(*pods), *([pod(new, "v2")] if new else [])]
    return world(ds("v2", max_unavailable=1, partition=partition, rolling={"order": rules}), nodes=NODES, pods=there)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ((), "n5 n4 n3 n2 n1"),
        ((BY_ZONE,), "n3 n2 n5 n1 n4"),
        ((FIRST, BY_ZONE), "n4 n3 n2 n5 n1"),
        ((OrderRule(match_labels={"zone": "zone-10"}),), "n5 n1 n4 n3 n2"),
        ((OrderRule(match_labels={"zone": "zone-10"}), FIRST), "n5 n1 n4 n3 n2"),
    ],
    ids=["by name", "natural order of values, none last", "the first rule decides", "matching ones", "then the next"],
)
def test_nodes_are_updated_in_order(rules: tuple[OrderRule, ...], expected: str) -> None:
    cluster = ToyCluster(ordered(*rules))
    moved: list[str] = []
    while said := cluster.settle():
        moved += [word[1:].split()[0] for word in said if word[0] == "-"]
        cluster.ready()
    assert " ".join(moved) == expected


def test_a_node_whose_labels_decide_has_another_place() -> None:
    for rule, place in (
        (BY_ZONE, ("zone-10",)),
        (FIRST, ("zone-10",)),
        (OrderRule(match_labels={"a": "b"}), (None,)),
    ):
        assert Rules({}, order=[rule]).place(NODES[0]) == place


def test_a_partition_leaves_the_last_ones_old() -> None:
    kept = rollout_state(ordered(BY_ZONE, partition=2))
    assert [one.name for one in kept.may_hold_current] == ["n3", "n2", "n5"]


def test_another_order_moves_no_node_back() -> None:
    kept = rollout_state(ordered(FIRST, partition=4, pods=("n1", "n2", "n3", "n4"), new="n5"))
    assert [one.name for one in kept.may_hold_current] == ["n5"]


def test_an_old_pod_that_is_not_ready_is_replaced_before_all_others() -> None:
    start = ordered(BY_ZONE, pods=("n2", "n3", "n4", "n5"))
    cluster = ToyCluster(world(start.daemonset, nodes=NODES, pods=(*start.pods, pod("n1", ready=None))))
    cluster.expect("-n1 v1", "+n1 v2", "")
    cluster.ready()
    cluster.expect("-n3 v1")


def test_different_values_never_mix() -> None:
    """Also those that are one number, such as 1 and 01."""
    values = ["b", "1", "01", "a10", "a9", "A", "a", "1b", "10"]
    assert sorted(values, key=natural) == ["01", "1", "1b", "10", "A", "a", "a9", "a10", "b"]


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (OrderRule(group_by="a b"), "order[0].groupBy: 'a b' is not a label key"),
        (OrderRule(match_expressions=(Requirement(key="a", operator="In"),)), "order[0]: operator In on 'a' needs"),
    ],
)
def test_a_rule_that_cannot_be_used_is_named(rule: OrderRule, says: str) -> None:
    with pytest.raises(ValueError, match="order") as found:
        UpdateOrder([rule])
    assert says in str(found.value)
    problems = world(ds(rolling={"order": (rule,)})).rules.problems
    assert problems[0].startswith(f"spec.updateStrategy.rollingUpdate.{says}")
