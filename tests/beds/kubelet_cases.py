"""What every kubelet does with a running pod that is changed, case by case: as an order of what can be seen.

The real ones and the played one go through the same cases. Where they differ, the played one is wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.beds.api import Object
from tests.beds.pods import condition, is_ready
from tests.beds.watched_pod import WatchedPod, state_of

REPOSITORY = "registry.test/kubelet"
PORT = 8080
PROBE = {"httpGet": {"path": "/ready", "port": PORT}, "periodSeconds": 1, "timeoutSeconds": 10}
SIZE = {"requests": {"cpu": "20m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}}
MISSING, CRASHING, ALIAS, SAME = "missing", "crashing", "alias", "v2"
"""Tags: nobody has it; its program ends with 1; it is the same image as `v2`."""


def image(tag: str) -> str:
    return f"{REPOSITORY}:{tag}"


@dataclass(frozen=True)
class Case:
    """A pod with image v1, and what a test does to it."""

    play: Callable[[WatchedPod], Awaitable[None]]
    container: Object = field(default_factory=dict)
    spec: Object = field(default_factory=dict)

    def pod(self, node: str) -> Object:
        agent = {"name": "agent", "image": image("v1"), **self.container}
        spec = {"nodeName": node, "terminationGracePeriodSeconds": 5, "containers": [agent], **self.spec}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec}


Holds: TypeAlias = Callable[[Object], bool]


def another(before: Object, name: str = "agent") -> Holds:
    """A new container runs and is ready."""
    return lambda found: (
        "running" in state_of(found, name)["state"]
        and state_of(found, name)["containerID"] != state_of(before, name)["containerID"]
        and is_ready(found)
    )


def observed(found: Object) -> bool:
    return bool(found["status"]["observedGeneration"] == found["metadata"]["generation"])


def waits_with(*reasons: str) -> Holds:
    return lambda found: state_of(found)["state"].get("waiting", {}).get("reason") in reasons


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


def since(found: Object) -> str:
    return str(condition(found, "Ready")["lastTransitionTime"])


async def a_new_image_without_probe(pod: WatchedPod) -> None:
    before = await pod.image(image("v2"))
    after = await pod.until(another(before), "another container")
    old, new = state_of(before), state_of(after)
    assert new["restartCount"] == old["restartCount"] + 1
    assert new["imageID"] != old["imageID"]
    assert new["lastState"]["terminated"]["containerID"] == old["containerID"]
    assert all(is_ready(one) for one in pod.seen), "Ready does not tell"
    assert since(after) == since(before)
    assert any(observed(one) and state_of(one)["containerID"] == old["containerID"] for one in pod.seen)
    assert {state_of(one)["imageID"] for one in pod.seen} == {old["imageID"], new["imageID"]}
    for key in ("podIP", "startTime"):
        assert after["status"][key] == before["status"][key]
    assert {one["observedGeneration"] for one in after["status"]["conditions"]} == {after["metadata"]["generation"]}


async def a_new_image_with_a_probe(pod: WatchedPod) -> None:
    before = await pod.image(image("v2"))
    after = await pod.until(
        lambda found: another(before)(found) and since(found) >= since(before), "another container"
    )
    assert state_of(after)["restartCount"] == 1
    words = [one for one in pod.story() if "x0 unready" in one]
    assert set(words) <= {"running x0 unready", "running x0 unobserved unready"}, "it may be seen to be not ready"


async def another_name_of_the_same_image(pod: WatchedPod) -> None:
    before = await pod.image(image(SAME))
    before = await pod.until(another(before), "v2")
    before = await pod.image(image(ALIAS))
    after = await pod.until(another(before), "the alias")
    assert state_of(after)["imageID"] == state_of(before)["imageID"]
    assert state_of(after)["restartCount"] == 2


async def a_label(pod: WatchedPod) -> None:
    before = await pod.change({"metadata": {"labels": {"colour": "blue"}}})
    after = await pod.until(lambda found: bool(found["metadata"].get("labels")), "labelled")
    assert after["status"] == before["status"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


async def an_image_that_is_not_there(pod: WatchedPod) -> None:
    before = await pod.image(image(MISSING))
    down = await pod.until(waits_with("ImagePullBackOff"), "backing off")
    assert pod.reasons() == ["ErrImagePull", "ImagePullBackOff"]
    old, new = state_of(before), state_of(down)
    for key in ("containerID", "imageID", "image", "restartCount"):
        assert new[key] == old[key], key
    assert (new["started"], new["ready"], down["status"]["phase"]) == (False, False, "Running")
    assert new["lastState"]["terminated"]["containerID"] == old["containerID"]
    assert condition(down, "Ready")["reason"] == "ContainersNotReady"
    assert MISSING in new["state"]["waiting"]["message"]
    before = await pod.image(image("v1"))
    after = await pod.until(another(before), "back again")
    assert state_of(after)["restartCount"] == 1


async def back_and_forth(pod: WatchedPod) -> None:
    for tag in ("v2", "v3", "v2", "v1"):
        before = await pod.image(image(tag))
        await pod.until(another(before), tag)
    before = await pod.image(image("v2"))
    held = await pod.until(waits_with("CrashLoopBackOff"), "held back")
    assert state_of(held)["containerID"] == state_of(before)["containerID"]
    after = await pod.until(another(before), "v2 again")
    assert state_of(after)["restartCount"] == 5
    assert pod.reasons() == ["CrashLoopBackOff"]


async def an_image_that_crashes(pod: WatchedPod) -> None:
    await pod.image(image(CRASHING))
    down = await pod.until(waits_with("CrashLoopBackOff"), "held back")
    state = state_of(down)
    assert state["lastState"]["terminated"]["exitCode"] == 1
    assert state["lastState"]["terminated"]["reason"] == "Error"
    assert state["containerID"] == state["lastState"]["terminated"]["containerID"]
    assert set(pod.reasons()) <= {"Error", "CrashLoopBackOff"}
    before = await pod.image(image("v2"))
    await pod.until(another(before), "v2")


async def an_init_container(pod: WatchedPod) -> None:
    before = await pod.image(image("v2"), "side", "initContainers")
    after = await pod.until(another(before, "side"), "another sidecar")
    assert state_of(after)["containerID"] == state_of(before)["containerID"], "it restarts alone"
    assert state_of(after, "side")["restartCount"] == 1


async def a_readiness_gate(pod: WatchedPod) -> None:
    assert condition(pod.seen[-1], "Ready")["reason"] == "ReadinessGatesNotReady"
    await pod.gate("True")
    await pod.until(is_ready, "ready")
    await pod.gate("False")
    found = await pod.until(lambda found: not is_ready(found), "not ready")
    assert condition(found, "Ready")["reason"] == "ReadinessGatesNotReady"
    assert condition(found, "Ready")["message"] == 'the status of pod readiness gate "gate" is not "True", but False'
    assert condition(found, "ContainersReady")["status"] == "True"
    assert found["metadata"]["generation"] == 1


async def a_resize(pod: WatchedPod) -> None:
    before = await pod.resize(requests={"cpu": "40m"})
    after = await pod.until(lambda found: sizes(found) == ("40m", "40m") and not resizing(found), "resized")
    assert list(dict.fromkeys(sizes(one) for one in pod.seen)) == [
        ("20m", "20m"),
        ("40m", "20m"),
        ("40m", "40m"),
    ]
    assert conditions(pod) == ["PodResizeInProgress:"]
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


SIDECAR = {
    "initContainers": [
        {
            "name": "side",
            "image": image("v1"),
            "restartPolicy": "Always",
            "env": [{"name": "PORT", "value": "8081"}],
        }
    ]
}
GATED = {"readinessGates": [{"conditionType": "gate"}]}
RESTARTS = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]

CASES = {
    case.play.__name__: case
    for case in (
        Case(a_new_image_without_probe),
        Case(a_new_image_with_a_probe, {"readinessProbe": PROBE}),
        Case(another_name_of_the_same_image),
        Case(a_label),
        Case(an_image_that_is_not_there),
        Case(back_and_forth),
        Case(an_image_that_crashes),
        Case(an_init_container, spec=SIDECAR),
        Case(a_readiness_gate, spec=GATED),
        Case(a_resize, {"resources": SIZE}),
        Case(a_resize_that_wants_a_new_container, {"resources": SIZE, "resizePolicy": RESTARTS}),
        Case(image_and_resources, {"resources": SIZE}),
        Case(less_memory_than_it_uses, {"resources": SIZE}),
    )
}
