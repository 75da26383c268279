"""Updates in place where a real kubelet restarts real containers: the controller is a process on the machine."""

from __future__ import annotations

import pytest

from tests.beds.pods import node_of
from tests.real_node.place import Place
from tests.real_node.rollouts import deployed, settled, update

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("controller")]


async def test_a_new_image_restarts_the_container_of_the_same_pod_one_node_at_a_time(place: Place) -> None:
    async with deployed(place, rollingUpdateType="InPlaceIfPossible", maxUnavailable=1) as witness:
        witness.floor = len(place.workers) - 1
        before = {node_of(pod): identity(pod) for pod in await place.pods()}
        await update(place, "agent:v2")
        await settled(place)
        pods = await place.pods()
        assert {node_of(pod): identity(pod) for pod in pods} == before
        assert [restarts(pod) for pod in pods] == [1, 1, 1]
        assert await place.versions() == place.everywhere("v2")
    assert await place.warnings() == []


def identity(pod: object) -> tuple[str, str, str]:
    assert isinstance(pod, dict)
    return pod["metadata"]["name"], pod["metadata"]["uid"], pod["status"]["podIP"]


def restarts(pod: object) -> int:
    assert isinstance(pod, dict)
    return int(pod["status"]["containerStatuses"][0]["restartCount"])
