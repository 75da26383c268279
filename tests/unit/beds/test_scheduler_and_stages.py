"""Where the played scheduler puts a pod, and its words when there is no place; what a node does next with a pod."""

from __future__ import annotations

from typing import Any

import pytest

from tests.beds import objects
from tests.beds.nodes import DEAD, INSTANT, LIFELIKE, MANUAL, Behaviour, statuses
from tests.beds.nodes.machine import node_manifest
from tests.beds.nodes.scheduler import place
from tests.beds.nodes.stages import next_step, stage_of
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


NOW = "2026-11-21T12:00:00Z"
UID = "5d8f3a3e-0000-4000-8000-000000000001"


def pod_in(status: dict[str, Any] | None = None, *, image: str = "busybox", **metadata: Any) -> dict[str, Any]:
    found = pod("one", on="worker-01", image=image, uid=UID, **metadata)
    return found | {"status": status or {"phase": "Pending"}}


NEW = pod_in()
RUNNING = pod_in(statuses.running(NEW, NOW, ready=False))
READY = pod_in(statuses.running(NEW, NOW, ready=True))
CRASHED = pod_in(statuses.crashed(READY, NOW))
FAILED = pod_in(statuses.ended(READY, "Failed", "Evicted", "", NOW))
NO_IMAGE = pod_in(statuses.not_started(NEW, "ErrImagePull", "", NOW))
CHANGED = pod_in(statuses.running(NEW, NOW, ready=True), image="busybox:2", generation=2)
DYING = pod_in(READY["status"], deletionTimestamp=NOW, deletionGracePeriodSeconds=30)
LET_GO = pod_in(READY["status"], deletionTimestamp=NOW, deletionGracePeriodSeconds=0)

SLOW = Behaviour(pull=4, start=2, ready=3, terminate=60, crash=9)


@pytest.mark.parametrize(
    ("found", "behaviour", "after", "outcome"),
    [
        (NEW, INSTANT, 0, "ready"),
        (NEW, LIFELIKE, 1.5, "running"),
        (NEW, SLOW, 6, "running"),
        (NEW, MANUAL, None, ""),
        (NEW, DEAD, None, ""),
        (NEW, Behaviour(start=None), None, ""),
        (NEW, Behaviour(reject="OutOfcpu"), 0, "ended"),
        (NEW, Behaviour(pull=1, missing_images=("busy*",)), 1, "waiting for ['busybox']"),
        (NO_IMAGE, Behaviour(missing_images=("busy*",)), None, ""),
        (NO_IMAGE, INSTANT, 0, "ready"),
        (RUNNING, SLOW, 3, "ready"),
        (RUNNING, Behaviour(ready=None), None, ""),
        (RUNNING, Behaviour(ready=None, crash=5), 5, "crashed"),
        (READY, INSTANT, None, ""),
        (READY, Behaviour(fail=7), 7, "ended"),
        (CRASHED, Behaviour(back_off=20), 20, "ready"),
        (FAILED, INSTANT, None, ""),
        (CHANGED, SLOW, None, ""),
        (DYING, INSTANT, 0, "gone"),
        (DYING, SLOW, 30, "gone"),
        (DYING, Behaviour(terminate=None), None, ""),
        (LET_GO, INSTANT, None, ""),
    ],
)
def test_the_next_step(found: dict[str, Any], behaviour: Behaviour, after: float | None, outcome: str) -> None:
    step = next_step(found, stage_of(found), behaviour)
    assert (step and step.after) == after
    if step is not None:
        assert outcome == ("gone" if step.status is None else stage_of(found | {"status": step.status(found, NOW)}))


def test_the_time_of_a_condition_is_that_of_its_change() -> None:
    later = "2026-11-21T12:00:05Z"
    ready = RUNNING | {"status": statuses.running(RUNNING, later, ready=True)}
    assert objects.condition(ready, "Ready")["lastTransitionTime"] == later
    assert objects.condition(ready, "Initialized")["lastTransitionTime"] == NOW
