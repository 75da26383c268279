"""Where the played scheduler puts a pod, and its words when there is no place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.beds.nodes.machine import node_manifest
from tests.beds.nodes.scheduler import place
from tests.beds.objects import pod

HARD = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
SOFT = HARD | {"effect": "PreferNoSchedule"}


def node(name: str, *taints: dict[str, str], cordoned: bool = False, **allocatable: str) -> dict[str, Any]:
    made = node_manifest(name, {"zone": name[0]}, taints, allocatable, "2026-11-21T12:00:00Z")
    made["spec"] |= {"unschedulable": True} if cordoned else {}
    return made


def with_spec(found: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return found | {"spec": found["spec"] | spec}


def asks(cpu: str, **given: str) -> dict[str, Any]:
    found = pod("p", **given)
    found["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return found


@pytest.mark.parametrize(
    ("wanted", "nodes", "expected"),
    [
        (pod("p", aimed_at="b"), [node("a"), node("b")], "b"),
        (pod("p"), [node("b"), node("a")], "a"),
        (pod("p"), [node("a", HARD), node("b")], "b"),
        (pod("p"), [node("a", SOFT)], "a"),
        (pod("p"), [node("a", cordoned=True), node("b")], "b"),
        (with_spec(pod("p"), tolerations=[{"operator": "Exists"}]), [node("a", HARD, cordoned=True)], "a"),
        (with_spec(pod("p"), tolerations=[{"key": "dedicated", "value": "db"}]), [node("a", HARD)], "a"),
        (with_spec(pod("p"), nodeSelector={"zone": "b"}), [node("a"), node("b")], "b"),
        (asks("600m"), [node("a", cpu="500m"), node("b", cpu="1")], "b"),
    ],
)
def test_a_pod_finds_its_node(wanted: dict[str, Any], nodes: list[dict[str, Any]], expected: str) -> None:
    assert place(wanted, nodes, {}) == (expected, "")


@pytest.mark.parametrize(
    ("wanted", "nodes", "words"),
    [
        (pod("p"), [], "0/0 nodes are available: there are none."),
        (pod("p"), [node("a", HARD)], "0/1 nodes are available: 1 node(s) had untolerated taint(s) {dedicated: db}."),
        (asks("2"), [node("a", cpu="1")], "0/1 nodes are available: 1 Insufficient cpu."),
        (
            with_spec(pod("p"), tolerations=[{"key": "dedicated", "value": "web"}]),
            [node("a", HARD)],
            "0/1 nodes are available: 1 node(s) had untolerated taint(s) {dedicated: db}.",
        ),
        (
            with_spec(pod("p"), nodeSelector={"zone": "z"}),
            [node("a"), node("b")],
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
        ),
    ],
)
def test_a_pod_finds_no_node(wanted: dict[str, Any], nodes: list[dict[str, Any]], words: str) -> None:
    assert place(wanted, nodes, {}) == ("", words)


def test_pods_that_are_there_take_room_and_ports() -> None:
    other = asks("700m", on="a")
    other["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    there = {"a": [other]}
    assert place(asks("400m"), [node("a", cpu="1")], there)[1].endswith("Insufficient cpu.")
    assert place(asks("300m"), [node("a", cpu="1")], there) == ("a", "")
    assert place(pod("p"), [node("a", pods="1")], there)[1].endswith("Too many pods.")
    same = pod("p")
    same["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}]
    assert "free ports" in place(same, [node("a")], there)[1]
