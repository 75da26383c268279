"""Played nodes in virtual time, second by second: what `kubelet_cases` does not tell.

Those cases are held against real kubelets too: what restarts, what stays, what each condition says.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from tests.beds.api import PODS, STRATEGIC_MERGE_PATCH, Api, Object, closing
from tests.beds.nodes import DEAD, INSTANT, MANUAL, Behaviour, Nodes
from tests.beds.nodes.fleet import add_workers
from tests.beds.nodes.scheduler import QUARANTINE_SECONDS
from tests.beds.objects import condition, is_ready
from tests.beds.objects import pod as pod_manifest
from tests.beds.simulator import Cluster, InProcess
from tests.beds.simulator.faults import NoConnection, Rule
from tests.beds.virtual_time import clock, now, virtual_time

SLOW = Behaviour(notice=0.1, terminate=1.0, pull=10.0, start=0.5, ready=2.0)
SIZE = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}
NODE = "worker-01"
PROBE = {"httpGet": {"path": "/", "port": 80}}


class Pod:
    """What a test does to it and asks of it. `seen`: (seconds since the last change by the test, the pod)."""

    def __init__(self, api: Api, nodes: Nodes, way: InProcess) -> None:
        self.api, self.nodes = api, nodes
        self.way = way
        """The nodes' own to the server."""
        self.seen: list[tuple[float, Object]] = []
        self.begun = 0.0

    async def change(self, patch: Object, *, sub: str = "") -> Object:
        self.seen.clear()
        self.begun = now()
        return await self.api.patch(PODS, "one", patch, sub=sub, content_type=STRATEGIC_MERGE_PATCH)

    async def image(self, image: str) -> Object:
        return await self.change({"spec": {"containers": [{"name": "main", "image": image}]}})

    async def resize(self, **resources: Any) -> Object:
        return await self.change({"spec": {"containers": [{"name": "main", "resources": resources}]}}, sub="resize")

    async def gate(self, value: str) -> Object:
        return await self.change({"status": {"conditions": [{"type": "gate", "status": value}]}}, sub="status")

    async def follow(self) -> None:
        async with aclosing(closing(self.api.watch(PODS, silence=1e9))) as events:
            async for event in events:
                self.seen.append((round(now() - self.begun, 3), event.object))

    def story(self) -> list[tuple[float, str]]:
        """When the container's entry showed what, as far as it changed."""
        told: list[tuple[float, str]] = []
        for moment, found in self.seen:
            words = in_words(found)
            if not told or told[-1][1] != words:
                told.append((moment, words))
        return told


def in_words(found: Object) -> str:
    """`running v1 x0 ready`."""
    state = state_of(found)
    ((what, more),) = state["state"].items()
    image = state["image"].rpartition(":")[2]
    ready = "ready" if is_ready(found) else "unready"
    return f"{more.get('reason', what)} {image} x{state['restartCount']} {ready}"


def state_of(found: Object, name: str = "main") -> Object:
    status = found["status"]
    states = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    return next(one for one in states if one["name"] == name)


@asynccontextmanager
async def running(
    behaviour: Behaviour = INSTANT, *, probe: bool = False, spec: Object | None = None, **container: Any
) -> AsyncIterator[Pod]:
    """One pod with image `agent:v1`, ready for a minute."""
    cluster = Cluster(clock)
    way = InProcess(cluster)
    async with Nodes(way, behaviour=behaviour, clock=clock) as nodes:
        await nodes.add(NODE)
        api = Api(InProcess(cluster))
        new = pod_manifest("one", image="agent:v1", aimed_at=NODE)
        new["spec"]["containers"][0] |= {**container, **({"readinessProbe": PROBE} if probe else {})}
        new["spec"] |= spec or {}
        await api.create(PODS, new)
        one = Pod(api, nodes, way)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(one.follow())
            await asyncio.sleep(60)
            yield one
            task.cancel()


def sizes(pod: Pod) -> list[str]:
    """What is reserved of cpu, what the container has, and why not what is asked for."""
    state = state_of(found := pod.seen[-1][1])
    told = [state["allocatedResources"]["cpu"], state["resources"]["requests"]["cpu"]]
    return [*told, *filter(None, [condition(found, "PodResizePending").get("reason")])]


