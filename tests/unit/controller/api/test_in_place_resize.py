"""When a resize of cpu and memory in place is over, by what the kubelet tells of it."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from controller.api.in_place import Resize
from controller.api.meta import rfc3339
from tests.beds.changing_pod import ChangingPod, asks, container, template
from tests.beds.worlds import NOW
from tests.unit.controller.api.test_in_place import edited, until


def resized(was: Any, will: Any, *, written: bool = True) -> ChangingPod:
    pod = ChangingPod(template(container(resources=was)))
    pod.tells(resources=was)
    pod.edit("v2", template(container(resources=will)))
    if written:
        pod.resize()
    return pod


def resize_of(pod: ChangingPod) -> Resize | None:
    return pod.underway.resize if pod.underway is not None else None


def test_a_resize_is_wanted_then_underway_then_over() -> None:
    pod = resized(asks(), asks(cpu="200m"), written=False)
    assert resize_of(pod) is Resize.WANTED
    pod.resize()
    pod.looks()
    assert resize_of(pod) is Resize.UNDERWAY
    assert until(pod) == inf
    assert pod.record.ready, "it serves all the time"
    pod.tells(resources=asks(cpu="0.2"))
    assert until(pod) is None


@pytest.mark.parametrize(
    ("type_", "reason", "status", "found"),
    [
        ("PodResizePending", "Deferred", "True", Resize.DEFERRED),
        ("PodResizePending", "Infeasible", "True", Resize.REFUSED),
        ("PodResizeInProgress", "Error", "True", Resize.REFUSED),
        ("PodResizeInProgress", "", "True", Resize.UNDERWAY),
        ("PodResizePending", "Infeasible", "False", Resize.UNDERWAY),
        ("Ready", "Infeasible", "True", Resize.UNDERWAY),
    ],
)
def test_what_the_kubelet_says_of_a_resize(type_: str, reason: str, status: str, found: Resize) -> None:
    pod = resized(asks(), asks(cpu="200m"))
    pod.looks()
    words = {"type": type_, "status": status, "reason": reason, "message": "its words" * 1000}
    pod.object["status"]["conditions"] = [words]
    assert resize_of(pod) is found
    assert pod.underway is not None
    assert len(pod.underway.problem) < 1000


def test_an_earlier_resizes_condition_says_nothing_of_this_one() -> None:
    pod = resized(asks(), asks(cpu="200m"))
    pod.object["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    assert resize_of(pod) is Resize.UNDERWAY


def test_who_resizes_a_pod_later_is_left_alone() -> None:
    pod = resized(asks(), asks(cpu="200m"))
    pod.tells(resources=asks(cpu="200m"))
    pod.object["spec"]["containers"][0]["resources"] = asks(cpu="300m")
    assert resize_of(pod) is Resize.WANTED, "not written by anybody: a webhook has put it back at our write"
    pod.object["metadata"]["generation"] += 1
    assert until(pod) is None
    pod.edit("v3", template(container("v3", resources=asks(cpu="200m"))))
    assert "containerResources" not in pod.told, "the next update asks for what it changes"


def test_without_pod_generations_a_later_resize_is_written_again() -> None:
    pod = resized(asks(), asks(cpu="200m"))
    pod.tells(resources=asks(cpu="200m"))
    pod.write(**{**pod.told, "generation": 0})
    pod.object["metadata"]["generation"] = 0
    pod.object["spec"]["containers"][0]["resources"] = asks(cpu="300m")
    assert resize_of(pod) is Resize.WANTED


@pytest.mark.parametrize("tag", ["v1", "v2"], ids=["resources alone", "an image too"])
def test_another_change_of_the_spec_before_the_resize_is_not_taken_for_it(tag: str) -> None:
    """Such as a container for debugging; the server may refuse the resize for hours."""
    pod = ChangingPod(template(container(resources=asks())))
    pod.edit("v2", template(container(tag, resources=asks(cpu="200m"))))
    pod.object["metadata"]["generation"] += 1
    assert resize_of(pod) is Resize.WANTED
    pod.count()
    pod.object["metadata"]["generation"] += 1
    assert resize_of(pod) is Resize.WANTED, "another one, after an attempt that was refused"
    pod.resize()
    pod.object["spec"]["containers"][0]["resources"] = asks(cpu="300m")
    pod.object["metadata"]["generation"] += 1
    assert resize_of(pod) is None, "this one is later"
    pod.count()
    assert resize_of(pod) is None


def test_a_node_that_does_not_tell_what_a_container_has_is_not_waited_for() -> None:
    pod = resized(asks(), asks(cpu="200m"))
    del pod.entry()["resources"]
    assert resize_of(pod) is Resize.UNDERWAY
    pod.looks()
    assert until(pod) is None


def test_neither_an_extended_resource_nor_another_container_is_waited_for() -> None:
    gpu = {"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "1"}}
    others = (container(name="bare"), container(name="gpu", resources=gpu))
    was, will = asks(), asks(cpu="200m")
    pod = ChangingPod(template(container(resources=was), *others))
    pod.edit("v2", template(container(resources=will), *others))
    pod.resize()
    pod.tells(resources=will)
    assert until(pod) is None
    pod.write(revision="v2", updateTimestamp=rfc3339(NOW), lastContainerStatuses={}, updateResources=True)
    assert until(pod) is None, "as OpenKruise writes it"


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ({"requests": {"cpu": "1m"}}, {"requests": {"cpu": "2m"}}),
        ({"limits": {"cpu": "1m"}}, {"limits": {"cpu": "10m"}}),
        ({"requests": {"cpu": "1000m"}}, {"requests": {"cpu": "1"}}),
        ({"requests": {"memory": "1Gi"}}, {"requests": {"memory": "1024Mi", "cpu": "1"}}),
    ],
)
def test_what_a_node_gives_has_other_spellings_and_a_least(asked: Any, given: Any) -> None:
    pod = edited("v2")
    pod.object["spec"]["containers"][0]["resources"] = asked
    pod.write(revision="v2", containerResources={"main": asked})
    pod.tells(resources=given)
    assert until(pod) is None


def test_quantities_that_are_none_are_compared_as_texts() -> None:
    pod = edited("v2")
    pod.write(revision="v2", containerResources={"main": {"requests": {"cpu": "9" * 100_000}}})
    assert resize_of(pod) is Resize.WANTED
