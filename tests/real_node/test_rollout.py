"""A DaemonSet of ours where containers really run: the controller is a process on the machine."""

from __future__ import annotations

import pytest

from tests.beds.api import PODS
from tests.beds.pods import node_of
from tests.beds.real_node import Manners
from tests.beds.real_node.clients import asking
from tests.beds.real_node.patience import LONG
from tests.beds.real_node.workloads import cannot_pull
from tests.real_node.bed import Bed
from tests.real_node.rollouts import deployed, goes_node_by_node, served_by, settled, update

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("controller")]


async def test_a_rollout_leaves_one_node_at_a_time(bed: Bed) -> None:
    await goes_node_by_node(bed)


async def test_with_surge_every_node_is_served_all_the_time(bed: Bed) -> None:
    async with deployed(bed, maxSurge=1, maxUnavailable=0) as witness:
        witness.floor, witness.most_pairs = len(bed.workers), 1
        await update(bed, "agent:v2")
        await settled(bed)
        await bed.api.wait_for(
            PODS, lambda pods: len(pods) == len(bed.workers), "the old pods are gone", seconds=LONG
        )
        assert await bed.versions() == bed.everywhere("v2")
    assert await bed.warnings() == []


async def test_with_surge_no_client_waits(bed: Bed) -> None:
    """The program serves on after it was told to go, for longer than it takes until the last client knows."""
    cluster = bed.ours
    async with deployed(bed, maxSurge=1, maxUnavailable=0, environment={"STOP_SECONDS": "25"}) as witness:
        witness.most_pairs = 1
        async with asking(cluster, bed.api, "agent") as clients:
            await update(bed, "agent:v2")
            await settled(bed)
            await clients.all_hear("v2")
        assert clients.waited == {}
        assert clients.answers.keys() == {"v1", "v2"}


async def test_an_image_that_cannot_be_pulled_costs_one_node_and_no_more(bed: Bed) -> None:
    bed.ours.registry.behave("agent:bad", Manners(status=500))
    async with deployed(bed, maxUnavailable=1) as witness:
        witness.floor = len(bed.workers) - 1
        untouched = {node_of(pod): pod["metadata"]["uid"] for pod in await bed.pods()}
        await update(bed, "agent:bad")
        await bed.api.wait_for(
            PODS, lambda pods: any(map(cannot_pull, pods)), "the first new pod has no image", seconds=LONG
        )
        await update(bed, "agent:v1")
        await settled(bed)
        kept = [pod for pod in await bed.pods() if untouched[node_of(pod)] == pod["metadata"]["uid"]]
        assert len(kept) == 2
        assert await bed.versions() == bed.everywhere("v1")


async def test_a_node_that_loses_power_in_mid_rollout_is_updated_afterwards(bed: Bed) -> None:
    lost = bed.nodes["node-2"]
    async with deployed(bed, maxUnavailable=2) as witness:
        witness.floor = 0
        async with lost.without_power():
            await update(bed, "agent:v2")
            await bed.api.wait_for(
                PODS, lambda pods: served_by(pods, "v2") == {"node-1", "node-3"}, "the others have it", seconds=LONG
            )
        await settled(bed)
        assert await bed.versions() == bed.everywhere("v2")
