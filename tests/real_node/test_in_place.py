"""Updates in place where a real kubelet restarts real containers: the controller is a process on the machine."""

from __future__ import annotations

import pytest

from tests.beds.api import PODS, Object
from tests.beds.pods import node_of
from tests.beds.real_node import Manners
from tests.beds.real_node.patience import LONG
from tests.beds.real_node.workloads import cannot_pull
from tests.real_node.bed import Bed
from tests.real_node.rollouts import deployed, settled, update
from tests.system.in_place import container_of, identity, is_open, restarts

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("controller")]

IN_PLACE = {"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 1}


async def identities(bed: Bed) -> dict[str, tuple[str, ...]]:
    """Of the live pods: one that has ended may be there for a while beside its successor, until its kubelet lets it
    go."""
    live = [pod for pod in await bed.pods() if "deletionTimestamp" not in pod["metadata"]]
    return {node_of(pod): identity(pod) for pod in live}


async def test_a_new_image_restarts_one_container_at_a_time_in_the_same_pods(bed: Bed) -> None:
    async with deployed(bed, **IN_PLACE) as witness:
        witness.floor = len(bed.workers) - 1
        before = await identities(bed)
        await update(bed, "agent:v2")
        await settled(bed)
        pods = await bed.pods()
        assert await identities(bed) == before
        assert [restarts(pod) for pod in pods] == [1, 1, 1]
        assert all(is_open(pod) for pod in pods)
        assert await bed.versions() == bed.everywhere("v2")
    assert await bed.warnings() == []


async def test_another_tag_of_the_same_bits_ends_too(bed: Bed) -> None:
    bed.ours.registry.put("agent:v1-again", bed.ours.images.agent("v1"))
    async with deployed(bed, **IN_PLACE) as witness:
        witness.floor = len(bed.workers) - 1
        before = await identities(bed)
        await update(bed, "agent:v1-again")
        await settled(bed)
        assert await identities(bed) == before
        assert [restarts(pod) for pod in await bed.pods()] == [1, 1, 1]


async def test_an_unpullable_image_costs_one_node_until_the_next_edit(bed: Bed) -> None:
    bed.ours.registry.behave("agent:bad", Manners(status=500))
    async with deployed(bed, **IN_PLACE) as witness:
        witness.floor = len(bed.workers) - 1
        before = await identities(bed)
        await update(bed, "agent:bad")
        await bed.api.wait_for(
            PODS, lambda pods: any(map(cannot_pull, pods)), "the first new container has no image", seconds=LONG
        )
        await update(bed, "agent:v1")
        await settled(bed)
        assert await identities(bed) == before
        assert sorted(restarts(pod) for pod in await bed.pods()) == [0, 0, 1]
        assert await bed.versions() == bed.everywhere("v1")


async def test_two_edits_in_a_row_end_with_the_second(bed: Bed) -> None:
    """The second one comes while the kubelet pulls the first one's image."""
    bed.ours.registry.put("agent:slow", bed.ours.images.agent("slow"), Manners(delay=3.0))

    def begun(pods: list[Object]) -> bool:
        return any(pod["spec"]["containers"][0]["image"].endswith(":slow") for pod in pods)

    async with deployed(bed, **IN_PLACE) as witness:
        witness.floor = len(bed.workers) - 1
        before = await identities(bed)
        await update(bed, "agent:slow")
        await bed.api.wait_for(PODS, begun, "the first pod was written to", seconds=LONG)
        await update(bed, "agent:v2")
        await settled(bed)
        assert await identities(bed) == before
        assert await bed.versions() == bed.everywhere("v2")
        running = [container_of(pod)["containerID"] for pod in await bed.pods()]
    assert len(set(running)) == len(bed.workers)
