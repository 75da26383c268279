"""What every kubelet does with a running pod that is changed, case by case: as an order of what can be seen.

The real ones and the played one go through the same cases. Where they differ, the played one is wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import pytest

from tests.beds.api import NODES, PODS, Object, Refusal
from tests.beds.objects import condition, is_ready, node_of
from tests.beds.quantities import quantity
from tests.beds.watched_pod import WatchedPod, state_of

REPOSITORY = "registry.test/kubelet"
PORT = 8080
PROBE = {"httpGet": {"path": "/ready", "port": PORT}, "periodSeconds": 1, "timeoutSeconds": 10}
MISSING, CRASHING, ALIAS, SAME, SLOW = "missing", "crashing", "alias", "v2", "slow"
"""Tags: not in the registry; its program ends with 1; it is the same image as `v2`; it takes some seconds to pull."""


def image(tag: str) -> str:
    return f"{REPOSITORY}:{tag}"


@dataclass(frozen=True)
class Case:
    """A pod with image v1, and what a test does to it."""

    play: Callable[[WatchedPod], Awaitable[None]]
    container: Object = field(default_factory=dict)
    spec: Object = field(default_factory=dict)
    stops: float | None = 0.0
    """Seconds that its program takes to end; None: for ever, unless it is killed."""
    own_cpus: bool = False
    """Its kubelet gives some pods processors of their own: the CPU manager's policy is static."""

    def pod(self, node: str) -> Object:
        agent = {"name": "agent", "image": image("v1"), **self.container}
        stops = {"IGNORES_SIGTERM": "1"} if self.stops is None else {"STOP_SECONDS": f"{self.stops:.0f}"}
        if self.stops != 0.0:
            agent["env"] = [{"name": name, "value": value} for name, value in stops.items()]
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


def since(found: Object) -> str:
    return str(condition(found, "Ready")["lastTransitionTime"])


GRACE, TAKES = 2, 3
"""Seconds: until a program is killed, and until one that is left alone ends by itself."""


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


async def an_image_by_its_digest(pod: WatchedPod) -> None:
    """The node has it already, by its tag, and that is what the status shows."""
    before = await pod.image(image("v3"))
    third = state_of(await pod.until(another(before), "v3"))
    before = await pod.image(image("v1"))
    await pod.until(another(before), "v1")
    digest = third["imageID"].partition("@")[2]
    for number, name in enumerate((f"{REPOSITORY}@{digest}", f"{image('v3')}@{digest}"), start=3):
        before = await pod.image(name)
        after = state_of(await pod.until(another(before), name))
        assert (after["imageID"], after["image"]) == (third["imageID"], image("v3"))
        assert after["restartCount"] == number, "the name alone is enough for a restart"
        words = f'Container image "{name}" already present on machine'
        await pod.told("Pulled", words)


async def an_edit_that_overlaps_another(pod: WatchedPod) -> None:
    """The kubelet is pulling: it starts what it pulls before it looks again."""
    before = await pod.image(image(SLOW))
    await pod.told("Pulling", f'Pulling image "{image(SLOW)}"')
    first = await pod.image(image("v2"))
    assert state_of(first)["containerID"] == state_of(before)["containerID"]
    after = state_of(await pod.until(is_second, "the second one"))
    assert after["lastState"]["terminated"]["containerID"] != state_of(before)["containerID"]
    await pod.told("Pulled", f'Successfully pulled image "{image(SLOW)}"')


def is_second(found: Object) -> bool:
    return state_of(found)["restartCount"] == 2 and "running" in state_of(found)["state"] and is_ready(found)


async def a_program_that_takes_its_time_to_end(pod: WatchedPod) -> None:
    before = await pod.image(image("v2"))
    after = await pod.until(another(before), "another container")
    ended = _ended(after)
    assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
    assert ended["containerID"] == state_of(before)["containerID"]
    killed = await pod.told("Killing", "Container agent definition changed, will be restarted")
    assert _time(ended["finishedAt"]) - _time(killed["firstTimestamp"]) >= timedelta(seconds=TAKES - 1)
    assert all(is_ready(one) for one in pod.seen), "nothing tells that it is about to end"
    assert any(observed(one) and state_of(one)["containerID"] == ended["containerID"] for one in pod.seen)


async def a_program_that_does_not_end_by_itself(pod: WatchedPod) -> None:
    before = await pod.image(image("v2"))
    ended = _ended(await pod.until(another(before), "another container"))
    assert (ended["exitCode"], ended["reason"]) == (137, "Error")
    assert ended["containerID"] == state_of(before)["containerID"]
    killed = await pod.told("Killing", "Container agent definition changed, will be restarted")
    assert _time(ended["finishedAt"]) - _time(killed["firstTimestamp"]) >= timedelta(seconds=GRACE - 1)


def _ended(found: Object) -> Object:
    """How the container before this one ended."""
    told: Object = state_of(found)["lastState"]["terminated"]
    return told


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def a_label(pod: WatchedPod) -> None:
    before = await pod.change({"metadata": {"labels": {"colour": "blue"}}})
    after = await pod.until(lambda found: bool(found["metadata"].get("labels")), "labelled")
    assert after["status"] == before["status"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


async def a_label_that_the_environment_reads(pod: WatchedPod) -> None:
    """Only what starts after the change shows it, and one write of image and label is enough for that."""
    before = await pod.change({"metadata": {"labels": {"colour": "blue"}}})
    after = await pod.until(lambda found: bool(found["metadata"].get("labels")), "labelled")
    assert after["status"] == before["status"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert (await pod.environment())["COLOUR"] == ""
    green = {"metadata": {"labels": {"colour": "green"}}}
    before = await pod.change({**green, "spec": {"containers": [{"name": "agent", "image": image("v2")}]}})
    await pod.until(another(before), "another container")
    assert (await pod.environment())["COLOUR"] == "green"


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
COLOUR = {"name": "COLOUR", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['colour']"}}}
RESTARTS = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]

CASES = {
    case.play.__name__: case
    for case in (
        Case(a_new_image_without_probe),
        Case(a_new_image_with_a_probe, {"readinessProbe": PROBE}),
        Case(another_name_of_the_same_image),
        Case(an_image_by_its_digest),
        Case(an_image_that_is_not_there),
        Case(back_and_forth),
        Case(an_image_that_crashes),
        Case(an_init_container, spec=SIDECAR),
        Case(an_edit_that_overlaps_another),
        Case(a_program_that_takes_its_time_to_end, stops=TAKES),
        Case(
            a_program_that_does_not_end_by_itself,
            spec={"terminationGracePeriodSeconds": GRACE},
            stops=None,
        ),
        Case(a_label),
        Case(a_label_that_the_environment_reads, {"env": [COLOUR], "readinessProbe": PROBE}),
        Case(a_readiness_gate, spec=GATED),
        Case(a_resize, {"resources": SIZE}),
        Case(
            a_resize_that_wants_a_new_container,
            {"resources": SIZE, "resizePolicy": RESTARTS},
        ),
        Case(image_and_resources, {"resources": SIZE}),
        Case(less_memory_than_it_uses, {"resources": SIZE}),
        Case(a_resize_that_waits_for_room, {"resources": SMALL}),
        Case(a_resize_that_the_kubelet_never_does, {"resources": GUARANTEED}, own_cpus=True),
        Case(a_resize_that_no_node_like_this_can_do, {"resources": SMALL}),
    )
}
