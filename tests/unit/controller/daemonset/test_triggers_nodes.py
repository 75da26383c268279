"""Whom a change of a node or of a revision wakes, and what goes with a node."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.meta import Key
from controller.api.pod import Pod
from controller.runtime.pacing import Urgency
from tests.beds.worlds import LABELS, ds, node, pending, pod, revision, taint, template
from tests.unit.controller.daemonset.woken import OTHER, Woken

UNREACHABLE = taint("node.kubernetes.io/unreachable", "NoExecute")


def test_a_node_wakes_those_for_whom_it_makes_a_difference() -> None:
    picky = replace(ds(nodeSelector={"pool": "a"}), name="picky", uid="uid-picky")
    woken = Woken(ds(), picky)
    woken.node(node("node-0"))
    assert woken.told() == [("demo", "urgent")]
    woken.node(node("node-0", labels={"pool": "b"}))
    assert woken.told() == []
    woken.node(node("node-0", labels={"pool": "a"}))
    assert woken.told() == [("picky", "urgent")]
    woken.node(node("node-0", taint("x"), labels={"pool": "a"}))
    assert woken.told() == [("demo", "urgent"), ("picky", "urgent")]


def test_a_node_that_falls_silent_or_is_selected_makes_a_difference_too() -> None:
    woken = Woken(ds(selector={"track": "canary"}))
    woken.node(node("node-0"))
    woken.told()
    woken.node(node("node-0", UNREACHABLE))
    assert woken.told() == [("demo", "urgent")]
    woken.node(node("node-0", UNREACHABLE, labels={"track": "canary"}))
    assert woken.told() == [("demo", "urgent")]


@pytest.mark.parametrize(
    ("rolling", "woken_by_it"),
    [({"partition": 1}, True), ({"partition": "10%"}, True), ({"paused": True}, True), ({}, False)],
    ids=["partition", "percentage", "pause", "nothing is held back"],
)
@pytest.mark.parametrize("there", [True, False], ids=["label", "taint"])
def test_a_node_on_which_an_older_revision_may_run_now_makes_a_difference(
    rolling: dict[str, Any], woken_by_it: bool, there: bool
) -> None:
    """An empty node that may not hold the current revision gets it, as soon as its own placement says so."""
    daemonset = ds(tolerations=[{"key": "x", "operator": "Exists"}], **rolling)
    older = revision("v0", of=template("v0", nodeSelector={"pool": "a"} if there else {}))
    woken = Woken(daemonset)
    woken.states.of(daemonset.uid).compiled_for(daemonset).placements([older])
    without, able = (node("node-0"), node("node-0", labels={"pool": "a"}))
    if not there:
        without, able = node("node-0", taint("x")), node("node-0")
    woken.node(without)
    woken.told()
    for one in (able, without):
        woken.node(one)
        assert woken.told() == ([("demo", "urgent")] if woken_by_it else [])


def test_a_node_on_which_no_other_revision_runs_makes_no_difference_under_a_partition() -> None:
    daemonset = ds(partition=1)
    woken = Woken(daemonset)
    broken = revision("v1", of=template("v1", nodeSelector="a"))
    woken.states.of(daemonset.uid).compiled_for(daemonset).placements([revision("v0"), broken])
    woken.node(node("node-0"))
    woken.told()
    woken.node(node("node-0", labels={"pool": "a"}))
    assert woken.told() == []


NOBODY = taint("x", "NoExecute")
"""No pod of ours may be there."""


@pytest.mark.parametrize(
    "there", [[], [pod("node-0")], [pending("node-0")]], ids=["no pod", "a pod", "one aimed at it"]
)
def test_a_node_that_no_pod_should_be_on_makes_a_difference_where_one_is_after_all(there: list[Pod]) -> None:
    """It counts as misscheduled while the node is there, and is deleted where the node comes back under its name."""
    woken = Woken()
    for one in there:
        woken.pod(one)
    woken.told()
    expected: list[tuple[str, Urgency]] = [("demo", "urgent")] if there else []
    woken.node(node("node-0", NOBODY))
    assert woken.told() == expected
    woken.node(None, Key("", "node-0"))
    assert woken.told() == expected


def test_pods_on_other_nodes_make_no_difference() -> None:
    woken = Woken()
    woken.pod(pod("node-1"))
    woken.told()
    woken.node(node("node-0", NOBODY))
    assert woken.told() == []


def test_a_node_that_goes_costs_the_same_however_many_pods_there_are_elsewhere() -> None:
    """Counted in calls, generators included: for thousands of nodes that vanish at once it makes minutes."""
    sets = [replace(ds(nodeSelector={"pool": "b"}), name=f"ds-{n}", uid=f"uid-{n}") for n in range(10)]

    def calls(pods: int) -> int:
        woken = Woken(*sets)
        for one in sets:
            for number in range(pods):
                woken.pod(replace(pod(f"elsewhere-{number}"), name=f"{one.name}-{number}", owner_uid=one.uid))
        woken.node(node("node-0"))
        counted = itertools.count()
        sys.setprofile(lambda frame, event, arg: next(counted) if event == "call" else None)
        try:
            woken.node(None, Key("", "node-0"))
        finally:
            sys.setprofile(None)
        return next(counted)

    assert calls(50) <= calls(1)


def test_the_sorted_nodes_are_the_same_until_one_changes_its_place() -> None:
    woken = Woken()
    woken.node(node("node-1"))
    before = woken.caches.fleet
    woken.node(node("node-1"))
    assert woken.caches.fleet is before, "a heartbeat"
    woken.node(node("node-0"))
    assert [one.name for one in woken.caches.fleet] == ["node-0", "node-1"]
    woken.node(None, Key("", "node-1"))
    assert [one.name for one in woken.caches.fleet] == ["node-0"]


def test_a_node_that_is_gone_is_told() -> None:
    woken = Woken()
    woken.node(node("node-0"))
    woken.node(None, Key("", "node-0"))
    assert woken.forgotten == ["node-0"]


def test_a_placement_that_makes_no_sense_hides_nobody() -> None:
    senseless = replace(ds(nodeSelector="everywhere"), name="senseless", uid="uid-senseless")
    woken = Woken(senseless, ds())
    woken.node(node("node-0"))
    assert woken.told() == [("demo", "urgent")]


# revisions


def test_a_revision_that_comes_or_goes_wakes_its_owner() -> None:
    woken = Woken()
    woken.revision(revision("v1"))
    assert woken.told() == [("demo", "urgent")]
    woken.revision(None, revision("v1").key)
    assert woken.told() == [("demo", "urgent")]


def test_an_orphaned_revision_wakes_its_old_owner_and_whoever_may_claim_it() -> None:
    twin = replace(ds(), name="twin", uid="uid-twin")
    woken = Woken(ds(), twin, OTHER)
    orphan = revision("v1", owner_uid="")
    assert orphan.labels.items() >= LABELS.items()
    woken.revision(orphan)
    assert woken.told() == [("demo", "urgent"), ("twin", "urgent")]
    woken.revision(None, orphan.key)
    assert woken.told() == []
