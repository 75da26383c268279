"""What manifests/samples promises in its comments, for the DaemonSets that people have."""

from __future__ import annotations

from tests.beds.api import PODS
from tests.beds.controller.bed import Bed, uids
from tests.beds.installed.workspace import sample
from tests.beds.objects import image_of, node_of
from tests.system.monitor import monitoring

NEW = "registry.example.com/new:2"
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
GPU = {"key": "example.com/gpu", "effect": "NoSchedule"}
NO_NETWORK = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}

WAVES = 600.0
"""Seconds for ten of them, each watched for half a minute, and to spare."""


async def images(bed: Bed, name: str) -> list[str]:
    """The images of its pods, by descending names of nodes."""
    return [image_of(pod) for _, pod in sorted((await bed.pods(name)).items(), reverse=True)]


async def test_a_log_agent_is_everywhere_and_updated_in_place_by_tenths(bed: Bed) -> None:
    bed.patience = WAVES
    nodes = await bed.add_nodes(19)
    await bed.nodes.add("control-plane", taints=[CONTROL_PLANE])
    await bed.deploy(sample("ds.log-agent.yaml"))
    before = uids(await bed.runs_on(*nodes, "control-plane", name="log-agent"))
    async with monitoring(bed, name="log-agent", most_unavailable=2):
        await bed.set_image(NEW, "log-agent")
        await bed.settled("log-agent")
    assert uids(await bed.runs_on(*nodes, "control-plane", name="log-agent", image=NEW)) == before


async def test_a_device_plugin_changes_where_its_pods_are_deleted(bed: Bed) -> None:
    await bed.nodes.add("labelled", labels={"example.com/gpu": ""}, taints=[GPU])
    await bed.nodes.add("typed", labels={"node.kubernetes.io/instance-type": "gpu-large"})
    await bed.nodes.add("plain")
    await bed.deploy(sample("ds.gpu-plugin.yaml"))
    before = await bed.runs_on("labelled", "typed", name="gpu-plugin")
    await bed.set_image(NEW, "gpu-plugin")
    await bed.seen("gpu-plugin")
    await bed.idle()
    assert uids(await bed.pods("gpu-plugin")) == uids(before)
    await bed.api.delete(PODS, before["typed"]["metadata"]["name"])
    await bed.status("gpu-plugin", updated=1, available=2)
    assert [node_of(pod) for pod in (await bed.pods("gpu-plugin")).values() if image_of(pod) == NEW] == ["typed"]


async def test_a_network_plugin_starts_without_network_and_waits(bed: Bed) -> None:
    bed.patience = WAVES
    for number in range(4):
        await bed.nodes.add(f"node-{number}", taints=[NO_NETWORK])
    await bed.deploy(sample("ds.network.yaml"))
    old = (await images(bed, "network"))[0]
    async with monitoring(bed, name="network", most_unavailable=1):
        await bed.set_image(NEW, "network")
        await bed.seen("network")
        await bed.idle()
        assert await images(bed, "network") == [old] * 4
        for partition, new in (("50%", 2), (0, 4)):
            await bed.edit({"updateStrategy": {"rollingUpdate": {"partition": partition}}}, "network")
            await bed.status("network", updated=new, available=4)
            assert await images(bed, "network") == [NEW] * new + [old] * (4 - new)
