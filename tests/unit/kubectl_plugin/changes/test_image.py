"""Images: the ones that are named, init containers too, and a partition before any node can start."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.formats import IntOrPercent
from controller.api.objects import JSONObject, value_at
from kubectl_plugin.changes.edit import Edit, with_operations
from kubectl_plugin.changes.images import parse_images, set_images
from kubectl_plugin.errors import CommandError
from tests.beds.worlds import served
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
    assert edit.operations == ({"op": "add", "path": "/spec/template/spec/containers/1/image", "value": "shipper:2"},)
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
    assert [one["path"] for one in edit.operations] == ["/spec/template/spec/containers/1/image"]


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


def test_image_and_partition_are_one_write() -> None:
    edit = edited({"agent": "agent:2"}, hold_at=3)
    after = with_operations(live(**THREE), edit.operations)
    assert edit.result == "image updated, partition 0 -> 3"
    assert value_at(after, "spec", "updateStrategy", "rollingUpdate", "partition") == 3
    assert images_after(edit)["agent"] == "agent:2"


def test_hold_at_alone_may_be_all_that_changes() -> None:
    assert edited({"agent": "agent:1"}, hold_at="90%").result == "partition 0 -> 90%"


def test_on_delete_needs_no_hold() -> None:
    edit = edited({"agent": "agent:2"}, hold_at=3, document=live(ON_DELETE, **THREE))
    assert [one["path"] for one in edit.operations] == ["/spec/template/spec/containers/0/image"]
    assert edit.warnings[0].text == (
        "updateStrategy of demo is OnDelete: pods change only when you delete them; --hold-at changes nothing"
    )


def test_on_delete_with_the_same_image_and_a_hold_is_no_change() -> None:
    assert edited({"agent": "agent:1"}, hold_at=3, document=live(ON_DELETE, **THREE)).operations == ()


def test_back_to_an_image_of_before_under_a_partition_moves_nobody() -> None:
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
