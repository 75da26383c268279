"""The plugin's promises on a real API server by the real kubectl, judged by the pods and not by what it says."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.beds.api import DAEMONSETS, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.bed import Workspace, sample
from tests.beds.installed.plugin import Plugin
from tests.beds.installed.witness import Witness, witnessing
from tests.beds.nodes import Behaviour
from tests.beds.pods import is_live, node_of
from tests.e2e.conftest import OPERATOR, VIEWER

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller")]

NODES = tuple(f"{zone}-{number:02}" for zone in "abc" for number in range(1, 9))
SLOW = Behaviour(ready=0.4)
BROKEN = Behaviour(missing_images=("*:v2",))
"""The new version never starts; what runs is not disturbed."""


@pytest.fixture
def plugin(bed: Workspace, plane: ControlPlane) -> Plugin:
    return Plugin(plane.kubectl, plane.kubeconfig, bed.namespace)


@asynccontextmanager
async def deployed(bed: Workspace, **rolling: Any) -> AsyncIterator[Witness]:
    """Version v1 on 24 nodes in three zones, and a witness who has seen it."""
    for name in NODES:
        await bed.nodes.add(name, labels={"topology.kubernetes.io/zone": f"zone-{name[0]}"})
    demo = sample("ds.demo.yaml")
    demo["spec"]["updateStrategy"] = {"rollingUpdate": rolling}
    demo["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.com/demo:v1"
    async with witnessing(bed.api) as witness:
        await bed.apply(demo)
        await bed.settled(len(NODES))
        await witness.until(lambda: len(witness.ready) == len(NODES), "all first pods seen")
        yield witness


def pods_by_node(witness: Witness) -> dict[str, tuple[str, str]]:
    """Node -> name and uid of its live pod."""
    return {
        node_of(pod): (pod["metadata"]["name"], pod["metadata"]["uid"])
        for pod in witness.now.values()
        if is_live(pod)
    }


def nodes_with(witness: Witness, image: str) -> set[str]:
    live = [pod for pod in witness.now.values() if is_live(pod)]
    return {node_of(pod) for pod in live if pod["spec"]["containers"][0]["image"].endswith(f":{image}")}


async def spec_of(bed: Workspace) -> Object:
    (found,) = await bed.api.list(DAEMONSETS)
    spec: Object = found["spec"]
    return spec


async def test_pause_in_mid_rollout_stops_within_one_pod_and_resume_goes_on(bed: Workspace, plugin: Plugin) -> None:
    async with deployed(bed, maxUnavailable=1) as witness:
        bed.nodes.behave("*", SLOW)
        await plugin.ok("set-image", "demo", "*=registry.example.com/demo:v2")
        await witness.until(lambda: len(witness.retired) >= 5, "the fifth old pod goes")
        out = await plugin.ok("pause", "demo", "--reason", "CVE triage")
        gone = len(witness.retired)
        assert out.startswith("daemonset.apps.kruise.io/demo paused\n")
        await bed.progressing("Paused")
        updated = (await bed.status(numberAvailable=len(NODES)))["updatedNumberScheduled"]
        await witness.until(
            lambda: len(witness.ready) == len(NODES) and len(nodes_with(witness, "v2")) == updated, "all are served"
        )
        assert len(witness.retired) <= gone + 1, "at most the pod that was decided on before the pause was seen"
        stopped = len(witness.retired)
        ended = await plugin.run("status", "demo", "-w", "--timeout=30s")
        assert ended.code == 5, str(ended)
        assert len(witness.retired) == stopped, "nothing moved while it was paused"

        await plugin.ok("resume", "demo")
        ended = await plugin.run("status", "demo", "-w", "--timeout=80s")
        assert ended.code == 0, str(ended)
        assert nodes_with(witness, "v2") == {*NODES}
        assert Counter(witness.retired.values()) == Counter(NODES), "each old pod went once"


async def test_partition_8_of_24_leaves_exactly_8_old_and_updates_16(bed: Workspace, plugin: Plugin) -> None:
    async with deployed(bed, maxUnavailable=4) as witness:
        await plugin.ok("set-image", "demo", "*=registry.example.com/demo:v2", "--hold-at", "24")
        ended = await plugin.run("status", "demo", "-w", "--timeout=30s")
        assert ended.code == 0, str(ended)
        assert not witness.retired, "held before any node started"
        await plugin.ok("set-partition", "demo", "8")
        ended = await plugin.run("status", "demo", "-w", "--timeout=60s")
        assert ended.code == 0, str(ended)
        assert nodes_with(witness, "v1") == set(NODES[:8]), "names descending: the first eight stay"
        assert nodes_with(witness, "v2") == set(NODES[8:])
        assert Counter(witness.retired.values()) == Counter(NODES[8:])
        ended = await plugin.run("status", "demo", "-w", "--require-full", "--timeout=30s")
        assert ended.code == 5, str(ended)


@pytest.mark.parametrize("broken", [False, True], ids=["healthy canary", "broken canary"])
async def test_rollback_of_a_canary_moves_exactly_the_canary_back(
    bed: Workspace, plugin: Plugin, broken: bool
) -> None:
    """Under a partition, giving back the old template alone would move nobody."""
    async with deployed(bed, maxUnavailable=2, partition=24) as witness:
        before = pods_by_node(witness)
        if broken:
            bed.nodes.behave("*", BROKEN)
        await plugin.ok("set-image", "demo", "*=registry.example.com/demo:v2", "--hold-at", "18")
        expected = 2 if broken else 6
        await witness.until(lambda: len(nodes_with(witness, "v2")) == expected, f"{expected} canary nodes")
        if not broken:
            await bed.progressing("PartitionReached")
        canary = nodes_with(witness, "v2")
        out = await plugin.ok("rollback", "demo")
        assert out.startswith("daemonset.apps.kruise.io/demo rolled back to revision 1"), out
        ended = await plugin.run("status", "demo", "-w", "--timeout=60s")
        assert ended.code == 0, str(ended)
        spec = await spec_of(bed)
        assert spec["updateStrategy"]["rollingUpdate"]["partition"] == 0
        assert spec["template"]["spec"]["containers"][0]["image"] == "registry.example.com/demo:v1"
        assert nodes_with(witness, "v1") == {*NODES}
        after = pods_by_node(witness)
        assert {node for node in NODES if after[node] != before[node]} == canary, "names and uids of all others stay"


async def test_an_operator_needs_no_more_than_their_role(bed: Workspace, plane: ControlPlane) -> None:
    await bed.kubectl(
        "create",
        "clusterrolebinding",
        f"operator-{bed.namespace}",
        "--clusterrole=kruise-ds-operator",
        f"--user={OPERATOR.name}",
    )
    plugin = Plugin(plane.kubectl, plane.kubeconfig_for(OPERATOR), bed.namespace)
    async with deployed(bed, maxUnavailable=4) as witness:
        first = await plugin.ok("set-image", "demo", "*=registry.example.com/demo:v2", "--hold-at=22")
        assert first.splitlines()[0] == "daemonset.apps.kruise.io/demo image updated, partition 0 -> 22"
        assert (await plugin.run("status", "demo", "-w", "--timeout=30s")).code == 0
        for verb in ("list", "version"):
            await plugin.ok(verb)
        for verb in ("status", "nodes", "history", "diff", "plan", "pause", "resume"):
            await plugin.ok(verb, "demo")
        await plugin.ok("set-partition", "demo", "20")
        await plugin.ok("promote", "demo", "--to=18", "--force")
        await plugin.ok("rollback", "demo")
        assert (await plugin.run("status", "demo", "-w", "--timeout=60s")).code == 0
        await plugin.ok("restart", "demo")
        assert (await plugin.run("status", "demo", "-w", "--timeout=60s")).code == 0
        assert nodes_with(witness, "v1") == {*NODES}
    (found,) = await bed.api.list(DAEMONSETS)
    noted = json.loads(found["metadata"]["annotations"]["kruise-ds/last-action"])
    assert (noted["verb"], noted["by"]) == ("restart", OPERATOR.name)


async def test_whoever_may_only_look_is_refused_in_words_they_can_act_on(bed: Workspace, plane: ControlPlane) -> None:
    for role in ("view", "kruise-ds-view"):
        await bed.kubectl("create", "rolebinding", role, f"--clusterrole={role}", f"--user={VIEWER.name}")
    plugin = Plugin(plane.kubectl, plane.kubeconfig_for(VIEWER), bed.namespace)
    async with deployed(bed, maxUnavailable=4, partition=24) as witness:
        edited = {"spec": {"template": {"metadata": {"labels": {"ver": "v2"}}}}}
        await bed.kubectl("patch", "ads", "demo", "--type=merge", f"-p={json.dumps(edited)}")
        await bed.progressing("PartitionReached")
        await plugin.ok("list")
        for verb in ("status", "nodes", "history", "diff", "plan"):
            await plugin.ok(verb, "demo")
        for words in (
            ("pause", "demo"),
            ("set-partition", "demo", "0"),
            ("promote", "demo", "--full", "--force"),
            ("rollback", "demo"),
            ("restart", "demo"),
            ("set-image", "demo", "*=registry.example.com/demo:v3"),
        ):
            ran = await plugin.run(*words)
            assert ran.code == 1, str(ran)
            assert "Error from server (Forbidden): daemonsets.apps.kruise.io" in ran.err, str(ran)
            needed = f'needed: patch daemonsets.apps.kruise.io in "{bed.namespace}"; '
            assert f"{needed}ask for ClusterRole kruise-ds-operator" in ran.err, str(ran)
            assert "Traceback" not in ran.err, str(ran)
        assert not witness.retired, "nothing happened"


async def test_a_plan_is_what_then_happens(bed: Workspace, plugin: Plugin) -> None:
    async with deployed(bed, maxUnavailable=3, partition=24) as witness:
        bed.nodes.behave("*", SLOW)
        await plugin.ok("set-image", "demo", "*=registry.example.com/demo:v2", "--hold-at", "24")
        planned = json.loads(await plugin.ok("plan", "demo", "--partition=9", "--waves=0", "-o", "json"))
        order = [move["node"] for wave in planned["waves"] for move in wave["moves"]]
        assert len(order) == 15
        await plugin.ok("set-partition", "demo", "9")
        ended = await plugin.run("status", "demo", "-w", "--timeout=60s")
        assert ended.code == 0, str(ended)
        assert set(witness.retired.values()) == set(order)
        for place, node in enumerate(witness.retired.values()):
            assert abs(order.index(node) - place) < 3, f"{node} went as number {place}, not {order.index(node)}"


async def test_status_follows_to_the_end_in_json_lines(bed: Workspace, plugin: Plugin) -> None:
    async with deployed(bed, maxUnavailable=4) as witness:
        bed.nodes.behave("*", SLOW)
        watching = asyncio.create_task(plugin.run("status", "demo", "-w", "-o", "json", "--timeout=60s"))
        await plugin.ok("set-image", "demo", "*=registry.example.com/demo:v2")
        second = await plugin.run("status", "demo", "-w", "-o", "json", "--timeout=60s")
        first = await watching
        assert first.code == second.code == 0, f"{first}\n{second}"
        lines = [json.loads(line) for line in second.out.splitlines()]
        assert lines[-1]["phase"] == "Healthy", lines[-1]
        for one in lines:
            nodes = one["nodes"]
            parts = ("updated", "updating", "failing", "next", "old", "missing")
            assert sum(nodes[part] for part in parts) == nodes["desired"] == 24, one
        updated = [one["nodes"]["updated"] for one in lines]
        assert updated == sorted(updated), "it never goes back"
        assert nodes_with(witness, "v2") == {*NODES}
