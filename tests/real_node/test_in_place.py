"""Updates in place where a real kubelet restarts real containers: the controller is a process on the machine."""

from __future__ import annotations

import pytest

from tests.beds.api import PODS, Object
from tests.beds.pods import node_of
from tests.beds.real_node import Manners
from tests.beds.real_node.patience import LONG
from tests.beds.real_node.workloads import cannot_pull
from tests.real_node.place import Place
from tests.real_node.rollouts import deployed, settled, update
from tests.system.in_place import container_of, identity, is_open, restarts

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("controller")]

IN_PLACE = {"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 1}


async def identities(place: Place) -> dict[str, tuple[str, ...]]:
    """Of the live pods: one that has ended may be there for a while beside its successor, until its kubelet lets it
    go."""
    live = [pod for pod in await place.pods() if "deletionTimestamp" not in pod["metadata"]]
    return {node_of(pod): identity(pod) for pod in live}


async def test_a_new_image_restarts_the_container_of_the_same_pod_one_node_at_a_time(place: Place) -> None:
    async with deployed(place, **IN_PLACE) as witness:
        witness.floor = len(place.workers) - 1
        before = await identities(place)
        await update(place, "agent:v2")
        await settled(place)
        pods = await place.pods()
        assert await identities(place) == before
        assert [restarts(pod) for pod in pods] == [1, 1, 1]
        assert all(is_open(pod) for pod in pods)
        assert await place.versions() == place.everywhere("v2")
    assert await place.warnings() == []


async def test_another_tag_of_the_same_bits_ends_too(place: Place) -> None:
    place.ours.registry.put("agent:v1-again", place.ours.images.agent("v1"))
    async with deployed(place, **IN_PLACE) as witness:
        witness.floor = len(place.workers) - 1
        before = await identities(place)
        await update(place, "agent:v1-again")
        await settled(place)
        assert await identities(place) == before
        assert [restarts(pod) for pod in await place.pods()] == [1, 1, 1]


async def test_an_image_that_cannot_be_pulled_costs_one_node_until_the_next_edit_heals_it(place: Place) -> None:
    place.ours.registry.behave("agent:bad", Manners(status=500))
    async with deployed(place, **IN_PLACE) as witness:
        witness.floor = len(place.workers) - 1
        before = await identities(place)
        await update(place, "agent:bad")
        await place.api.wait_for(
            PODS, lambda pods: any(map(cannot_pull, pods)), "the first new container has no image", seconds=LONG
        )
        await update(place, "agent:v1")
        await settled(place)
        assert await identities(place) == before
        assert sorted(restarts(pod) for pod in await place.pods()) == [0, 0, 1]
        assert await place.versions() == place.everywhere("v1")


async def test_two_edits_in_a_row_end_with_the_second(place: Place) -> None:
    """The second one comes while the kubelet pulls the first one's image."""
    place.ours.registry.put("agent:slow", place.ours.images.agent("slow"), Manners(delay=3.0))

    def begun(pods: list[Object]) -> bool:
        return any(pod["spec"]["containers"][0]["image"].endswith(":slow") for pod in pods)

    async with deployed(place, **IN_PLACE) as witness:
        witness.floor = len(place.workers) - 1
        before = await identities(place)
        await update(place, "agent:slow")
        await place.api.wait_for(PODS, begun, "the first pod was written to", seconds=LONG)
        await update(place, "agent:v2")
        await settled(place)
        assert await identities(place) == before
        assert await place.versions() == place.everywhere("v2")
        running = [container_of(pod)["containerID"] for pod in await place.pods()]
    assert len(set(running)) == len(place.workers)