STORIES: dict[str, tuple[Behaviour, list[tuple[float, str]]]] = {
    "a probe finds out": (
        SLOW,
        [
            (1.6, "running v1 x0 unready"),
            (11.6, "running v2 x1 unready"),
            (13.6, "running v2 x1 ready"),
        ],
    ),
    "unless the next container is quicker": (INSTANT, [(0.0, "running v2 x1 ready")]),
    "it never gets ready": (Behaviour(never_ready=("*:v2",)), [(0.0, "running v2 x1 unready")]),
    "it cannot be pulled": (
        Behaviour(missing_images=("*:v2",)),
        [
            (0.5, "ErrImagePull v1 x0 unready"),
            (1.0, "ImagePullBackOff v1 x0 unready"),
            (10.0, "CrashLoopBackOff v1 x0 unready"),
            (20.0, "ErrImagePull v1 x0 unready"),
            (30.0, "ImagePullBackOff v1 x0 unready"),
        ],
    ),
    "it crashes, and is started later and later": (
        Behaviour(crashing_images=("*:v2",)),
        [
            (0.0, "running v2 x1 ready"),
            (0.2, "Error v2 x1 unready"),
            (1.2, "running v2 x2 ready"),
            (1.4, "Error v2 x2 unready"),
            (11.4, "CrashLoopBackOff v2 x2 unready"),
            (11.4, "running v2 x3 ready"),
            (11.6, "Error v2 x3 unready"),
            (31.6, "CrashLoopBackOff v2 x3 unready"),
            (31.6, "running v2 x4 ready"),
            (31.8, "Error v2 x4 unready"),
        ],
    ),
}


@pytest.mark.parametrize(("behaviour", "expected"), STORIES.values(), ids=STORIES)
def test_what_a_new_image_brings(behaviour: Behaviour, expected: list[tuple[float, str]]) -> None:
    @virtual_time
    async def story() -> None:
        async with running(behaviour, probe=True) as pod:
            await pod.image("agent:v2")
            await asyncio.sleep(35)
            assert pod.story() == [(0.0, "running v1 x0 ready"), *expected]
            await pod.image("agent:v1")
            await asyncio.sleep(60)
            assert pod.story()[-1][1].endswith(" ready"), "going back heals"

    story()


@virtual_time
async def test_a_registry_that_works_again_is_asked_at_the_next_try() -> None:
    async with running(Behaviour(missing_images=("*:bad",))) as pod:
        await pod.image("agent:bad")
        await asyncio.sleep(15)
        pod.nodes.behave(NODE, INSTANT)
        await asyncio.sleep(60)
        assert pod.story()[-1] == (40.0, "running bad x1 ready")


@virtual_time
async def test_a_pod_that_crashes_from_its_first_start_does_so_too() -> None:
    async with running(Behaviour(crashing_images=("*:v1",))) as pod:
        assert state_of(pod.seen[-1][1])["restartCount"] == 3


@virtual_time
async def test_only_what_changed_is_restarted() -> None:
    spec = {
        "initContainers": [
            {"name": "init", "image": "init:v1"},
            {"name": "side", "image": "side:v1", "restartPolicy": "Always"},
        ]
    }
    async with running(spec=spec) as pod:
        for name, restarts in (("init", (0, 0, 0)), ("side", (0, 1, 0)), ("main", (0, 1, 1))):
            field = "containers" if name == "main" else "initContainers"
            await pod.change({"spec": {field: [{"name": name, "image": f"{name}:v2"}]}})
            await asyncio.sleep(1)
            found = pod.seen[-1][1]
            assert tuple(state_of(found, one)["restartCount"] for one in ("init", "side", "main")) == restarts
            assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
            assert is_ready(found)


@virtual_time
async def test_a_pod_may_be_deleted_during_a_pull() -> None:
    async with running(SLOW) as pod:
        await pod.image("agent:v2")
        await asyncio.sleep(5)
        await pod.api.delete(PODS, "one")
        await asyncio.sleep(2)
        assert await pod.api.list(PODS) == []


@pytest.mark.parametrize("still", [DEAD, MANUAL], ids=["dead", "manual"])
def test_a_node_that_does_nothing_does_not_even_observe(still: Behaviour) -> None:
    @virtual_time
    async def story() -> None:
        async with running() as pod:
            pod.nodes.behave(NODE, still)
            await pod.image("agent:v2")
            await asyncio.sleep(60)
            assert pod.story() == [(0.0, "running v1 x0 ready")]
            assert pod.seen[-1][1]["status"]["observedGeneration"] == 1
            pod.nodes.behave(NODE, INSTANT)
            await asyncio.sleep(1)
            assert pod.story()[-1][1] == "running v2 x1 ready"

    story()


