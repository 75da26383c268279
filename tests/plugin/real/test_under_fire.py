"""Verbs while nodes change and parts of the server hang, on the real API server with the real controller."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio import StreamReader
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.beds.api import DAEMONSETS, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.kubectl import run_to_end
from tests.beds.controller.bed import Bed
from tests.beds.installed.unhurried import PROGRAM
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, V3, daemonset
from tests.plugin.cluster.wire import Fault, faulty_wire
from tests.plugin.in_process import Ran
from tests.plugin.real.test_among_people import ALICE, BOB, image, settings
from tests.plugin.real.test_rollback import kruise_ds

pytestmark = pytest.mark.real

TRACK = {"matchLabels": {"track": "main"}}
FOR_EVER = "--request-timeout=0"
EVERYTHING_ELSE = (
    "GET /api/v1/nodes*",
    "GET /api/v1/namespaces/*/pods*",
    "POST */selfsubjectreviews*",
    "POST */events*",
    "GET */leases/*",
)


@asynccontextmanager
async def watching(bed: Bed, plane: ControlPlane, *more: str) -> AsyncIterator[tuple[Process, StreamReader]]:
    """`status -w`, and what it prints."""
    process = await asyncio.create_subprocess_exec(
        *(*PROGRAM, "status", "agent", "-w", "--timeout=60s", *more, "-n", bed.api.namespace),
        env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_nodes_that_are_labelled_into_the_selector_while_one_watches_are_waited_for(
    bed: Bed, plane: ControlPlane
) -> None:
    """The plugin has listed the nodes before, and the controller has counted the third one and not come to it yet."""
    await bed.add_nodes(4)
    for node in ("node-0", "node-1"):
        await bed.label_node(node, track="main")
    await bed.deploy(daemonset(rolling={"maxUnavailable": 2, "selector": TRACK}))
    bed.nodes.behave("*", Behaviour(ready=None))
    await bed.set_image(V2)
    await bed.status(updated=2, available=2)
    async with watching(bed, plane) as (watch, said):
        assert "Progressing 0/2 updated" in (await said.readline()).decode()
        await bed.label_node("node-2", track="main")
        await bed.until(DAEMONSETS, _three_are_meant, "the controller counts the third node")
        await bed.controller.kill()
        bed.nodes.behave("*")
        while "2/3" not in (line := (await said.readline()).decode()):
            assert line, f"it ended with {await watch.wait()}"
        bed.controller.start()
        assert "Held 3/3" in (await said.read()).decode()
        assert await watch.wait() == 0
    await bed.runs_on("node-0", "node-1", "node-2", "node-3")
    found = {node: pod["spec"]["containers"][0]["image"] for node, pod in (await bed.pods()).items()}
    assert found == {"node-0": V2, "node-1": V2, "node-2": V2, "node-3": V1}


def _three_are_meant(found: list[Object]) -> str:
    target = found[0]["status"]["rollout"]["target"]
    return "" if target == 3 else f"it counts {target}"


async def test_a_rollback_is_written_though_nothing_but_the_object_and_its_revisions_answers(
    bed: Bed, plane: ControlPlane
) -> None:
    """All that hangs does so for ever, and the program would wait for ever."""
    await bed.deploy(daemonset(), nodes=2)
    await bed.edit({"updateStrategy": {"rollingUpdate": {"partition": 1}}})
    await bed.set_image(V2)
    await bed.phase("Held")
    async with faulty_wire(plane) as wire:
        wire.faults += [Fault(like) for like in EVERYTHING_ELSE]
        words = ("rollback", "agent", "-y", FOR_EVER, f"--server={wire.url}", "-n", bed.api.namespace)
        ran = Ran(*await run_to_end((sys.executable, "-m", "kubectl_plugin", *words), {"PATH": ""}))
    assert ran.code == 0, ran.err
    assert (await image(bed), (await settings(bed))["partition"]) == (V1, 0)
    assert "note: some details are missing: nodes: no answer within 1s" in ran.err


async def test_a_pause_of_what_is_healthy_is_seen_and_kept_by_whoever_sets_an_image(
    bed: Bed, plane: ControlPlane
) -> None:
    await bed.deploy(daemonset(), nodes=2)
    assert (await kruise_ds(bed, plane, "pause", "agent", "--reason", "CVE triage", *ALICE)).code == 0
    told = 'by alice: "CVE triage"'
    for words, phase in (((), "Healthy"), (("set-image", "agent", f"*={V3}", *BOB), "Paused")):
        if words:
            assert (await kruise_ds(bed, plane, *words)).code == 0
        await bed.seen()
        await bed.phase(phase)
        block = (await kruise_ds(bed, plane, "status", "agent")).out
        assert (told in block, "resume agent" in block, "promote" in block) == (True, True, False), block
        listed = (await kruise_ds(bed, plane, "list")).out
        assert (told in listed, phase in listed) == (True, True), listed
    assert {pod["spec"]["containers"][0]["image"] for pod in (await bed.pods()).values()} == {V1}
