"""Changes of cpu and memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.beds.api import NODES, PODS, Object, Refusal
from tests.beds.kubelet_cases.case import another, image, observed, since
from tests.beds.objects import condition, node_of
from tests.beds.quantities import quantity
from tests.beds.watched_pod import WatchedPod, state_of

SIZE = {"requests": {"cpu": "20m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}}
SMALL = {"requests": {"cpu": "20m"}}
GUARANTEED = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}}


def sizes(found: Object) -> tuple[Any, Any]:
    """What is reserved of cpu, and what the container has."""
    state = state_of(found)
    return state["allocatedResources"]["cpu"], state["resources"]["requests"]["cpu"]


def conditions(pod: WatchedPod) -> list[str]:
    """Those of resizes, each with the reason, in the order in which they were seen first."""
    told = [
        f"{one['type']}:{one.get('reason', '')}"
        for found in pod.seen
        for one in found["status"]["conditions"]
        if one["type"].startswith("PodResize")
    ]
    return list(dict.fromkeys(told))


def resizing(found: Object) -> bool:
    return any(one["type"].startswith("PodResize") for one in found["status"]["conditions"])


IN_PROGRESS = "PodResizeInProgress:"


def in_this_order(seen: Sequence[Any], steps: Sequence[Any], *, brief: Any) -> bool:
    """All of `steps`, but perhaps `brief`: that lasts a tenth of a second, and a kubelet that is late with a status
    leaves it out."""
    return seen in (steps, [one for one in steps if one != brief])


async def a_resize(pod: WatchedPod) -> None:
    before = await pod.resize(requests={"cpu": "40m"})
    after = await pod.until(lambda found: sizes(found) == ("40m", "40m") and not resizing(found), "resized")
    told, between = list(dict.fromkeys(sizes(one) for one in pod.seen)), ("40m", "20m")
    assert in_this_order(told, [("20m", "20m"), between, ("40m", "40m")], brief=between), told
    assert in_this_order(conditions(pod), [IN_PROGRESS], brief=IN_PROGRESS), conditions(pod)
    assert state_of(after)["containerID"] == state_of(before)["containerID"]
    assert since(after) == since(before)


async def a_resize_that_wants_a_new_container(pod: WatchedPod) -> None:
    before = await pod.resize(limits={"memory": "300Mi"})
    after = await pod.until(another(before), "another container")
    assert state_of(after)["restartCount"] == 1
    await pod.until(lambda found: state_of(found)["resources"]["limits"]["memory"] == "300Mi", "resized")


async def image_and_resources(pod: WatchedPod) -> None:
    before = await pod.image(image("v2"))
    await pod.change(
        {"spec": {"containers": [{"name": "agent", "resources": {"requests": {"cpu": "40m"}}}]}}, sub="resize"
    )
    after = await pod.until(
        lambda found: another(before)(found) and sizes(found) == ("40m", "40m") and observed(found), "both"
    )
    assert state_of(after)["restartCount"] == 1


async def less_memory_than_it_uses(pod: WatchedPod) -> None:
    before = await pod.resize(requests={"memory": "1Mi"}, limits={"memory": "1Mi"})
    after = await pod.until(
        lambda found: condition(found, "PodResizeInProgress").get("reason") == "Error", "an error"
    )
    assert conditions(pod) == ["PodResizeInProgress:", "PodResizeInProgress:Error"]
    assert state_of(after)["containerID"] == state_of(before)["containerID"]
    assert state_of(after)["resources"]["limits"]["memory"] == "256Mi"
    await pod.resize(requests={"memory": "32Mi"}, limits={"memory": "256Mi"})
    await pod.until(lambda found: observed(found) and not condition(found, "PodResizeInProgress"), "taken back")


async def a_resize_that_waits_for_room(pod: WatchedPod) -> None:
    """Another pod has what it wants; when that goes, it is done."""
    node = await pod.api.get(NODES, node_of(pod.seen[-1]))
    whole = int(quantity(node["status"]["allocatable"]["cpu"]) * 1000)
    async with pod.beside({"requests": {"cpu": f"{whole - 500}m"}}):
        before = await pod.resize(requests={"cpu": "600m"})
        waiting = await pod.until(
            lambda found: condition(found, "PodResizePending").get("reason") == "Deferred" and observed(found),
            "deferred",
        )
        assert sizes(waiting) == ("20m", "20m")
        words = f"Node didn't have enough resource: cpu, requested: 600, used: {whole - 500}, capacity: {whole}"
        assert condition(waiting, "PodResizePending")["message"] == words
    after = await pod.until(lambda found: sizes(found) == ("600m", "600m") and not resizing(found), "resized")
    told = conditions(pod)
    assert in_this_order(told, ["PodResizePending:Deferred", IN_PROGRESS], brief=IN_PROGRESS), told
    assert state_of(after)["containerID"] == state_of(before)["containerID"]
    assert since(after) == since(before)


async def a_resize_that_the_kubelet_never_does(pod: WatchedPod) -> None:
    before = await pod.resize(requests={"cpu": "200m"}, limits={"cpu": "200m"})
    refused = await pod.until(
        lambda found: condition(found, "PodResizePending").get("reason") == "Infeasible" and observed(found),
        "infeasible",
    )
    assert sizes(refused) == ("100m", "100m")
    assert conditions(pod) == ["PodResizePending:Infeasible"]
    await pod.resize(requests={"cpu": "100m"}, limits={"cpu": "100m"})
    after = await pod.until(lambda found: observed(found) and not resizing(found), "taken back")
    assert state_of(after)["containerID"] == state_of(before)["containerID"]


async def a_resize_that_no_node_like_this_can_do(pod: WatchedPod) -> None:
    """The API server says so, and stores nothing of it."""
    before = pod.seen[-1]
    with pytest.raises(Refusal) as told:
        await pod.resize(requests={"cpu": "640"})
    assert (told.value.status, told.value.reason) == (403, "Forbidden")
    assert (
        "node didn't have enough allocatable resources: cpu, requested: 640000, allocatable: " in told.value.message
    )
    after = await pod.api.get(PODS, "one")
    assert (after["spec"], after["metadata"]["generation"]) == (before["spec"], before["metadata"]["generation"])
    assert not resizing(after)
    await pod.resize(requests={"cpu": "40m"})
    await pod.until(lambda found: sizes(found) == ("40m", "40m") and not resizing(found), "a smaller one is done")
