"""What tests of the preDelete hook share: a DaemonSet with one, who lets its pods go, and what must never be seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from random import Random
from typing import Any

from tests.beds.api import PODS, STRATEGIC_MERGE_PATCH, Event, Object, Refusal, closing
from tests.beds.controller.bed import Bed
from tests.beds.controller.waves import live
from tests.beds.objects import daemonset, node_of

BLOCK = "example.io/block-deleting"
STATE = "lifecycle.apps.kruise.io/state"
SINCE = "lifecycle.apps.kruise.io/timestamp"
OURS = '[{"userAgent":"Lifecycle","key":"preDeleteHook"}]'
THEIRS = '{"userAgent":"ContainerRecreateRequest","key":"default/crr"}'
DAY = 86_400.0
HOOK: Object = {"labelsHandler": {BLOCK: "true"}}


def hooked(*, hook: Object | None = None, rolling: Object | None = None, **pod: Any) -> Object:
    made = daemonset(rolling=rolling, pod=pod, lifecycle={"preDelete": HOOK if hook is None else hook})
    made["spec"]["template"]["metadata"] = {"labels": {"app": "agent", BLOCK: "true"}}
    return made


def is_prepared(pod: Object) -> bool:
    return (pod["metadata"].get("labels") or {}).get(STATE) == "PreparingDelete"


async def prepared(bed: Bed, *nodes: str) -> dict[str, Object]:
    """Wait until the pods that are prepared and not terminating are those of these nodes; returns them by node."""

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
        async with aclosing(closing(bed.api.watch(PODS, silence=DAY, resourceVersion=version))) as stream:
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
            with suppress(Refusal):  # it was deleted by another client meanwhile
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
    """Never are more pods prepared, those that are terminating included."""
    broken: list[str] = []

    def look(pods: dict[str, Object]) -> None:
        if len(there := [node_of(pod) for pod in pods.values() if is_prepared(pod)]) > most:
            broken.append(f"prepared at once: {sorted(there)}")

    async with watched(bed, look):
        yield
    assert not broken, broken[0]


async def list_in_message(bed: Bed, message: str) -> None:
    (pod,) = await live(bed)
    written = {"type": "KruisePodReady", "status": "False", "message": message}
    patch = {"status": {"conditions": [written]}}
    name = pod["metadata"]["name"]
    await bed.api.patch(PODS, name, patch, content_type=STRATEGIC_MERGE_PATCH, sub="status")
