"""The plugin's promises on a real API server by the real kubectl, judged by the pods and not by what it says."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.beds.api import DAEMONSETS
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.plugin import Plugin
from tests.beds.installed.unhurried import programs_in
from tests.beds.installed.witness import Witness, witnessing
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.nodes import Behaviour
from tests.beds.pods import is_live, node_of
from tests.e2e.conftest import OPERATOR, VIEWER

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller")]

NODES = tuple(f"{zone}-{number:02}" for zone in "abc" for number in range(1, 9))
FEW = ("a-01", "a-02", "b-01", "b-02", "c-01", "c-02")
HALF_WAY = "b-02"
"""The third of them in the order of updates."""


@asynccontextmanager
async def deployed(bed: Workspace, nodes: Sequence[str], **rolling: Any) -> AsyncIterator[Witness]:
    """Version v1 on nodes in three zones, and a witness who has seen it."""
    for name in nodes:
        await bed.nodes.add(name, labels={"topology.kubernetes.io/zone": f"zone-{name[0]}"})
    demo = sample("ds.demo.yaml")
    demo["spec"]["updateStrategy"] = {"rollingUpdate": rolling}
    demo["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.com/demo:v1"
    async with witnessing(bed.api) as witness:
        await bed.apply(demo)
        await bed.settled(len(nodes))
        await witness.until(lambda: len(witness.ready) == len(nodes), "all first pods seen")
        yield witness


def nodes_with(witness: Witness, image: str) -> set[str]:
    live = [pod for pod in witness.now.values() if is_live(pod)]
    return {node_of(pod) for pod in live if pod["spec"]["containers"][0]["image"].endswith(f":{image}")}


async def test_pause_in_mid_rollout_stops_it_and_resume_goes_on(bed: Workspace, plugin: Plugin) -> None:
    async with deployed(bed, FEW, maxUnavailable=1) as witness:
        bed.nodes.behave(HALF_WAY, Behaviour(ready=None))  # it gets no further, however long the command takes
        await plugin.ok("set-image", "demo", "*=registry.example.com/demo:v2")
        await witness.until(lambda: HALF_WAY in nodes_with(witness, "v2"), "the third new pod is made")
        out = await plugin.ok("pause", "demo", "--reason", "CVE triage")
        assert out.startswith("daemonset.apps.kruise.io/demo paused\n")
        await bed.progressing("Paused")
        bed.nodes.behave(HALF_WAY)
        await bed.status(numberAvailable=len(FEW), updatedNumberScheduled=3)
        ended = await plugin.run("status", "demo", "-w", "--timeout=30s")
        assert ended.code == 5, str(ended)
        await witness.up_to_date()
        assert [*witness.retired.values()] == ["c-02", "c-01", "b-02"], "nothing moved while it was paused"

        await plugin.ok("resume", "demo")
        ended = await plugin.run("status", "demo", "-w", "--timeout=80s")
        assert ended.code == 0, str(ended)
        await witness.up_to_date()
        assert nodes_with(witness, "v2") == {*FEW}
        assert Counter(witness.retired.values()) == Counter(FEW), "each old pod went once"


async def test_partition_8_of_24_leaves_exactly_8_old_and_updates_16(bed: Workspace, plugin: Plugin) -> None:
    async with deployed(bed, NODES, maxUnavailable=4) as witness:
        await plugin.ok("set-image", "demo", "*=registry.example.com/demo:v2", "--hold-at", "24")
        ended = await plugin.run("status", "demo", "-w", "--timeout=30s")
        assert ended.code == 0, str(ended)
        await witness.up_to_date()
        assert not witness.retired, "held before any node started"
        await plugin.ok("set-partition", "demo", "8")
        ended = await plugin.run("status", "demo", "-w", "--timeout=60s")
        assert ended.code == 0, str(ended)
        await witness.up_to_date()
        assert nodes_with(witness, "v1") == set(NODES[:8]), "names descending: the first eight stay"
        assert nodes_with(witness, "v2") == set(NODES[8:])
        assert Counter(witness.retired.values()) == Counter(NODES[8:])
        ended = await plugin.run("status", "demo", "-w", "--require-full", "--timeout=30s")
        assert ended.code == 5, str(ended)


async def test_an_operator_needs_no_more_than_their_role(bed: Workspace, plane: ControlPlane, tmp_path: Path) -> None:
    await bed.kubectl(
        "create",
        "clusterrolebinding",
        f"operator-{bed.namespace}",
        "--clusterrole=kruise-ds-operator",
        f"--user={OPERATOR.name}",
    )
    programs = programs_in(tmp_path)  # it notes who acted, which the server may be slow to say
    plugin = Plugin(plane.kubectl, plane.kubeconfig_for(OPERATOR), bed.namespace, programs)
    async with deployed(bed, FEW, maxUnavailable=4) as witness:
        first = await plugin.ok("set-image", "demo", "*=registry.example.com/demo:v2", "--hold-at=5")
        assert first.splitlines()[0] == "daemonset.apps.kruise.io/demo image updated, partition 0 -> 5"
        assert (await plugin.run("status", "demo", "-w", "--timeout=30s")).code == 0
        for verb in ("list", "version"):
            await plugin.ok(verb)
        for verb in ("status", "nodes", "history", "diff", "plan", "pause", "resume"):
            await plugin.ok(verb, "demo")
        await plugin.ok("set-partition", "demo", "4")
        await plugin.ok("promote", "demo", "--to=3", "--force")
        await plugin.ok("rollback", "demo", "-y")
        assert (await plugin.run("status", "demo", "-w", "--timeout=60s")).code == 0
        await plugin.ok("restart", "demo", "-y")
        assert (await plugin.run("status", "demo", "-w", "--timeout=60s")).code == 0
        await witness.up_to_date()
        assert nodes_with(witness, "v1") == {*FEW}
    (found,) = await bed.api.list(DAEMONSETS)
    noted = json.loads(found["metadata"]["annotations"]["kruise-ds/last-action"])
    assert (noted["verb"], noted["by"]) == ("restart", OPERATOR.name)


async def test_whoever_may_only_look_is_refused_in_words_they_can_act_on(bed: Workspace, plane: ControlPlane) -> None:
    for role in ("view", "kruise-ds-view"):
        await bed.kubectl("create", "rolebinding", role, f"--clusterrole={role}", f"--user={VIEWER.name}")
    plugin = Plugin(plane.kubectl, plane.kubeconfig_for(VIEWER), bed.namespace)
    async with deployed(bed, FEW, maxUnavailable=4, partition=6) as witness:
        edited = {"spec": {"template": {"metadata": {"labels": {"ver": "v2"}}}}}
        await bed.kubectl("patch", "ads", "demo", "--type=merge", f"-p={json.dumps(edited)}")
        await bed.progressing("PartitionReached")
        await plugin.ok("list")
        for verb in ("status", "nodes", "history", "diff", "plan"):
            await plugin.ok(verb, "demo")
        for words in (
            ("pause", "demo"),
            ("set-partition", "demo", "0"),
            ("promote", "demo", "--full", "--force", "-y"),
            ("rollback", "demo", "-y"),
            ("restart", "demo", "-y"),
            ("set-image", "demo", "*=registry.example.com/demo:v3"),
        ):
            ran = await plugin.run(*words)
            assert ran.code == 1, str(ran)
            assert "Error from server (Forbidden): daemonsets.apps.kruise.io" in ran.err, str(ran)
            needed = f'needed: patch daemonsets.apps.kruise.io in "{bed.namespace}"; '
            assert f"{needed}ask for ClusterRole kruise-ds-operator" in ran.err, str(ran)
            assert "Traceback" not in ran.err, str(ran)
        await witness.up_to_date()
        assert not witness.retired, "nothing happened"
