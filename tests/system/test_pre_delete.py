"""The preDelete hook: pods are prepared, wait for whoever was asked, and go; or stay, when their reason is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from random import Random
from typing import Any

import pytest

from controller.api.meta import epoch
from tests.beds.api import DAEMONSETS, PODS, STRATEGIC_MERGE_PATCH, Event, Object, Refusal, closing
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.waves import UNREADY, layout, live, roll
from tests.beds.nodes import INSTANT
from tests.beds.objects import V1, V2, V3, daemonset, labelled, requires
from tests.beds.pods import condition, image_of, is_ready, node_of
from tests.beds.simulator.faults import Answer, LoseAnswer, Rule
from tests.system.both import both_beds
from tests.system.monitor import monitoring

BLOCK = "example.io/block-deleting"
STATE = "lifecycle.apps.kruise.io/state"
SINCE = "lifecycle.apps.kruise.io/timestamp"
OURS = '[{"userAgent":"Lifecycle","key":"preDeleteHook"}]'
THEIRS = '{"userAgent":"ContainerRecreateRequest","key":"default/crr"}'
HOOK: Object = {"labelsHandler": {BLOCK: "true"}}


def hooked(*, hook: Object | None = None, rolling: Object | None = None, **pod: Any) -> Object:
    made = daemonset(rolling=rolling, pod=pod, lifecycle={"preDelete": HOOK if hook is None else hook})
    made["spec"]["template"]["metadata"] = {"labels": {"app": "agent", BLOCK: "true"}}
    return made


def is_prepared(pod: Object) -> bool:
    return (pod["metadata"].get("labels") or {}).get(STATE) == "PreparingDelete"


async def prepared(bed: Bed, *nodes: str) -> dict[str, Object]:
    """Wait until the pods that are prepared and not dying are those of these nodes; returns them by node."""

    def missing(found: list[Object]) -> str:
        there = sorted(node_of(pod) for pod in found if is_prepared(pod) and not _dies(pod))
        return "" if there == sorted(nodes) else f"prepared are those of {there}"

    found = await bed.until(PODS, missing, f"prepared on {sorted(nodes)}")
    return {node_of(pod): pod for pod in found if is_prepared(pod) and not _dies(pod)}


def _dies(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


async def release(bed: Bed, pod: Object) -> None:
    """What a user's controller does in the end."""
    await bed.api.patch(PODS, pod["metadata"]["name"], {"metadata": {"labels": {BLOCK: None}}})


@asynccontextmanager
async def watched(bed: Bed, look: Callable[[dict[str, Object]], None]) -> AsyncIterator[None]:
    """`look` is shown all pods after every event, in the server's order."""
    page = await bed.api.page(PODS)
    pods = {pod["metadata"]["uid"]: pod for pod in page["items"] or []}

    async def follow() -> None:
        version = str(page["metadata"]["resourceVersion"])
        async with aclosing(closing(bed.api.watch(PODS, resourceVersion=version))) as stream:
            async for event in stream:
                seen(event)

    def seen(event: Event) -> None:
        pods[event.object["metadata"]["uid"]] = event.object
        if event.type == "DELETED":
            del pods[event.object["metadata"]["uid"]]
        look(pods)

    task = asyncio.create_task(follow(), name="watcher")
    try:
        yield
        assert not task.done(), "the watch ended"
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def user_controller(bed: Bed, most: float, seed: int = 0) -> AsyncIterator[list[str]]:
    """Releases each prepared pod after 0 to `most` seconds; gives the nodes in the order in which they came."""
    chance, nodes, begun = Random(seed), list[str](), set[str]()
    async with asyncio.TaskGroup() as group:
        works: list[asyncio.Task[None]] = []

        async def work(pod: Object) -> None:
            await asyncio.sleep(chance.uniform(0, most))
            with suppress(Refusal):  # it was deleted by somebody else meanwhile
                await release(bed, pod)

        def look(pods: dict[str, Object]) -> None:
            for uid, pod in pods.items():
                if is_prepared(pod) and not _dies(pod) and uid not in begun:
                    begun.add(uid)
                    nodes.append(node_of(pod))
                    works.append(group.create_task(work(pod)))

        async with watched(bed, look):
            yield nodes
        for task in works:
            task.cancel()


@asynccontextmanager
async def one_at_a_time(bed: Bed, most: int = 1) -> AsyncIterator[None]:
    """Never are more pods prepared, those that are dying included."""
    broken: list[str] = []

    def look(pods: dict[str, Object]) -> None:
        if len(there := [node_of(pod) for pod in pods.values() if is_prepared(pod)]) > most:
            broken.append(f"prepared at once: {sorted(there)}")

    async with watched(bed, look):
        yield
    assert not broken, broken[0]


