"""The partition: one field, told in nodes, where a promotion leads, and warnings where people misread it."""

from __future__ import annotations

import pytest

from controller.api.formats import IntOrPercent
from controller.api.objects import JSONObject, fields_of, value_at
from controller.api.pod import Pod
from kubectl_plugin.changes.edit import ROLLING, Caution, Edit, with_operations
from kubectl_plugin.changes.steering import (
    desired_of,
    full_promotion,
    misread_caution,
    partition_for_nodes,
    set_partition,
)
from kubectl_plugin.errors import CommandError
from kubectl_plugin.rollout.snapshot import Snapshot, Unread
from tests.beds.worlds import served
from tests.unit.kubectl_plugin.changes.documents import NO_PARENTS, ON_DELETE, live, rolling, seen

OLD = served("node-3", "node-2", "node-1", "node-0")
HALF = (*served("node-3", "node-2", rev="v2"), *served("node-1", "node-0"))


@pytest.mark.parametrize("strategy", NO_PARENTS)
def test_it_needs_no_parents(strategy: JSONObject | None) -> None:
    document = live(strategy)
    edit = set_partition(seen(document), 3)
    assert edit.result == "partition 0 -> 3"
    settings = {**fields_of((strategy or {}).get("rollingUpdate")), "partition": 3}
    assert value_at(with_operations(document, edit.operations), *ROLLING) == settings


@pytest.mark.parametrize("strategy", NO_PARENTS)
def test_0_is_what_it_is_without_one(strategy: JSONObject | None) -> None:
    assert set_partition(seen(live(strategy)), 0) == Edit(result="already at partition 0 (4 of 4 new)")


def test_the_value_that_it_has_is_no_change() -> None:
    assert set_partition(seen(live(rolling(partition="30%"))), "30%").operations == ()


def test_on_delete_knows_no_partition() -> None:
    with pytest.raises(CommandError) as refused:
        set_partition(seen(live(ON_DELETE)), 3)
    assert (refused.value.message, refused.value.exit_code) == (
        "cannot set the partition of demo: updateStrategy is OnDelete, pods change only when you delete them",
        6,
    )


def told(snapshot: Snapshot, value: IntOrPercent) -> tuple[str, ...]:
    return set_partition(snapshot, value).details


def test_while_paused_it_says_so() -> None:
    assert told(seen(live(rolling(partition=3, paused=True)), pods=OLD), 1) == (
        "up to 3 of 4 nodes may now run revision 2 (2 more: node-2, node-1)",
        "it is paused: no node is updated before resume",
    )


def test_nodes_that_the_selector_leaves_out_do_not_gain() -> None:
    selected = rolling(partition=4, selector={"matchLabels": {"track": "canary"}})
    assert told(seen(live(selected), pods=OLD), 0) == ("up to 4 of 4 nodes may now run revision 2",)


def test_with_every_node_updated_it_is_for_the_next_one() -> None:
    pods = served("node-3", "node-2", "node-1", "node-0", rev="v2")
    edit = set_partition(seen(live(rolling()), pods=pods), 3)
    assert (edit.details, edit.warnings) == (("4 of 4 nodes run revision 2; the next one may go to 1 of them",), ())


@pytest.mark.parametrize(
    ("value", "pods", "text"),
    [
        (3, HALF, "2 nodes already run revision 2; raising the partition does not move them back"),
        (4, HALF[1:], "1 node already runs revision 2; raising the partition does not move it back"),
    ],
)
def test_raised_it_takes_nothing_back(value: int, pods: tuple[Pod, ...], text: str) -> None:
    edit = set_partition(seen(live(rolling(partition=2)), pods=pods, stable="v1"), value)
    assert edit.details == (f"no more than {4 - value} of 4 nodes may",)
    misread = () if value < 4 else (misread_caution(seen(), 4, 4),)
    assert edit.warnings == (*misread, Caution(text=text, hints=("kubectl kruise-ds rollback demo -n default",)))


def test_raised_with_room_for_all_updated_nodes_there_is_no_warning() -> None:
    edit = set_partition(seen(live(rolling(partition=0)), pods=HALF), 2)
    assert (edit.details, edit.warnings) == (("up to 2 of 4 nodes may now run revision 2",), ())


def test_lowered_but_still_less_than_are_updated() -> None:
    assert told(seen(live(rolling(partition=4)), pods=HALF), 3) == (
        "2 of 4 nodes run revision 2 already, and no more may",
    )


