"""Which values of a pod are of admission, and what a dry run says about them."""

from __future__ import annotations

from typing import Any

import pytest

from controller.inplace.admission import ByAdmission, amount_undone, as_admitted, by_admission, image_undone
from controller.inplace.change import InPlaceChange, change_between
from tests.beds.changing_pod import ChangingPod, asks, container, image, template, with_priority

V1 = template(container("v1", resources=asks()))
V2 = template(container("v2", resources=asks(cpu="200m")))
V3 = template(container("v3", resources=asks(cpu="300m")))
MOVED = "mirror.example/agent:v1"


def between(old: Any, new: Any) -> InPlaceChange:
    found = change_between(old, new, resizable=True)
    assert isinstance(found, InPlaceChange)
    return found


def made(**fields: Any) -> ChangingPod:
    """A pod of `V1` whose container admission has changed."""
    pod = ChangingPod(V1)
    pod.object["spec"]["containers"][0] |= fields
    return pod


def found_in(pod: ChangingPod) -> ByAdmission:
    return by_admission(pod.document, between(V1, V2))


@pytest.mark.parametrize(
    ("fields", "images", "amounts"),
    [
        ({}, {}, set()),
        ({"image": MOVED}, {"main": MOVED}, set()),
        ({"image": image("v2")}, {}, set()),
        ({"resources": asks(cpu="0.1")}, {}, set()),
        ({"resources": asks(cpu="200m")}, {}, set()),
        ({"resources": asks(cpu="1", memory="1Gi")}, {}, {("main", "requests", "cpu")}),
        ({"resources": {}}, {}, {("main", "requests", "cpu")}),
    ],
    ids=["none", "moved", "new already", "another spelling", "new amount already", "raised", "taken away"],
)
def test_what_differs_from_both_templates(fields: Any, images: Any, amounts: Any) -> None:
    assert found_in(made(**fields)) == ByAdmission(images=images, amounts=frozenset(amounts))


def test_an_image_that_pullers_got_under_another_name_is_asked_about() -> None:
    pod, change = ChangingPod(V1), between(V1, V2)
    assert by_admission(pod.document, change, frozenset({image("v2")})).images == {"main": image("v1")}
    assert by_admission(pod.document, change, frozenset({image("v3")})) == ByAdmission()
    assert by_admission(made(image=image("v2")).document, change, frozenset({image("v2")})) == ByAdmission()


def test_a_container_that_was_renamed_is_missing_for_a_resize_too() -> None:
    resize = between(V1, template(container("v1", resources=asks(cpu="200m"))))
    assert by_admission(made(name="other").document, resize).missing == {"main"}


def test_what_an_earlier_update_has_still_to_write_is_not_of_admission() -> None:
    pod = ChangingPod(V1)
    pod.edit("v2", V2)  # its resize comes later
    assert by_admission(pod.document, between(V2, V3)) == ByAdmission()
    pod.resize()
    pod.object["spec"]["containers"][0]["resources"] = asks(cpu="1")
    pod.write(revision="v2")
    assert by_admission(pod.document, between(V2, V3)).amounts


def test_nor_are_images_of_a_later_launch_priority() -> None:
    def of(tag: str) -> Any:
        return template(*({**with_priority(name, f"p_{n}"), "image": image(tag)} for n, name in enumerate("ab")))

    pod = ChangingPod(of("v1"))
    pod.edit("v2", of("v2"))
    assert by_admission(pod.document, between(of("v2"), of("v3"))) == ByAdmission()


@pytest.mark.parametrize(
    ("manager", "subresource", "of_admission"),
    [
        ("an-autoscaler", "resize", False),
        ("kruise-ds", "resize", True),
        ("kruise-ds", "", True),
        ("a-controller", "", True),
    ],
)
def test_what_others_have_resized_since_is_not_of_admission(
    manager: str, subresource: str, of_admission: bool
) -> None:
    pod = made(resources=asks(cpu="1"))
    fields: Any = {"f:resources": {"f:requests": {"f:cpu": {}}}}
    entry = {
        "manager": manager,
        "subresource": subresource,
        "fieldsV1": {"f:spec": {"f:containers": {'k:{"name":"main"}': fields}}},
    }
    pod.object["metadata"]["managedFields"] = [entry]
    assert bool(found_in(pod).amounts) is of_admission


@pytest.mark.parametrize(
    ("shown", "undone"), [(image("v2"), True), (MOVED, True), ("mirror.example/agent:v2", False)]
)
def test_an_image_is_undone_where_the_new_one_stays_or_never_comes(shown: str, undone: bool) -> None:
    change, found = between(V1, V2), found_in(made(image=MOVED))
    assert bool(image_undone(found, change, made(image=shown).document)) is undone


@pytest.mark.parametrize(("shown", "undone"), [("0.2", True), ("1", False), ("400m", False)])
def test_an_amount_is_undone_where_the_new_one_stays(shown: str, undone: bool) -> None:
    change, found = between(V1, V2), found_in(made(resources=asks(cpu="1")))
    after = made(resources=asks(cpu=shown, memory="1Gi")).document
    assert bool(amount_undone(found, change, after)) is undone
    assert as_admitted(change, after).resources == {"main": {"requests": {"cpu": shown}}}, "no amount that stays"
