"""Pods without traffic for the sake of an update in place whose image is not there after all: another edit came."""

from __future__ import annotations

import asyncio

import pytest

from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, V3
from tests.beds.pods import is_ready
from tests.system.in_place import in_place, restarts, runs, with_grace
from tests.system.monitor import monitoring

SLOW, MISSING = Behaviour(pull=100.0), Behaviour(missing_images=(V3,))


@pytest.mark.parametrize("node", [SLOW, MISSING], ids=["is slow", "is missing"])
async def test_an_edit_in_the_grace_period_whose_image(pulls: Bed, node: Behaviour) -> None:
    """The pod gets its traffic back until its turn comes again, which begins with a grace period of its own."""
    nodes = await pulls.deploy(with_grace(30), nodes=2)
    await pulls.set_image(V2)
    await pulls.status(available=1)
    pulls.nodes.behave("*", node)
    await pulls.set_image(V3)
    await pulls.status(available=2)
    await asyncio.sleep(90)
    pods = await pulls.pods()
    assert [(is_ready(pod), runs(pod, V1), restarts(pod)) for pod in pods.values()] == [(True, True, 0)] * 2
    pulls.nodes.behave("*")
    async with monitoring(pulls, most_unavailable=1):
        await pulls.runs_on(*nodes, image=V3)
    assert [restarts(pod) for pod in (await pulls.pods()).values()] == [1, 1], "none went through V2"


async def test_an_edit_while_a_pod_is_restarted_whose_image_is_missing(pulls: Bed) -> None:
    """The restart comes to its end, and the pod serves with the image of the edit before."""
    await pulls.add_nodes(2)
    pulls.nodes.behave("*", Behaviour(terminate=20.0))
    await pulls.deploy(in_place())
    await pulls.set_image(V2)
    await pulls.status(available=1)
    pulls.nodes.behave("*", Behaviour(terminate=20.0, pulls={V3: 40.0}, missing_images=(V3,)))
    await pulls.set_image(V3)
    await asyncio.sleep(300)
    pods = await pulls.pods()
    assert all(is_ready(pod) for pod in pods.values())
    assert sorted(restarts(pod) for pod in pods.values()) == [0, 1], "V2 runs on one node, and V1 on the other"
