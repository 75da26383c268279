"""Images: the ones that are named, a partition before any node can start, and what a change comes to in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from controller.api.formats import IntOrPercent
from controller.api.objects import JSONObject, value_at
from kubectl_plugin.changes.edit import Edit, course_words, number_of, patch_of, rollout_after, with_operations
from kubectl_plugin.changes.steering import parse_images, set_images
from kubectl_plugin.errors import CommandError
from kubectl_plugin.rollout.snapshot import Snapshot, Unread
from tests.beds.worlds import node, pod, revision, served, taint
from tests.unit.kubectl_plugin.changes.documents import ON_DELETE, live, rolling, seen

ALL = served("node-3", "node-2", "node-1", "node-0", rev="v2")
THREE: dict[str, Any] = {
    "initContainers": [{"name": "setup", "image": "setup:1"}],
    "containers": [{"name": "agent", "image": "agent:1"}, {"name": "shipper", "image": "shipper:1", "args": ["-v"]}],
}


def edited(images: dict[str, str], hold_at: IntOrPercent | None = None, document: JSONObject | None = None) -> Edit:
    return set_images(seen(document or live(**THREE)), images, hold_at)


def images_after(edit: Edit) -> dict[str, str]:
    after = with_operations(live(**THREE), edit.operations)
    listed: list[Any] = []
    for field in ("initContainers", "containers"):
        containers = value_at(after, "spec", "template", "spec", field)
        listed += containers if isinstance(containers, list) else []
    return {one["name"]: one["image"] for one in listed}


@pytest.mark.parametrize(
    ("words", "images"),
    [
        (["agent=agent:2"], {"agent": "agent:2"}),
        (["agent=r.example.com:5000/a@sha256:0", "b=c"], {"agent": "r.example.com:5000/a@sha256:0", "b": "c"}),
        (["agent=agent:2", "agent=agent:2"], {"agent": "agent:2"}),
        (["*=agent:2"], {"*": "agent:2"}),
        (["agent=a=b"], {"agent": "a=b"}),
        ([], {}),
    ],
)
def test_words_are_containers_and_images(words: list[str], images: dict[str, str]) -> None:
    assert parse_images(words) == images


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["agent="], 'invalid image "agent=": use CONTAINER=IMAGE, or *=IMAGE'),
        (["=agent:2"], 'invalid image "=agent:2": use CONTAINER=IMAGE, or *=IMAGE'),
        (["agent=a b"], 'invalid image "agent=a b": use CONTAINER=IMAGE, or *=IMAGE'),
        (["agent=a", "agent=b"], "two images for container agent"),
        (["*=a", "agent=b"], "*=IMAGE means all containers already: leave the others out"),
    ],
)
def test_other_words_are_wrong_usage(words: list[str], message: str) -> None:
    with pytest.raises(CommandError) as refused:
        parse_images(words)
    assert (refused.value.message, refused.value.exit_code) == (message, 2)


def test_one_container_changes_and_nothing_beside_its_image() -> None:
    edit = edited({"shipper": "shipper:2"})
    assert patch_of(edit.operations) == (
        {"op": "add", "path": "/spec/template/spec/containers/1/image", "value": "shipper:2"},
    )
    assert edit.result == "image updated"
    assert edit.details[:3] == (
        " spec.template.spec.containers[shipper]",
        "-  image: shipper:1",
        "+  image: shipper:2",
    )


def test_init_containers_are_containers() -> None:
    assert images_after(edited({"setup": "setup:2"})) == {
        "setup": "setup:2",
        "agent": "agent:1",
        "shipper": "shipper:1",
    }


def test_a_star_is_every_container() -> None:
    assert set(images_after(edited({"*": "all:1"})).values()) == {"all:1"}


def test_of_several_those_that_differ_are_written() -> None:
    edit = edited({"agent": "agent:1", "shipper": "shipper:2"})
    assert [one.pointer for one in edit.operations] == ["/spec/template/spec/containers/1/image"]


def test_images_that_are_there_already_are_no_change() -> None:
    assert edited({"agent": "agent:1", "shipper": "shipper:1"}) == Edit(
        result="already on agent:1, shipper:1", operations=()
    )


def test_a_container_without_an_image_gets_one() -> None:
    document = live(containers=[{"name": "agent"}])
    edit = edited({"agent": "agent:1"}, document=document)
    assert value_at(with_operations(document, edit.operations), "spec", "template", "spec", "containers", "0") == {
        "name": "agent",
        "image": "agent:1",
    }


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (live(**THREE), 'demo has no container "agnt"; it has: agent, shipper; init containers: setup'),
        (live(), 'demo has no container "agnt"; it has: main'),
    ],
)
def test_a_container_that_there_is_not(document: JSONObject, message: str) -> None:
    with pytest.raises(CommandError) as refused:
        edited({"agnt": "agent:2"}, document=document)
    assert (refused.value.message, refused.value.exit_code) == (message, 1)


def test_hold_at_alone_may_be_all_that_changes() -> None:
    assert edited({"agent": "agent:1"}, hold_at="90%").result == "partition 0 -> 90%"
    assert edited({"agent": "agent:1"}, hold_at=0).operations == (), "as without a partition"


def test_of_a_pause_it_is_said() -> None:
    edit = edited({"agent": "agent:2"}, document=live(rolling(paused=True), **THREE))
    assert [one.text for one in edit.warnings] == ["demo is paused: nothing moves before it is resumed"]


def test_on_delete_needs_no_hold() -> None:
    edit = edited({"agent": "agent:2"}, hold_at=3, document=live(ON_DELETE, **THREE))
    assert [one.pointer for one in edit.operations] == ["/spec/template/spec/containers/0/image"]
    assert edit.warnings[0].text == (
        "updateStrategy of demo is OnDelete: pods change only when you delete them; --hold-at changes nothing"
    )


def test_on_delete_with_the_same_image_and_a_hold_is_no_change() -> None:
    assert edited({"agent": "agent:1"}, hold_at=3, document=live(ON_DELETE, **THREE)).operations == ()


def test_back_to_an_image_of_before_under_a_partition_moves_no_pod() -> None:
    pods = (*served("node-3", rev="v2"), *served("node-2", "node-1", "node-0"))
    assert set_images(seen(live(rolling(partition=3)), pods=pods), {"main": "demo:v1"}, None).details == (
        " spec.template.spec.containers[main]",
        "-  image: demo:v2",
        "+  image: demo:v1",
        "no node gets revision 3 now; 3 of 4 have it",
        "partition 3 keeps 1 node (node-3) old",
    )


@pytest.mark.parametrize("images", [{"*": "agent:2"}, {"agent": "agent:2"}])
def test_a_template_without_containers_has_no_image_to_set(images: dict[str, str]) -> None:
    with pytest.raises(CommandError, match=r"^demo has no containers: there is no image to set$") as refused:
        edited(images, document=live(containers=None))
    assert refused.value.exit_code == 1


OLD = served("node-3", "node-2", "node-1", "node-0")


@pytest.mark.parametrize(("current", "older", "number"), [("v3", ("v2",), 3), ("v1", ("v3", "v2"), 4), ("v1", (), 1)])
def test_the_current_template_always_gets_the_highest_number(current: str, older: Sequence[str], number: int) -> None:
    assert number_of(revision(current), [revision(one) for one in older]) == number


def told(snapshot: Snapshot) -> tuple[str, ...]:
    rollout = rollout_after(snapshot)
    assert rollout is not None
    return course_words(snapshot, rollout)


@pytest.mark.parametrize(
    ("strategy", "lines"),
    [
        (rolling(maxUnavailable=1), ("4 of 4 nodes get revision 2: node-3 … node-0, 1 at a time",)),
        (rolling(maxUnavailable=4), ("4 of 4 nodes get revision 2: node-3 … node-0",)),
        (rolling(maxSurge=2), ("4 of 4 nodes get revision 2: node-3 … node-0, 2 at a time",)),
        (
            rolling(maxUnavailable=1, partition="50%"),
            (
                "2 of 4 nodes get revision 2: node-3, node-2, 1 at a time",
                "partition 50% keeps 2 nodes (node-1, node-0) old",
            ),
        ),
        (
            rolling(maxUnavailable=1, selector={"matchLabels": {"track": "canary"}}),
            (
                "no node gets revision 2 now; 0 of 4 have it",
                "rollingUpdate.selector leaves out 4 nodes (node-3 … node-0)",
            ),
        ),
        (
            rolling(rollingUpdateType="InPlaceIfPossible", maxUnavailable=4),
            (
                "4 of 4 nodes get revision 2: node-3 … node-0",
                "re-create: they were made without the readiness gate InPlaceUpdateReady",
            ),
        ),
    ],
    ids=["budget", "all", "surge", "partition", "selector", "in place"],
)
def test_the_settings_in_words(strategy: JSONObject, lines: tuple[str, ...]) -> None:
    assert told(seen(live(strategy), pods=OLD)) == lines


def test_nodes_that_use_up_the_budget_are_named() -> None:
    pods = (pod("node-3", "v2", ready=None), *OLD[1:])
    assert told(seen(live(rolling(maxUnavailable=1)), pods=pods))[0] == (
        "3 of 4 nodes get revision 2: node-2, node-1, node-0 when node-3 is available"
    )


def test_an_old_pod_that_does_not_serve_goes_at_once() -> None:
    pods = (*OLD[:3], pod("node-0", ready=None))
    assert told(seen(live(rolling(maxUnavailable=2)), pods=pods))[0] == (
        "4 of 4 nodes get revision 2: node-0 at once (no available pod), then node-3, node-2, node-1, 2 at a time"
    )


def test_nodes_that_are_out_of_reach_wait() -> None:
    snapshot = seen(live(rolling(maxUnavailable=2)), pods=OLD)
    silent = node("node-3", taint("node.kubernetes.io/unreachable", "NoExecute"))
    assert snapshot.nodes is not None
    there = msgspec.structs.replace(snapshot, nodes=(*snapshot.nodes[:3], silent))
    assert "not before it can be reached: 1 node (node-3)" in told(there)


def test_there_is_no_board_without_the_pods() -> None:
    assert rollout_after(seen(unread=(Unread(what="nodes"), Unread(what="pods")))) is None


def test_without_the_nodes_those_that_have_a_pod_stand_for_them() -> None:
    rollout = rollout_after(seen(nodes=None, pods=OLD))
    assert rollout is not None
    assert rollout.budget.desired == 4


@pytest.mark.parametrize(
    "document",
    [
        live(rolling(selector={"matchLabels": {"track": "canary"}})),
        live(nodeSelector={"track": "canary"}),
        live(affinity={"nodeAffinity": {}}),
    ],
    ids=["selector", "nodeSelector", "affinity"],
)
def test_nothing_stands_for_nodes_that_are_chosen_by_what_they_are_like(document: JSONObject) -> None:
    assert rollout_after(seen(document, pods=OLD)) is not None
    assert rollout_after(seen(document, nodes=None, pods=OLD)) is None


@pytest.mark.parametrize("strategy", [rolling(maxUnavailable="many"), rolling(selector={"matchLabels": 3})])
def test_there_is_no_board_of_a_spec_that_makes_no_sense(strategy: JSONObject) -> None:
    valid = seen(live())
    broken = msgspec.structs.replace(valid, document=live(strategy))
    assert rollout_after(broken) is None