@virtual_time
async def test_a_waiting_resize_hears_of_room_before_the_watch_says_so() -> None:
    async with running(Behaviour(terminate=5), resources=SIZE) as pod:
        big = pod_manifest("big", image="agent:v1", aimed_at=NODE)
        big["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "15500m"}}
        await pod.api.create(PODS, big)
        await asyncio.sleep(60)
        await pod.resize(requests={"cpu": "600m"})
        await asyncio.sleep(60)
        assert sizes(pod) == ["100m", "100m", "Deferred"]
        await pod.api.delete(PODS, "big")
        await asyncio.sleep(1)
        for verb in ("list", "watch"):
            pod.way.faults.add(Rule(NoConnection(), verb=verb))
        pod.way.drop_watches()
        await asyncio.sleep(60)
        assert sizes(pod) == ["600m", "600m"]


@virtual_time
async def test_a_restart_while_a_resize_waits_keeps_the_old_size() -> None:
    async with running(Behaviour(resizes="Deferred"), resources=SIZE) as pod:
        await pod.resize(requests={"cpu": "150m"})
        await pod.image("agent:v2")
        await asyncio.sleep(60)
        assert pod.story()[-1][1] == "running v2 x1 ready"
        assert sizes(pod) == ["100m", "100m", "Deferred"]


@virtual_time
async def test_a_closed_gate_and_a_container_that_is_not_ready_are_told_apart() -> None:
    gates = {"readinessGates": [{"conditionType": "gate"}]}
    async with running(Behaviour(pull=5, ready=2), spec=gates, probe=True) as pod:
        await pod.gate("False")
        await pod.image("agent:v2")
        await asyncio.sleep(3)
        found = pod.seen[-1][1]
        assert {condition(found, name)["reason"] for name in ("Ready", "ContainersReady")} == {"ContainersNotReady"}
        await asyncio.sleep(60)
        assert condition(pod.seen[-1][1], "Ready")["reason"] == "ReadinessGatesNotReady"
        await pod.gate("True")
        await asyncio.sleep(60)
        assert pod.story()[-1][1] == "running v2 x1 ready"


@asynccontextmanager
async def workers(
    count: int, behaviour: Behaviour = INSTANT, *, pod_garbage: float | None = None
) -> AsyncIterator[tuple[Api, Nodes]]:
    cluster = Cluster(clock)
    async with Nodes(InProcess(cluster), behaviour=behaviour, clock=clock, pod_garbage=pod_garbage) as nodes:
        await add_workers(nodes, count)
        yield Api(InProcess(cluster)), nodes


def one_is_ready(found: list[Object]) -> bool:
    return any(is_ready(item) for item in found)


@virtual_time
async def test_a_start_takes_the_time_that_the_behaviour_says() -> None:
    async with workers(1, Behaviour(pull=10, start=5, ready=20, terminate=7)) as (api, _):
        await api.create(PODS, pod_manifest("one", aimed_at="worker-01"))
        await api.wait_for(PODS, one_is_ready, "one is ready", seconds=100)
        assert now() == 35
        await api.delete(PODS, "one")
        await api.wait_for(PODS, lambda found: not found, "one is gone", seconds=100)
        assert now() == 42
        await api.create(PODS, pod_manifest("two", aimed_at="worker-01"))
        await api.wait_for(PODS, one_is_ready, "two is ready", seconds=100)
        assert now() == 42 + 25, "the image is there already"


@virtual_time
async def test_pods_of_a_vanished_node_stay_until_they_are_collected() -> None:
    for pod_garbage in (None, QUARANTINE_SECONDS):
        async with workers(2, pod_garbage=pod_garbage) as (api, nodes):
            for name in nodes.names:
                await api.create(PODS, pod_manifest(name, aimed_at=name))
            await api.wait_for(PODS, lambda found: all(is_ready(item) for item in found), "both are ready")
            await nodes.remove("worker-02")
            await asyncio.sleep(30)
            assert len(await api.list(PODS)) == 2
            await asyncio.sleep(60)
            left = [item["metadata"]["name"] for item in await api.list(PODS)]
            assert left == (["worker-01"] if pod_garbage else ["worker-01", "worker-02"])


@virtual_time
async def test_the_nodes_survive_a_server_that_comes_and_goes() -> None:
    cluster = Cluster(clock)
    link = InProcess(cluster)
    async with Nodes(link, clock=clock) as nodes:
        await nodes.add("worker-01")
        link.up = False
        assert link.drop_watches() == 2
        api = Api(InProcess(cluster))
        await api.create(PODS, pod_manifest("one", aimed_at="worker-01"))
        await asyncio.sleep(60)
        assert not is_ready(await api.get(PODS, "one"))
        link.up = True
        await api.wait_for(PODS, one_is_ready, "one is ready")
