"""`kubectl apply --server-side -k manifests/overlays/default`: our own image in pods, as users run it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.beds.objects import node_of
from tests.beds.real_node.node import LONG
from tests.beds.real_node.workloads import Installation, installed
from tests.real_node.bed import Bed, Cluster, deployed, ours, served_by, settled, update

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(cluster: Cluster, controller_image: Path | None) -> AsyncIterator[Installation]:
    """The overlay, applied once for the tests here; each leaves two replicas Ready."""
    if controller_image is not None:
        async with asyncio.TaskGroup() as loading:
            for node in ours(cluster).nodes.values():
                loading.create_task(node.load(controller_image))
    async with installed(cluster) as here:
        await here.replicas()
        yield here


async def test_two_replicas_run_apart_with_no_more_rights_than_they_need(
    cluster: Cluster, site: Installation
) -> None:
    nodes = ours(cluster).nodes
    replicas = await site.replicas()
    assert len({node_of(pod) for pod in replicas}) == 2, "the scheduler has spread them"
    for pod in replicas:
        node = nodes[node_of(pod)]
        status = await node.run("sh", "-c", "cat /proc/$(pgrep -of bin/kruise-ds-controller)/status")
        facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert facts["Uid"].split() == ["65532"] * 4
        assert facts["NoNewPrivs"] == "1"
        assert facts["Seccomp"] == "2", "filtered"
        assert int(facts["CapEff"], 16) == int(facts["CapBnd"], 16) == 0
        mounts = await node.run("sh", "-c", "cat /proc/$(pgrep -of bin/kruise-ds-controller)/mounts")
        (root,) = [line.split() for line in mounts.splitlines() if line.split()[1] == "/"]
        assert "ro" in root[3].split(",")
    assert await site.warnings() == []


async def test_restarted_in_mid_rollout_it_goes_on(site: Installation, bed: Bed) -> None:
    before = {pod["metadata"]["name"] for pod in await site.replicas()}
    async with deployed(bed, maxUnavailable=1) as witness:
        witness.floor = len(bed.workers) - 1
        await update(bed, "agent:v2")
        await witness.until(lambda: bool(witness.retired), "the rollout has begun", LONG)
        await site.kubectl("rollout", "restart", "deployment/kruise-ds-controller")
        await site.kubectl("rollout", "status", "deployment/kruise-ds-controller", f"--timeout={LONG:.0f}s")
        await settled(bed)
        assert await bed.versions() == bed.everywhere("v2")
    assert not before & {pod["metadata"]["name"] for pod in await site.replicas()}


async def test_when_the_leaders_node_loses_power_the_other_one_goes_on(site: Installation, bed: Bed) -> None:
    nodes = bed.nodes
    await site.replicas()
    leader = await site.leader()
    node = nodes[node_of(leader)]
    async with deployed(bed, maxUnavailable=2) as witness:
        witness.floor = 0
        async with node.without_power():
            await update(bed, "agent:v2")
            await site.leader(but=leader["metadata"]["name"])
            others = bed.everywhere("v2").keys() - {node.name}
            await witness.until(
                lambda: others <= served_by(list(witness.now.values()), "v2"), "both others have it", LONG
            )
        await settled(bed)
        assert await bed.versions() == bed.everywhere("v2")
    await site.replicas()
