"""Cpu and memory changed in place by a real kubelet, with the feature gate for that."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.beds.api import DAEMONSETS, EVENTS, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.process import Controller, running
from tests.beds.objects import node_of
from tests.beds.real_node.node import LONG
from tests.beds.real_node.workloads import agent_set, container
from tests.real_node.bed import Bed, Cluster
from tests.real_node.conftest import ACCOUNT
from tests.real_node.rollouts import settled
from tests.system.in_place import container_of, identity, restarts

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("controller")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def controller(cluster: Cluster) -> AsyncIterator[Controller]:
    plane = cluster.plane
    kubeconfig = plane.kubeconfig_for(ACCOUNT) if isinstance(plane, ControlPlane) else plane.kubeconfig
    gate = "--feature-gates=InPlaceWorkloadVerticalScaling=true"
    async with running(plane.folder, kubeconfig, gate, secrets=(ACCOUNT.token,)) as started:
        yield started


def resources(cpu: str, memory: str = "32Mi") -> Object:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": "500m", "memory": "64Mi"}}


async def deployed(bed: Bed) -> dict[str, tuple[str, ...]]:
    new = agent_set("agent:v1", rollingUpdateType="InPlaceIfPossible", maxUnavailable=1)
    new["spec"]["template"]["spec"]["containers"][0]["resources"] = resources("10m")
    await bed.apply(new)
    await settled(bed)
    return {node_of(pod): identity(pod) for pod in await bed.pods()}


async def edit(bed: Bed, image: str, wanted: Object, **labels: str) -> None:
    one = {**container(image), "resources": wanted}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [one]}}
    await bed.api.patch(DAEMONSETS, "agent", {"spec": {"template": template}})


async def test_resources_restart_nothing_and_beside_an_image_once(bed: Bed) -> None:
    before = await deployed(bed)
    await edit(bed, "agent:v1", resources("15m"))
    await settled(bed)
    pods = await bed.pods()
    assert [(container_of(pod)["resources"], restarts(pod)) for pod in pods] == [(resources("15m"), 0)] * 3
    await edit(bed, "agent:v2", resources("20m"), team="blue")
    await settled(bed)
    pods = await bed.pods()
    assert {node_of(pod): identity(pod) for pod in pods} == before
    assert [(container_of(pod)["resources"], restarts(pod)) for pod in pods] == [(resources("20m"), 1)] * 3
    assert {pod["metadata"]["labels"]["team"] for pod in pods} == {"blue"}
    assert await bed.versions() == bed.everywhere("v2")


async def test_what_no_node_has_is_refused_until_the_next_edit(bed: Bed) -> None:
    before = await deployed(bed)
    huge = {"requests": {"cpu": "900", "memory": "32Mi"}, "limits": {"cpu": "900", "memory": "64Mi"}}
    await edit(bed, "agent:v1", huge)
    await bed.api.wait_for(
        EVENTS, lambda told: any(one["reason"] == "ResizeRefused" for one in told), "it is told", seconds=LONG
    )
    await edit(bed, "agent:v1", resources("20m"))
    await settled(bed)
    pods = await bed.pods()
    assert {node_of(pod): identity(pod) for pod in pods} == before
    assert [container_of(pod)["resources"] for pod in pods] == [resources("20m")] * 3
