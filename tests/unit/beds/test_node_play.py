"""The played nodes in virtual time, on a simulated cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.beds.api import NODES, PODS, Api, Object
from tests.beds.nodes import INSTANT, Behaviour, Nodes
from tests.beds.nodes.fleet import ZONE_LABEL, add_workers
from tests.beds.nodes.scheduler import QUARANTINE_SECONDS
from tests.beds.objects import is_ready, pod
from tests.beds.simulator import Cluster, InProcess
from tests.beds.virtual_time import clock, virtual_time


@asynccontextmanager
async def workers(
    count: int, behaviour: Behaviour = INSTANT, *, pod_garbage: float | None = None
) -> AsyncIterator[tuple[Api, Nodes]]:
    cluster = Cluster(clock)
    async with Nodes(InProcess(cluster), behaviour=behaviour, clock=clock, pod_garbage=pod_garbage) as nodes:
        await add_workers(nodes, count)
        yield Api(InProcess(cluster)), nodes


def now() -> float:
    return asyncio.get_running_loop().time()


def one_is_ready(found: list[Object]) -> bool:
    return any(is_ready(item) for item in found)


@virtual_time
async def test_workers_are_spread_over_three_zones() -> None:
    async with workers(7) as (api, nodes):
        assert nodes.names == [f"worker-{number:02d}" for number in range(1, 8)]
        found = await api.list(NODES)
        zones = [node["metadata"]["labels"][ZONE_LABEL] for node in found]
        assert zones == ["zone-a", "zone-b", "zone-c", "zone-a", "zone-b", "zone-c", "zone-a"]


@virtual_time
async def test_a_start_takes_the_time_that_the_behaviour_says() -> None:
    async with workers(1, Behaviour(pull=10, start=5, ready=20, terminate=7)) as (api, _):
        await api.create(PODS, pod("one", aimed_at="worker-01"))
        await api.wait_for(PODS, one_is_ready, "one is ready", seconds=100)
        assert now() == 35
        await api.delete(PODS, "one")
        await api.wait_for(PODS, lambda found: not found, "one is gone", seconds=100)
        assert now() == 42
        await api.create(PODS, pod("two", aimed_at="worker-01"))
        await api.wait_for(PODS, one_is_ready, "two is ready", seconds=100)
        assert now() == 42 + 25, "the image is there already"


@virtual_time
async def test_a_crashing_container_comes_back_after_its_back_off() -> None:
    async with workers(1, Behaviour(crash=30, back_off=10)) as (api, _):
        await api.create(PODS, pod("one", aimed_at="worker-01"))
        await asyncio.sleep(100)
        found = await api.get(PODS, "one")
        assert found["status"]["containerStatuses"][0]["restartCount"] == 2


@virtual_time
async def test_a_change_of_behaviour_meets_pods_that_are_there() -> None:
    async with workers(2, Behaviour(ready=None)) as (api, nodes):
        for name in nodes.names:
            await api.create(PODS, pod(name, aimed_at=name))
        await asyncio.sleep(60)
        nodes.behave("worker-02", INSTANT)
        found = await api.wait_for(PODS, one_is_ready, "one is ready")
        assert [item["metadata"]["name"] for item in found if is_ready(item)] == ["worker-02"]
        nodes.behave("*", INSTANT)
        await api.wait_for(PODS, lambda found: all(is_ready(item) for item in found), "both are ready")


@virtual_time
async def test_pods_of_a_vanished_node_stay_until_somebody_collects_them() -> None:
    for pod_garbage in (None, QUARANTINE_SECONDS):
        async with workers(2, pod_garbage=pod_garbage) as (api, nodes):
            for name in nodes.names:
                await api.create(PODS, pod(name, aimed_at=name))
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
        await api.create(PODS, pod("one", aimed_at="worker-01"))
        await asyncio.sleep(60)
        assert not is_ready(await api.get(PODS, "one"))
        link.up = True
        await api.wait_for(PODS, one_is_ready, "one is ready")