@both_beds
async def test_f1_an_update_prepares_one_pod_after_the_other_and_waits_for_each(bed: Bed) -> None:
    await bed.add_nodes(3)
    await bed.deploy(hooked())
    async with monitoring(bed, most_unavailable=1), one_at_a_time(bed):
        await bed.set_image(V2)
        for node in ("node-2", "node-1", "node-0"):
            pod = (await prepared(bed, node))[node]
            assert epoch(pod["metadata"]["annotations"][SINCE]) is not None
            assert is_ready(pod)
            await bed.seen()
            await bed.idle()
            assert uids(await bed.pods())[node] == pod["metadata"]["uid"]
            await release(bed, pod)
        await bed.settled()
    assert await layout(bed) == "v2 v2 v2"
    await bed.event("PreparingDelete", f"label {BLOCK}=true")


@both_beds
async def test_a_users_controller_that_takes_its_time_never_sees_two_pods(bed: Bed) -> None:
    await bed.add_nodes(4)
    await bed.deploy(hooked(hook={**HOOK, "markPodNotReady": True}))
    async with user_controller(bed, most=5.0) as nodes, monitoring(bed, most_unavailable=1), one_at_a_time(bed):
        await bed.set_image(V2)
        await bed.settled()
    assert nodes == ["node-3", "node-2", "node-1", "node-0"]
    assert await layout(bed) == "v2 v2 v2 v2"


@both_beds
async def test_f4_a_pod_stays_when_its_node_is_to_run_it_after_all(bed: Bed) -> None:
    await bed.add_nodes(2, labels={"pool": "a"})
    await bed.deploy(hooked(hook={**HOOK, "markPodNotReady": True}, affinity=requires(labelled("pool", "a"))))
    before = uids(await bed.pods())
    await bed.label_node("node-1", pool=None)
    await prepared(bed, "node-1")
    await bed.status(misscheduled=1, desired=1)
    await bed.label_node("node-1", pool="a")
    await prepared(bed)
    await bed.settled()
    pod = (await bed.runs_on("node-0", "node-1"))["node-1"]
    assert uids(await bed.pods()) == before
    assert SINCE not in (pod["metadata"].get("annotations") or {})
    assert condition(pod, "KruisePodReady")["status"] == "True"
    await bed.event("CancelledDelete", pod["metadata"]["name"])


@both_beds
async def test_f3_a_pod_leaves_its_traffic_while_its_container_runs_on(bed: Bed) -> None:
    await bed.add_nodes(1)
    await bed.deploy(hooked(hook={**HOOK, "markPodNotReady": True}))
    new = (await bed.runs_on("node-0"))["node-0"]
    assert {"conditionType": "KruisePodReady"} in new["spec"]["readinessGates"]
    assert condition(new, "KruisePodReady")["status"] == "True"
    await bed.set_image(V2)
    waiting = (await prepared(bed, "node-0"))["node-0"]
    closed = condition(waiting, "KruisePodReady")
    assert (closed["status"], closed["message"], is_ready(waiting)) == ("False", OURS, False)
    assert condition(waiting, "ContainersReady")["status"] == "True"
    await bed.status(available=0)
    await release(bed, waiting)
    await bed.settled()


@both_beds
async def test_f3_another_writers_entry_is_kept_and_keeps_the_pod_not_ready(bed: Bed) -> None:
    await bed.add_nodes(1)
    await bed.deploy(hooked(hook={**HOOK, "markPodNotReady": True}))
    await list_in_message(bed, f"[{THEIRS}]")
    await bed.status(ready=0)
    await bed.set_image(V2)
    waiting = (await prepared(bed, "node-0"))["node-0"]
    assert condition(waiting, "KruisePodReady")["message"] == f"[{THEIRS},{OURS[1:]}"
    await bed.set_image(V1)
    await prepared(bed)
    await bed.seen()
    await bed.idle()
    (left,) = await live(bed)
    closed = condition(left, "KruisePodReady")
    assert (closed["status"], closed["message"]) == ("False", f"[{THEIRS}]")
    await list_in_message(bed, "[]")
    await bed.settled()


async def list_in_message(bed: Bed, message: str) -> None:
    (pod,) = await live(bed)
    written = {"type": "KruisePodReady", "status": "False", "message": message}
    patch = {"status": {"conditions": [written]}}
    name = pod["metadata"]["name"]
    await bed.api.patch(PODS, name, patch, content_type=STRATEGIC_MERGE_PATCH, sub="status")


async def test_an_edit_that_is_taken_back_takes_the_preparation_back(bed: Bed) -> None:
    await bed.add_nodes(2)
    await bed.deploy(hooked(hook={**HOOK, "markPodNotReady": True}))
    before = uids(await bed.pods())
    for images in ((V2, V1), (V2, V3, V1)):
        for image in images:
            await bed.set_image(image)
            await prepared(bed, *([] if image == V1 else ["node-1"]))
        await bed.settled()
    assert uids(await bed.pods()) == before


