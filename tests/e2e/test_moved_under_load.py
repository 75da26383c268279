"""One morning of somebody new: 30 nodes in a busy cluster, a native DaemonSet becomes one of ours, gets a canary, is
rolled back and becomes a native one again, by what README.md and docs/migrate.md say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.beds.api import DAEMONSETS, NODES, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.plugin import Plugin
from tests.beds.installed.witness import Witness, witnessing
from tests.beds.installed.workspace import Workspace, bed_on, sample
from tests.beds.native import NATIVE, native_status
from tests.beds.pods import controller_of, image_of, is_live, node_of

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller", "beside")]

ON = tuple(f"node-{number:02}" for number in range(30))
CANARY = 8
OURS, THEIRS = "apps.kruise.io/v1beta1", "apps/v1"
REGISTRY = "registry.example.com"


def written(name: str, version: str, api_version: str) -> Object:
    document = sample("ds.demo.yaml")
    document["apiVersion"], document["metadata"]["name"] = api_version, name
    document["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}
    document["spec"]["template"]["spec"]["containers"][0].update(name="agent", image=f"{REGISTRY}/agent:{version}")
    return document


@asynccontextmanager
async def a_busy_cluster(plane: ControlPlane) -> AsyncIterator[None]:
    """As long as the block runs: two DaemonSets, one of each kind, are rolled out all the time, and nodes patched."""
    async with bed_on(plane) as others, asyncio.TaskGroup() as group:
        for kind in (OURS, THEIRS):
            busy = written("busy", "0", kind)
            busy["spec"]["updateStrategy"]["rollingUpdate"] = {"maxUnavailable": "50%"}
            await others.apply(busy)
        load = group.create_task(_changes(others), name="load")
        yield
        load.cancel()


async def _changes(others: Workspace) -> None:
    version = 0
    while True:
        version += 1
        container = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": f"busy:{version}"}]
        for kind in (DAEMONSETS, NATIVE):
            await others.api.patch(kind, "busy", container)
        for node in ON:
            beat = {"metadata": {"annotations": {"example.com/beat": str(version)}}}
            await others.api.patch(NODES, node, beat)


def images(witness: Witness) -> dict[str, str]:
    """What runs where."""
    return {node_of(pod): image_of(pod).rpartition(":")[2] for pod in witness.now.values() if is_live(pod)}


def kinds(witness: Witness) -> set[str]:
    return {controller_of(pod)["apiVersion"] for pod in witness.now.values()}


async def test_native_to_ours_to_a_canary_and_all_the_way_back(bed: Workspace, plane: ControlPlane) -> None:
    plugin = Plugin(plane.kubectl, plane.kubeconfig, bed.namespace)
    await bed.workers(*ON)
    for version in ("v1", "v2"):
        await bed.apply(written("node-agent", version, THEIRS))
    await native_status(bed.api, "node-agent", numberAvailable=len(ON), updatedNumberScheduled=len(ON))
    async with a_busy_cluster(plane), witnessing(bed.api) as witness:
        await witness.up_to_date()
        started, witness.floor = set(witness.ever), len(ON)

        await plugin.ok("migrate", "node-agent", "-y")
        await witness.until(lambda: kinds(witness) == {OURS}, "all pods are ours")
        assert set(witness.ever) == started, "no pod was started"

        witness.floor = len(ON) - 1
        image = f"agent={REGISTRY}/agent:v3"
        await plugin.ok("set-image", "node-agent", image, "--hold-at", str(len(ON) - CANARY), "--wait", "-y")
        canary = {node for node, version in images(witness).items() if version == "v3"}
        assert canary == {*ON[-CANARY:]}, "by name, descending"

        await plugin.ok("rollback", "node-agent", "-y", "--wait")
        assert set(images(witness).values()) == {"v2"}
        assert {witness.ever[uid] for uid in witness.ever.keys() - started} == canary, "nobody else had a new pod"
        await witness.up_to_date()
        settled, witness.floor = set(witness.ever), len(ON)

        await plugin.ok("migrate", "node-agent", "--to-native", "-y")
        await native_status(bed.api, "node-agent", numberAvailable=len(ON), updatedNumberScheduled=len(ON))
        await witness.until(lambda: kinds(witness) == {THEIRS}, "all pods are the native one's")
        assert set(witness.ever) == settled, "no pod was started"
        found = await bed.api.get(NATIVE, "node-agent")
        assert found["spec"]["updateStrategy"]["type"] == "RollingUpdate"
    assert await bed.api.list(DAEMONSETS) == []