def test_where_nothing_is_known_it_is_done_all_the_same() -> None:
    edit = set_partition(seen(live(rolling(partition=3)), unread=(Unread(what="pods"),)), 1)
    assert (edit.result, edit.details) == ("partition 3 -> 1", ())


@pytest.mark.parametrize(
    ("nodes", "updated", "partition"),
    [
        (24, 1, 23),
        (24, 24, 0),
        (24, 30, 0),
        (24, 0, 24),
        (24, "50%", "50%"),
        (24, "30%", "70%"),
        (24, "1%", "99%"),
        (24, "0%", "100%"),
        (24, "100%", "0%"),
        (None, "30%", "70%"),
        (0, "30%", "70%"),
    ],
)
def test_update_counts_the_other_way_round(nodes: int | None, updated: IntOrPercent, partition: IntOrPercent) -> None:
    assert partition_for_nodes(seen(), updated, desired_of(seen(nodes=nodes))) == partition


def test_without_the_right_to_list_nodes_the_controllers_count_serves() -> None:
    assert partition_for_nodes(seen(), 1, desired_of(seen(live(desired=24), nodes=None))) == 23


def test_a_count_from_before_the_newest_change_does_not_serve() -> None:
    document = live(rolling(), desired=12)
    assert desired_of(seen(document, nodes=None)) == 12
    document["metadata"] = {**fields_of(document["metadata"]), "generation": 2}
    assert desired_of(seen(document, nodes=None)) is None


@pytest.mark.parametrize(("partition", "says"), [(2, 1), ("50%", 1), (0, 0), ("0%", 0)])
def test_a_full_promotion_lifts_any_partition(partition: IntOrPercent, says: int) -> None:
    edit = full_promotion(seen(live(rolling(partition=partition)), pods=OLD))
    assert len(edit.operations) == says
    assert not edit.operations or edit.operations[0].value == 0


def test_where_the_number_is_unknown_it_is_refused() -> None:
    with pytest.raises(CommandError) as refused:
        partition_for_nodes(seen(nodes=None), 6, desired_of(seen(nodes=None)))
    assert (refused.value.message, refused.value.exit_code) == ("it is not known how many nodes should run demo", 6)


@pytest.mark.parametrize("snapshot", [seen(nodes=0), seen(live(desired=0), nodes=None)], ids=["counted", "told"])
def test_where_no_node_is_eligible_yet_it_is_refused(snapshot: Snapshot) -> None:
    with pytest.raises(CommandError) as refused:
        partition_for_nodes(snapshot, 3, desired_of(snapshot))
    words = "it is not known how many nodes should run demo: no node is eligible now"
    assert (refused.value.message, refused.value.exit_code) == (words, 6)


def test_one_pod_and_one_node_are_in_the_singular() -> None:
    assert misread_caution(seen(), 1, 1) == caution(
        "partition 1 keeps 1 pod OLD, and there is only 1 node: nothing will be updated",
        "to update all nodes: kubectl kruise-ds set-partition demo 0 -n default",
    )


def caution(text: str, hint: str) -> Caution:
    return Caution(text=text, hints=(hint, "to stop updates: kubectl kruise-ds pause demo -n default"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, None),
        ("75%", None),
        (0, None),
        (
            30,
            caution(
                "partition 30 keeps 30 pods OLD, but there are only 4 nodes: nothing will be updated",
                "to update 30% of the nodes: kubectl kruise-ds set-partition demo -n default --update 30%",
            ),
        ),
        (
            4,
            caution(
                "partition 4 keeps 4 pods OLD, and there are only 4 nodes: nothing will be updated",
                "to update all nodes: kubectl kruise-ds set-partition demo 0 -n default",
            ),
        ),
        (
            "100%",
            caution(
                "partition 100% keeps 4 pods OLD, and there are only 4 nodes: nothing will be updated",
                "to update all nodes: kubectl kruise-ds set-partition demo 0 -n default",
            ),
        ),
        (
            500,
            caution(
                "partition 500 keeps 500 pods OLD, but there are only 4 nodes: nothing will be updated",
                "to update all nodes: kubectl kruise-ds set-partition demo 0 -n default",
            ),
        ),
    ],
)
def test_a_partition_that_leaves_nothing_to_update(value: IntOrPercent, expected: Caution | None) -> None:
    assert misread_caution(seen(), value, desired_of(seen())) == expected


@pytest.mark.parametrize("nodes", [0, None])
def test_no_nodes_or_an_unknown_number_of_them_is_nothing_to_misread(nodes: int | None) -> None:
    assert misread_caution(seen(), 30, nodes) is None
