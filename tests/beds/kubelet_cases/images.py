"""Changes of images: what is restarted, and what becomes of it."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.beds.api import Object
from tests.beds.kubelet_cases.case import (
    ALIAS,
    CRASHING,
    MISSING,
    REPOSITORY,
    SAME,
    SLOW,
    another,
    image,
    observed,
    since,
    waits_with,
)
from tests.beds.objects import condition, is_ready
from tests.beds.watched_pod import WatchedPod, state_of

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
