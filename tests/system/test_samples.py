"""What manifests/samples promises in its comments, for the DaemonSets that people have."""

from __future__ import annotations

from tests.beds.api import DAEMONSETS, PODS
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.waves import UNREADY
from tests.beds.installed.workspace import sample
from tests.beds.nodes import Behaviour
from tests.beds.nodes.fleet import ZONE_LABEL
from tests.beds.objects import image_of, node_of
from tests.system.monitor import monitoring

NEW = "registry.example.com/new:2"
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
GPU = {"key": "example.com/gpu", "effect": "NoSchedule"}
NO_NETWORK = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}

WALK = 86_400.0
"""Seconds for all steps, and to spare."""


async def images(bed: Bed, name: str) -> list[str]:
    """The images of its pods, by descending names of nodes."""
    return [image_of(pod) for _, pod in sorted((await bed.pods(name)).items(), reverse=True)]


async def updated(bed: Bed, name: str) -> list[str]:
    """The nodes whose pod has the new image."""
    return sorted(node for node, pod in (await bed.pods(name)).items() if image_of(pod) == NEW)


async def soaks(bed: Bed, name: str, nodes: int, minutes: float) -> list[str]:
    """Wait for a step of so many nodes, and until a minute before its end. Returns its nodes."""
    await bed.status(name, updated=nodes)
    await bed.phase("Soaking", name)
    await bed.idle(minutes * 60.0 - 60.0)
    found = await updated(bed, name)
    assert len(found) == nodes
    return found


async def test_a_log_agent_is_everywhere_and_updated_in_place_by_steps(bed: Bed) -> None:
    bed.patience = WALK
    nodes = await bed.add_nodes(39)
    await bed.nodes.add("control-plane", taints=[CONTROL_PLANE])
    await bed.deploy(sample("ds.log-agent.yaml"))
    before = uids(await bed.runs_on(*nodes, "control-plane", name="log-agent"))
    async with monitoring(bed, name="log-agent", most_unavailable=4):
        await bed.set_image(NEW, "log-agent")
        await soaks(bed, "log-agent", 2, 10)
        await soaks(bed, "log-agent", 4, 60)
        await bed.settled("log-agent")
    assert uids(await bed.runs_on(*nodes, "control-plane", name="log-agent", image=NEW)) == before


async def test_a_log_agent_whose_image_is_missing_gets_its_former_version_back(bed: Bed) -> None:
    bed.patience = WALK
    nodes = await bed.add_nodes(20)
    await bed.deploy(sample("ds.log-agent.yaml"))
    (old,) = {*await images(bed, "log-agent")}
    bed.nodes.behave("*", Behaviour(missing_images=(NEW,)))
    async with monitoring(bed, name="log-agent", most_unavailable=2):
        await bed.set_image(NEW, "log-agent")
        await bed.phase("Aborted", "log-agent")
        await bed.runs_on(*nodes, name="log-agent", image=old)


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


async def test_a_network_plugin_starts_without_network_and_is_updated_zone_by_zone(bed: Bed) -> None:
    bed.patience = WALK
    for number in range(9):
        zone = {ZONE_LABEL: f"zone-{number % 3}"}
        await bed.nodes.add(f"node-{number}", labels=zone, taints=[NO_NETWORK])
    await bed.deploy(sample("ds.network.yaml"))
    async with monitoring(bed, name="network", most_unavailable=2):
        await bed.set_image(NEW, "network")
        assert await soaks(bed, "network", 1, 30) == ["node-6"]
        assert await soaks(bed, "network", 3, 120) == ["node-0", "node-3", "node-6"]
        assert await soaks(bed, "network", 6, 120) == ["node-0", "node-1", "node-3", "node-4", "node-6", "node-7"]
        await bed.settled("network")


async def test_a_network_plugin_that_gets_no_network_stops(bed: Bed) -> None:
    bed.patience = WALK
    await bed.add_nodes(6)
    await bed.deploy(sample("ds.network.yaml"))
    bed.nodes.behave("*", UNREADY)
    await bed.set_image(NEW, "network")
    assert "for longer than 3m" in (await bed.phase("Aborted", "network"))["abortedMessage"]
    await bed.idle(3600.0)
    assert len(await updated(bed, "network")) == 1


async def test_an_agent_with_a_canary_waits_for_an_approval(bed: Bed) -> None:
    bed.patience = WALK
    await bed.add_nodes(19)
    await bed.nodes.add("first", labels={"pool": "canary"})
    await bed.deploy(sample("ds.canary.yaml"))
    await bed.set_image(NEW, "node-agent")
    assert "first" in await soaks(bed, "node-agent", 2, 15)
    await bed.phase("AwaitingApproval", "node-agent")
    revision = (await bed.daemonset("node-agent"))["status"]["updateRevision"]
    approval = {"metadata": {"annotations": {"kruise-ds/approve": f"{revision}/1"}}}
    await bed.api.patch(DAEMONSETS, "node-agent", approval)
    await bed.settled("node-agent")
