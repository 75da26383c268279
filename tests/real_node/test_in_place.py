"""Updates in place and resizes where containers really run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from tests.beds.api import DAEMONSETS, EVENTS, PODS, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.process import Controller, running
from tests.beds.objects import condition, node_of
from tests.beds.real_node.clients import asking
from tests.beds.real_node.node import LONG
from tests.beds.real_node.workloads import PORT, agent_set, container
from tests.real_node.bed import Bed, Cluster, deployed, deployed_as, settled, update
from tests.real_node.conftest import ACCOUNT
from tests.system.in_place import GATE, by_priority, container_of, identity, is_open, restarts

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("controller")]

IN_PLACE = {"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 1}


async def identities(bed: Bed) -> dict[str, tuple[str, ...]]:
    """Of the live pods: one that has ended may be there for a while beside its successor, until its kubelet lets it
    go."""
    live = [pod for pod in await bed.pods() if "deletionTimestamp" not in pod["metadata"]]
    return {node_of(pod): identity(pod) for pod in live}


async def test_labels_restart_nothing_and_an_image_one_container_at_a_time(bed: Bed) -> None:
    async with deployed(bed, **IN_PLACE) as witness:
        witness.floor = len(bed.workers)
        before = await identities(bed)
        await bed.api.patch(DAEMONSETS, "agent", {"spec": {"template": {"metadata": {"labels": {"team": "blue"}}}}})
        await settled(bed)
        pods = await bed.pods()
        assert {pod["metadata"]["labels"]["team"] for pod in pods} == {"blue"}
        assert [restarts(pod) for pod in pods] == [0, 0, 0]
        witness.floor = len(bed.workers) - 1
        await update(bed, "agent:v2")
        await settled(bed)
        pods = await bed.pods()
        assert await identities(bed) == before
        assert [restarts(pod) for pod in pods] == [1, 1, 1]
        assert all(is_open(pod) for pod in pods)
        assert await bed.versions() == bed.everywhere("v2")
    assert await bed.warnings() == []


GRACE, READY = 20, 3
"""Seconds: enough for a client to hear of it, and until a container is ready."""
KEYS = {"agent": "p_0", "first": "p_20", "second": "p_10"}


def in_place(image: str, **spec: Any) -> Object:
    """All pods at once."""
    new = agent_set(image, rollingUpdateType="InPlaceIfPossible", maxUnavailable="100%")
    new["spec"]["template"]["spec"] |= spec
    return new


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def test_with_a_grace_period_no_client_asks_a_restarted_pod(bed: Bed) -> None:
    """A client hears late that a pod is not ready any more; until then it gets its answers."""
    new = in_place("agent:v1")
    new["metadata"]["annotations"] = {"kruise-ds/in-place-grace-seconds": str(GRACE)}
    closed: dict[str, datetime] = {}

    def all_closed(pods: list[Object]) -> bool:
        for pod in pods:
            gate = condition(pod, GATE)
            if gate.get("status") == "False":
                closed[node_of(pod)] = moment(gate["lastTransitionTime"])
        return closed.keys() == {*bed.workers}

    async with (
        deployed_as(bed, new),
        asking(bed.ours, bed.api, "agent") as clients,
        asyncio.TaskGroup() as group,
    ):
        before = await identities(bed)
        group.create_task(bed.api.wait_for(PODS, all_closed, "every gate was closed", seconds=LONG))
        await update(bed, "agent:v2")
        await settled(bed)
        await clients.all_hear("v2")
        assert dict(clients.errors) == {}
        assert await identities(bed) == before
        ended = {node_of(pod): container_of(pod)["lastState"]["terminated"] for pod in await bed.pods()}
        waited = {node: moment(ended[node]["finishedAt"]) - closed[node] for node in closed}
        assert min(waited.values()) >= timedelta(seconds=GRACE), waited


def by_turns(image: str) -> list[Object]:
    """Three agents, of which the second and the third wait for the one before to be ready."""
    found = []
    for number, waits in enumerate(by_priority(image, **KEYS)):
        port = PORT + number
        one = container(image, PORT=str(port), READY_SECONDS=str(READY))
        one["readinessProbe"]["httpGet"]["port"] = port
        found.append({**one, "name": waits["name"], "env": [*one["env"], *waits["env"]]})
    return found


async def test_launch_priorities_are_restarted_one_after_the_other(bed: Bed) -> None:
    data = dict.fromkeys(KEYS.values(), "true")
    await bed.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "barrier"}, "data": data})
    async with deployed_as(bed, in_place("agent:v1", containers=by_turns("agent:v1"))):
        before = await identities(bed)
        template = {"spec": {"containers": by_turns("agent:v2")}}
        await bed.api.patch(DAEMONSETS, "agent", {"spec": {"template": template}})
        await settled(bed)
        pods = await bed.pods()
        assert await identities(bed) == before
        assert [[restarts(pod, name) for name in KEYS] for pod in pods] == [[1, 1, 1]] * len(pods)
        for pod in pods:
            first, second, agent = (
                moment(container_of(pod, name)["state"]["running"]["startedAt"])
                for name in ("first", "second", "agent")
            )
            assert second - first >= timedelta(seconds=READY), node_of(pod)
            assert agent - second >= timedelta(seconds=READY), node_of(pod)
        assert await bed.versions() == bed.everywhere("v2")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def controller(cluster: Cluster) -> AsyncIterator[Controller]:
    plane = cluster.plane
    kubeconfig = plane.kubeconfig_for(ACCOUNT) if isinstance(plane, ControlPlane) else plane.kubeconfig
    gate = "--feature-gates=InPlaceWorkloadVerticalScaling=true"
    async with running(plane.folder, kubeconfig, gate, secrets=(ACCOUNT.token,)) as started:
        yield started


def resources(cpu: str, memory: str = "32Mi") -> Object:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": "500m", "memory": "64Mi"}}


async def sized(bed: Bed) -> dict[str, tuple[str, ...]]:
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
    before = await sized(bed)
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
    before = await sized(bed)
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
