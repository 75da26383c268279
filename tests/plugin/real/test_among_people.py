"""Verbs beside other people and other clocks, on the real API server with the real controller."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.beds.api import DAEMONSETS, MERGE_PATCH, PODS, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.kubectl import run_to_end
from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, V3, daemonset
from tests.beds.pods import is_ready
from tests.plugin.in_process import Ran
from tests.plugin.real.test_rollback import kruise_ds
from tests.plugin.window import window
from tests.system.quota import limit_pods

pytestmark = pytest.mark.real

README = Path(__file__).parents[3] / "README.md"
RECIPE = re.compile(r"^```\n(kubectl kruise-ds set-image .*?)^```", re.DOTALL | re.MULTILINE)
ALICE, BOB = (("--as", name, "--as-group", "system:masters") for name in ("alice", "bob"))
TWELVE_MINUTES_AHEAD = """
import time
from kubectl_plugin.host import Host
from kubectl_plugin.program import NAME, app
from kubectl_plugin.running import Runner

class Ahead(Host):
    def now(self):
        return time.time() + 720.0

app(prog_name=NAME, obj=Runner(Ahead()))
"""


async def whose_next_pods_stay_unready(bed: Bed) -> None:
    """Version 1 on three nodes."""
    await bed.deploy(daemonset(), nodes=3)
    bed.nodes.behave("*", Behaviour(ready=None))


async def held(bed: Bed, *, nodes: int = 3) -> None:
    """Version 2 on one node, and the rest held by the partition."""
    await bed.add_nodes(nodes)
    await bed.deploy(daemonset(rolling={"maxUnavailable": 1, "partition": nodes - 1}))
    await bed.set_image(V2)
    await bed.phase("Held")


async def settings(bed: Bed) -> Object:
    found: Object = (await bed.daemonset())["spec"]["updateStrategy"]["rollingUpdate"]
    return found


async def image(bed: Bed) -> str:
    return str((await bed.daemonset())["spec"]["template"]["spec"]["containers"][0]["image"])


def recipe(bed: Bed, image: str, timeout: str = "15m") -> str:
    """The README's pipeline in a shell, for `agent` and its few nodes."""
    (script,) = RECIPE.findall(README.read_text())
    ours = {"node-agent": "agent", "-n obs": f"-n {bed.api.namespace}", "--hold-at 22": "--hold-at 1", "15m": timeout}
    for theirs, instead in ours.items():
        assert theirs in script
        script = script.replace(theirs, instead)
    return f'kubectl() {{ shift; {sys.executable} -m kubectl_plugin "$@"; }}\nIMAGE={image}\n{script}'


async def in_shell(plane: ControlPlane, script: str) -> Ran:
    environ = {"PATH": os.environ["PATH"], "KUBECONFIG": str(plane.kubeconfig)}
    return Ran(*await run_to_end(("sh", "-c", script), environ))


async def test_a_pause_is_seen_in_every_phase_and_no_pipeline_lifts_it(bed: Bed, plane: ControlPlane) -> None:
    await held(bed)
    paused = await kruise_ds(bed, plane, "pause", "agent", "--reason", "CVE triage", *ALICE)
    assert paused.code == 0, paused.err
    await bed.seen()
    assert (await bed.daemonset())["status"]["rollout"]["phase"] == "Held"
    told = 'by alice: "CVE triage"'
    block = (await kruise_ds(bed, plane, "status", "agent")).out
    assert (told in block, "promote" in block) == (True, False), block
    assert f"paused {told}" in (await kruise_ds(bed, plane, "list")).out

    ended = await in_shell(plane, recipe(bed, V3))
    assert ended.code == 5, ended
    assert (await settings(bed))["paused"] is True
    assert await image(bed) == V3, "nothing is taken back"
    assert told in (await kruise_ds(bed, plane, "status", "agent")).out, "another verb does not hide who paused it"

    refused = await kruise_ds(bed, plane, "rollback", "agent", "-y", *BOB)
    assert (refused.code, "a rollback would lift that" in refused.err) == (6, True), refused
    assert (await settings(bed))["paused"] is True
    lifted = await kruise_ds(bed, plane, "rollback", "agent", "-y", "--lift-pause", *BOB)
    assert (lifted.code, (await settings(bed))["paused"]) == (0, False), lifted.err