async def test_a_pause_gives_the_pod_back_and_its_end_prepares_it_again(bed: Bed) -> None:
    await bed.add_nodes(2)
    await bed.deploy(hooked())
    await bed.set_image(V2)
    await prepared(bed, "node-1")
    await roll(bed, paused=True)
    await prepared(bed)
    await bed.status(available=2)
    await roll(bed, paused=None)
    await prepared(bed, "node-1")


@both_beds
async def test_f2_hooks_come_change_and_go_in_the_midst_of_an_update(bed: Bed) -> None:
    await bed.add_nodes(3)
    made = hooked()
    del made["spec"]["lifecycle"]
    await bed.deploy(made)
    await bed.edit({"lifecycle": {"preDelete": HOOK}})
    await bed.set_image(V2)
    await prepared(bed, "node-2")
    await bed.edit({"lifecycle": {"preDelete": {"labelsHandler": {BLOCK: "other", "app": "agent"}}}})
    await bed.seen()
    await bed.idle()
    assert await layout(bed) == "v1 v1 v1", "another handler holds it"
    await bed.edit({"lifecycle": {"preDelete": {"labelsHandler": {"app": None}}}})
    await bed.settled()
    assert await layout(bed) == "v2 v2 v2", "no handler holds any"
    await bed.condition("HookUnmatched", "NoPodMatches")
    await bed.edit({"lifecycle": {"preDelete": {"labelsHandler": {BLOCK: "true"}}}})
    await bed.until(
        DAEMONSETS, lambda found: "it warns" if condition(found[0], "HookUnmatched") else "", "no warning"
    )
    await bed.set_image(V3)
    await prepared(bed, "node-2")
    await bed.edit({"lifecycle": None})
    await bed.settled()


async def test_finalizers_hold_too_and_a_deletion_by_hand_does_not_wait(bed: Bed) -> None:
    await bed.add_nodes(2)
    made = hooked(hook={"finalizersHandler": ["example.io/hold"]})
    made["spec"]["template"]["metadata"]["finalizers"] = ["example.io/hold"]
    await bed.deploy(made)
    await bed.set_image(V2)
    pod = (await prepared(bed, "node-1"))["node-1"]
    await bed.api.patch(PODS, pod["metadata"]["name"], {"metadata": {"finalizers": None}})
    await prepared(bed, "node-0")
    by_hand = (await bed.pods())["node-0"]["metadata"]["name"]
    await bed.api.delete(PODS, by_hand)
    await bed.api.patch(PODS, by_hand, {"metadata": {"finalizers": None}})
    await bed.settled()


async def test_c5_while_surging_a_held_pod_keeps_its_surge_and_serves_again_if_it_must(bed: Bed) -> None:
    await bed.add_nodes(3)
    await bed.deploy(hooked(hook={**HOOK, "markPodNotReady": True}, rolling={"maxSurge": 1, "maxUnavailable": 0}))
    async with monitoring(bed, most_unavailable=0), one_at_a_time(bed):
        await bed.set_image(V2)
        await prepared(bed, "node-2")
        await bed.seen()
        await bed.idle()
        assert await layout(bed) == "v1 v1 v1+v2"
    successor = next(pod for pod in await live(bed) if image_of(pod) == V2)
    bed.nodes.behave("*", UNREADY)
    await bed.nodes.ready(successor, value=False)
    await prepared(bed)
    bed.nodes.behave("*", INSTANT)
    async with monitoring(bed, most_unavailable=0):
        waiting = (await prepared(bed, "node-2"))["node-2"]
        await release(bed, waiting)
        await prepared(bed, "node-1")
    assert await layout(bed) == "v1 v1+v2 v2"


@pytest.mark.parametrize("which", ["pods/status", "pods"])
async def test_an_answer_that_was_lost_prepares_no_second_pod(bed: Bed, which: str) -> None:
    await bed.add_nodes(3)
    await bed.deploy(hooked(hook={**HOOK, "markPodNotReady": True}))
    lost = Rule(verb="patch", resource=which, effect=LoseAnswer(), times=3)
    bed.simulator.link.faults.add(lost)
    async with one_at_a_time(bed), monitoring(bed, most_unavailable=1):
        await bed.set_image(V2)
        await prepared(bed, "node-2")
        await bed.seen()
        await bed.idle()


async def test_whatever_moment_the_controller_ends_the_next_one_brings_it_to_an_end(bed: Bed) -> None:
    """Also between the two writes, whether the reason is still there or not."""
    await bed.add_nodes(2)
    await bed.deploy(hooked(hook={**HOOK, "markPodNotReady": True}))
    before = uids(await bed.pods())
    refused = Rule(verb="patch", resource="pods", effect=Answer(500))
    for rolled_back in (False, True):
        bed.simulator.link.faults.add(refused)
        await bed.set_image(V2)
        await bed.status(ready=1)
        await bed.controller.kill()
        bed.simulator.link.faults.remove(refused)
        if rolled_back:
            await bed.set_image(V1)
        bed.controller.start()
        await prepared(bed, *([] if rolled_back else ["node-1"]))
    await bed.settled()
    assert uids(await bed.pods()) == before
