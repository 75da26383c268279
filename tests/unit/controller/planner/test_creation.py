"""Which empty nodes get a pod, and of which revision: partitionedScaling, and fields that no pod has."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.formats import IntOrPercent
from controller.api.names import PROGRESSIVE_ANNOTATION
from controller.planner.actions import CreatePod
from controller.planner.plan import plan
from controller.planner.world import World
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import NOW, at, before, check, ds, pod, refusing, revision, served
from tests.unit.controller.planner.test_partition import CANARY

TWO = [revision("v1"), revision("v2")]


def progressive(state: str, rev: str = "v2", **fields: Any) -> World:
    return at(state, rev, **{"partitioned_scaling": True, "revisions": TWO if rev == "v2" else None, **fields})


def names(first: int, last: int) -> list[str]:
    return [f"node-{number}" for number in range(first, last + 1)]


@pytest.mark.parametrize(
    ("updated", "desired", "partition", "empty", "wanted"),
    [
        (0, 10, 10, names(0, 9), []),
        (0, 10, 9, names(0, 9), names(0, 0)),
        (1, 10, 5, names(1, 9), names(1, 4)),
        (0, 20, 15, names(11, 20), names(11, 15)),
        (5, 20, 10, names(16, 20), names(16, 20)),
        (5, 10, 100, names(5, 9), []),
        (5, 10, "100%", names(5, 9), []),
        (0, 10, "90%", names(0, 9), names(0, 0)),
    ],
)
def test_as_many_new_nodes_as_the_partition_leaves_room_for(
    updated: int, desired: int, partition: IntOrPercent, empty: list[str], wanted: list[str]
) -> None:
    """Of the nodes with a pod the first `updated` have the current revision, the others an older one."""
    first = 1 if empty[-1] == f"node-{desired}" else 0
    every = names(first, first + desired - 1)
    full = [name for name in every if name not in empty]
    pods = [*served(*full[:updated], rev="v2"), *served(*full[updated:])]
    check(progressive("", partition=partition, nodes=every, pods=pods), *(f"+{name} v2" for name in wanted))


ANNOTATED = {PROGRESSIVE_ANNOTATION: "true"}
OTHERS = ["node-0", "node-1", "node-9"]
ALL = "+node-0 v1, +node-1 v1, +node-2 v1, +node-3 v1"
CASES: dict[str, tuple[World, str]] = {
    "switched off every empty node gets a pod at once": (at("- v1 v1 v2 v2", partition=3), "+node-0 v1"),
    "so it does without a partition": (progressive("- - - -", "v1"), ALL),
    "with one of 0": (progressive("- - - -", "v1", partition=0), ALL),
    "or of 0%": (progressive("- - - -", "v1", partition="0%"), ALL),
    "and with OnDelete": (progressive("- - - -", "v1", partition=3, on_delete=True), ALL),
    "names go up as strings": (progressive("- " * 11, "v1", partition=8), "+node-0 v1, +node-1 v1, +node-10 v1"),
    "a percentage holds at the first deployment": (
        progressive("- - - -", "v1", partition="50%"),
        "+node-0 v1, +node-1 v1",
    ),
    "the annotation counts": (at("- - - -", "v1", partition=3, annotations=ANNOTATED), "+node-0 v1"),
    "only where the field is absent": (
        at("- - - -", "v1", partition=3, annotations=ANNOTATED, partitioned_scaling=False),
        ALL,
    ),
    "at a first deployment selector and pause make nobody wait": (
        progressive("- - -", "v1", partition=1, selector=CANARY, paused=True),
        "+node-0 v1, +node-1 v1",
    ),
    "the burst limits what begins in one pass": (
        progressive("- - - -", "v1", partition=1, burst=2),
        "+node-0 v1, +node-1 v1",
    ),
    "raising the partition takes no pod away": (progressive("v1 v1 v1", "v1", partition=3), ""),
    "a lost pod comes back of the old revision at any partition": (
        progressive("- v1 v1", partition=3, predecessors=before("node-0")),
        "+node-0 v1",
    ),
    "a lost current one takes room from the new node-0": (
        progressive("", partition=2, nodes=OTHERS, pods=[pod("node-1")], predecessors=before("node-9", "v2")),
        "+node-9 v2",
    ),
    "so does a lost old one that is the first to be updated": (
        progressive("", partition=2, nodes=OTHERS, pods=[pod("node-1")], predecessors=before("node-9", "v1")),
        "+node-9 v2",
    ),
    "outside the selector a new node gets the older revision": (
        progressive("- v1", partition=1, selector=CANARY),
        "+node-0 v1",
    ),
    "within the partition too": (progressive("- v1", partition=2, selector=CANARY), ""),
    "so it does while paused": (progressive("- v1", partition=1, paused=True), "+node-0 v1"),
    "within the partition too while paused": (progressive("- v1", partition=2, paused=True), ""),
    "a node that is being replaced keeps its room": (progressive("- v1 v1†", partition=2), ""),
}


@pytest.mark.parametrize(("of", "expected"), CASES.values(), ids=CASES)
def test_which_empty_nodes_get_a_pod(of: World, expected: str) -> None:
    check(of, expected)


def test_walking_the_partition_down_creates_the_next_nodes_upwards() -> None:
    cluster = ToyCluster(progressive("- - - -", "v1", partition=4))
    cluster.expect("")
    for partition, expected in ((3, "+node-0 v1"), ("25%", "+node-1 v1, +node-2 v1"), (0, "+node-3 v1")):
        cluster.edit(ds(partition=partition, partitioned_scaling=True))
        cluster.expect(expected, "")


def test_new_nodes_take_room_from_old_pods_that_wait_for_their_update() -> None:
    """Quota 2 of 4: one new node comes first, then one old pod is updated; never more than 2 are current."""
    cluster = ToyCluster(progressive("- v1 v1 v1", partition=2))
    cluster.expect("+node-0 v2", "")
    cluster.ready()
    cluster.expect("-node-3 v1", "+node-3 v2", "")
    cluster.ready()
    cluster.expect("")


def test_the_condition_says_who_waits_and_why() -> None:
    cluster = ToyCluster(progressive("- - - -", "v1", partition=3))
    cluster.expect("+node-0 v1", "")
    cluster.ready()
    cluster.expect("")
    status = cluster.status
    [progressing] = [one for one in status.conditions if one.type == "Progressing"]
    assert progressing.reason == "PartitionReached"
    assert progressing.message.endswith("partition 3 with partitionedScaling leaves 3 without a pod")


NEW = replace(revision("v2", 2), never_ran=True)
STRAY = pod("node-0", rev="v2", name="stray", labels={"app": "debug"})


def unknown(state: str, *older: Any, **fields: Any) -> World:
    """The server knows not all fields of the new template, which never ran."""
    verdicts = refusing("v2", unknown_fields=True)
    return at(state, **{"revisions": [*older, NEW], "verdicts": verdicts, "retry_dry_run_at": NOW + 9, **fields})


ALLOWED = {"kruise-ds/unknown-fields": "allow"}
UNKNOWN: dict[str, tuple[World, list[tuple[str, bool]]]] = {
    "no node gets the first template": (unknown("- -"), []),
    "where only strays have it, none gets it": (unknown("- -", pods=[STRAY], strays=frozenset({STRAY.uid})), []),
    "when it is time, one is tried again": (unknown("-", retry_dry_run_at=NOW), [("v2", True)]),
    "a lost pod comes back as the others are": (unknown("v1 -", revision("v1")), [("v1", False)]),
    "where they are allowed, it goes on": (unknown("-", annotations=ALLOWED), [("v2", False)]),
    "where a pod has it, it goes on": (unknown("v2 -"), [("v2", False)]),
    "what ran once, comes back": (unknown("-", revisions=None), [("v2", False)]),
}


@pytest.mark.parametrize(("of", "expected"), UNKNOWN.values(), ids=UNKNOWN)
def test_with_fields_that_the_server_does_not_know(of: World, expected: list[tuple[str, bool]]) -> None:
    """By revision, and whether the server is asked to be strict."""
    made = [one for one in plan(of).actions if isinstance(one, CreatePod)]
    assert [(one.revision.hash, one.strict) for one in made] == expected


def test_a_create_that_got_no_answer_is_repeated_under_its_name() -> None:
    (action,) = plan(replace(at("-", "v1"), pending_names={"node-0": "demo-first"})).actions
    assert isinstance(action, CreatePod)
    assert action.name == "demo-first"
