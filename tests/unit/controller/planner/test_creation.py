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
from tests.beds.worlds import NOW, before, check, ds, everywhere, node, pod, refusing, revision, served, world

CANARY = {"track": "canary"}
TWO = [revision("v1"), revision("v2")]


def progressive(rev: str = "v1", **fields: Any) -> Any:
    return ds(rev, partitioned_scaling=True, **fields)


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
    of = world(progressive("v2", partition=partition), nodes=every, pods=pods, revisions=TWO)
    check(of, *(f"+{name} v2" for name in wanted))


def test_switched_off_every_empty_node_gets_a_pod_at_once() -> None:
    of = world(ds("v2", partition=5), nodes=10, pods=[*served(*names(5, 9), rev="v2"), *everywhere(5)[1:]])
    check(of, "+node-0 v1")
    for off in (None, 0, "0%"):
        assert len(check_creates(world(progressive(partition=off), nodes=4))) == 4


def check_creates(of: World) -> list[str]:
    cluster = ToyCluster(of)
    cluster.step()
    return [action.node for action in cluster.plan.actions if isinstance(action, CreatePod)]


def test_names_go_up_as_strings() -> None:
    of = world(progressive(partition=9), nodes=[node(f"node-{number}") for number in range(11)])
    assert check_creates(of) == ["node-0", "node-1"]
    of = world(progressive(partition=8), nodes=[node(f"node-{number}") for number in range(11)])
    assert check_creates(of) == ["node-0", "node-1", "node-10"]


def test_a_percentage_holds_at_the_first_deployment() -> None:
    cluster = ToyCluster(world(progressive(partition="50%"), nodes=4))
    cluster.expect("+node-0 v1, +node-1 v1", "")


def test_the_annotation_counts_only_where_the_field_is_absent() -> None:
    annotated = {PROGRESSIVE_ANNOTATION: "true"}
    assert check_creates(world(ds(partition=3, annotations=annotated), nodes=4)) == ["node-0"]
    off = ds(partition=3, annotations=annotated, partitioned_scaling=False)
    assert len(check_creates(world(off, nodes=4))) == 4


def test_walking_the_partition_down_creates_the_next_nodes_upwards() -> None:
    cluster = ToyCluster(world(progressive(partition=4), nodes=4))
    cluster.expect("")
    cluster.edit(progressive(partition=3))
    cluster.expect("+node-0 v1", "")
    cluster.edit(progressive(partition="25%"))
    cluster.expect("+node-1 v1, +node-2 v1", "")
    cluster.edit(progressive(partition=0))
    cluster.expect("+node-3 v1", "")


def test_raising_the_partition_takes_no_pod_away_and_lost_ones_come_back() -> None:
    cluster = ToyCluster(world(progressive(partition=3), nodes=3, pods=everywhere(3)))
    cluster.expect("")
    cluster.lose("node-1-v1")
    cluster.expect("+node-1 v1", "")


def test_a_lost_pod_is_replaced_from_the_old_revision_at_any_partition() -> None:
    pods = everywhere(3)[1:]
    of = world(progressive("v2", partition=3), nodes=3, pods=pods, revisions=TWO, predecessors=before("node-0"))
    check(of, "+node-0 v1")


def test_a_lost_pod_that_comes_back_current_takes_room_from_new_nodes() -> None:
    """Quota 1: node-9 had the current revision, so the new node-0 waits."""
    nodes = ["node-0", "node-1", "node-9"]
    lost = before("node-9", "v2")
    check(
        world(progressive("v2", partition=2), nodes=nodes, pods=[pod("node-1")], revisions=TWO, predecessors=lost),
        "+node-9 v2",
    )


def test_a_lost_old_pod_that_comes_back_current_takes_room_too() -> None:
    """Quota 1: node-9 is the first to be updated, so its lost pod comes back current, and the new node-0 waits."""
    nodes, gone = ["node-0", "node-1", "node-9"], before("node-9", "v1")
    of = world(progressive("v2", partition=2), nodes=nodes, pods=[pod("node-1")], revisions=TWO, predecessors=gone)
    check(of, "+node-9 v2")


def test_new_nodes_take_room_from_old_pods_that_wait_for_their_update() -> None:
    """Quota 2 of 4: one new node comes first, then one old pod is updated; never more than 2 are current."""
    pods = served("node-1", "node-2", "node-3")
    cluster = ToyCluster(world(progressive("v2", partition=2), nodes=4, pods=pods, revisions=TWO))
    cluster.expect("+node-0 v2", "")
    cluster.ready()
    cluster.expect("-node-3 v1", "+node-3 v2", "")
    cluster.ready()
    cluster.expect("")