async def test_a_pipeline_takes_back_what_will_not_finish_and_not_what_takes_long(
    bed: Bed, plane: ControlPlane
) -> None:
    await whose_next_pods_stay_unready(bed)
    ended = await in_shell(plane, recipe(bed, V2, timeout="2s"))
    assert (ended.code, await image(bed)) == (3, V2), ended
    deadline = {"metadata": {"annotations": {"kruise-ds/progress-deadline-seconds": "1"}}}
    await bed.api.patch(DAEMONSETS, "agent", deadline, content_type=MERGE_PATCH)
    ended = await in_shell(plane, recipe(bed, V3))
    assert (ended.code, await image(bed)) == (4, V1), ended


async def test_canaries_that_crash_while_the_question_stands_are_not_promoted(bed: Bed, plane: ControlPlane) -> None:
    await held(bed)
    command = f"{sys.executable} -m kubectl_plugin promote agent --full -n {bed.api.namespace}"
    async with window(f"exec {command}", {"KUBECONFIG": str(plane.kubeconfig)}) as terminal:
        await terminal.until("Continue? [y/N] ")
        (canary,) = [pod for pod in (await bed.pods()).values() if pod["spec"]["containers"][0]["image"] == V2]
        bed.nodes.behave("*", Behaviour(ready=None))
        await bed.nodes.crash(canary)
        await bed.until(PODS, _one_is_down, "a canary that is not ready")
        terminal.type("y\n")
        assert await terminal.ended() == 6, terminal.seen
    assert (await settings(bed))["partition"] == 2


def _one_is_down(pods: list[Object]) -> str:
    return "" if sum(is_ready(pod) for pod in pods) == 2 else "all are ready"


async def test_a_clock_that_is_ahead_makes_no_soak_shorter_and_no_rollout_stalled(
    bed: Bed, plane: ControlPlane
) -> None:
    await held(bed)
    program = (sys.executable, "-c", TWELVE_MINUTES_AHEAD)
    environ = {"PATH": "", "KUBECONFIG": str(plane.kubeconfig)}

    async def ahead(*words: str) -> Ran:
        return Ran(*await run_to_end((*program, *words, "-n", bed.api.namespace), environ))

    soaking = await ahead("promote", "agent", "--to", "1", "--soak", "10m")
    assert (soaking.code, "of 10m" in soaking.err) == (6, True), soaking
    assert (await settings(bed))["partition"] == 2
    bed.nodes.behave("*", Behaviour(ready=None))
    await bed.edit({"updateStrategy": {"rollingUpdate": {"partition": 0}}})
    await bed.phase("Progressing")
    moving = await ahead("status", "agent", "-w", "--timeout=2s")
    assert (moving.code, "talled" in moving.out + moving.err) == (3, False), moving


async def test_who_may_not_see_the_nodes_believes_the_controller_about_them(bed: Bed, plane: ControlPlane) -> None:
    """A quota lets one of three pods exist; an operator by a RoleBinding may list no nodes."""
    namespace = bed.api.namespace
    empty = await kruise_ds(bed, plane, "status", "-w")
    assert (empty.code, "no Advanced DaemonSet was found" in empty.err) == (1, True), empty
    bound = ("create", "rolebinding", "ops", "--clusterrole=kruise-ds-operator", "--user=carol", "-n", namespace)
    assert (await plane.run_kubectl(*bound)).returncode == 0
    await bed.api.create(DAEMONSETS, daemonset())
    await bed.phase("Healthy")
    nowhere = await kruise_ds(bed, plane, "status", "agent", "-w")
    assert (nowhere.code, "no node is eligible" in nowhere.err) == (0, True), nowhere
    await limit_pods(bed, 1)
    await bed.add_nodes(3)
    await bed.status(available=1)
    ran = await kruise_ds(bed, plane, "status", "agent", "-w", "--timeout=5s", "--as=carol")
    assert (ran.code, "is at 1 of 3 nodes" in ran.err) == (3, True), ran


async def test_one_straggler_does_not_choose_where_a_rollback_goes(bed: Bed, plane: ControlPlane) -> None:
    await bed.add_nodes(3)
    for number in (1, 2):
        await bed.label_node(f"node-{number}", track="main")
    await bed.deploy(daemonset(rolling={"maxUnavailable": 3, "selector": {"matchLabels": {"track": "main"}}}))
    for image in (V2, V3):
        await bed.set_image(image)
        await bed.seen()
        await bed.status(updated=2, available=3)
        await bed.phase("Held")
    ran = await kruise_ds(bed, plane, "rollback", "agent", "-y", "--dry-run=server")
    assert (ran.code, " rolled back to revision 2 " in ran.out.partition("\n")[0]) == (0, True), ran
    assert "it is the one before; 1 node runs an older one" in ran.out