def test_a_new_node_not_to_be_updated_gets_the_older_revision() -> None:
    """Were it left empty, it would use up maxUnavailable for ever."""
    for held in ({"selector": CANARY}, {"paused": True}):
        pods = served("node-1")
        check(world(progressive("v2", partition=1, **held), nodes=2, pods=pods, revisions=TWO), "+node-0 v1")
        check(world(progressive("v2", partition=2, **held), nodes=2, pods=pods, revisions=TWO))


def test_a_node_that_is_being_replaced_keeps_its_room() -> None:
    """Quota 1: node-5 gave its old pod up for the update, so the new node-0 waits."""
    pods = [pod("node-5", terminating=True), pod("node-1")]
    nodes = ["node-0", "node-1", "node-5"]
    check(world(progressive("v2", partition=2), nodes=nodes, pods=pods, revisions=TWO))


def test_at_a_first_deployment_selector_and_pause_make_nobody_wait() -> None:
    first = progressive(partition=1, selector=CANARY, paused=True)
    check(world(first, nodes=3), "+node-0 v1", "+node-1 v1")


def test_the_burst_limits_what_begins_in_one_pass() -> None:
    cluster = ToyCluster(world(progressive(partition=1, burst=2), nodes=4))
    cluster.expect("+node-0 v1, +node-1 v1", "+node-2 v1", "")


def test_on_delete_knows_no_partition() -> None:
    assert len(check_creates(world(progressive(partition=3, on_delete=True), nodes=4))) == 4


def test_the_condition_says_who_waits_and_why() -> None:
    cluster = ToyCluster(world(progressive(partition=3), nodes=4))
    cluster.expect("+node-0 v1", "")
    cluster.ready()
    cluster.expect("")
    status = cluster.plan.status
    assert status is not None
    [progressing] = [one for one in status.conditions if one.type == "Progressing"]
    assert progressing.reason == "PartitionReached"
    assert progressing.message.endswith("partition 3 with partitionedScaling leaves 3 without a pod")


UNKNOWN = refusing("v2", unknown_fields=True)
NEW = replace(revision("v2", 2), never_ran=True)
STRAY = pod("node-0", rev="v2", name="stray", labels={"app": "debug"})
HELD: dict[str, tuple[World, list[tuple[str, bool]]]] = {
    "no node gets the first template": (
        world(ds("v2"), nodes=2, revisions=[NEW], verdicts=UNKNOWN, ask_at=NOW + 9),
        [],
    ),
    "where only strays have it, none gets it": (
        world(
            ds("v2"),
            nodes=2,
            pods=[STRAY],
            revisions=[NEW],
            verdicts=UNKNOWN,
            ask_at=NOW + 9,
            strays=frozenset({STRAY.uid}),
        ),
        [],
    ),
    "when it is time, one is tried again": (
        world(ds("v2"), nodes=1, revisions=[NEW], verdicts=UNKNOWN, ask_at=NOW),
        [("v2", True)],
    ),
    "a lost pod comes back as the others are": (
        world(
            ds("v2"),
            nodes=2,
            pods=served("node-0", rev="v1"),
            revisions=[revision("v1"), NEW],
            verdicts=UNKNOWN,
            ask_at=NOW + 9,
        ),
        [("v1", False)],
    ),
    "where they are allowed, it goes on": (
        world(
            ds("v2", annotations={"kruise-ds/unknown-fields": "allow"}),
            nodes=1,
            revisions=[NEW],
            verdicts=UNKNOWN,
            ask_at=NOW + 9,
        ),
        [("v2", False)],
    ),
    "where a pod has it, it goes on": (
        world(
            ds("v2"),
            nodes=2,
            pods=served("node-0", rev="v2"),
            revisions=[NEW],
            verdicts=UNKNOWN,
            ask_at=NOW + 9,
        ),
        [("v2", False)],
    ),
    "what ran once, comes back": (world(ds("v2"), nodes=1, verdicts=UNKNOWN, ask_at=NOW + 9), [("v2", False)]),
}


@pytest.mark.parametrize("case", HELD)
def test_with_fields_that_the_server_does_not_know(case: str) -> None:
    """By revision, and whether the server is asked to be strict."""
    of, expected = HELD[case]
    made = [one for one in plan(of).actions if isinstance(one, CreatePod)]
    assert [(one.revision.hash, one.strict) for one in made] == expected
