"""What others do between two requests of a verb, or did before it, on the real API server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.beds.api import DAEMONSETS, MERGE_PATCH, PODS, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, V3, V4, daemonset
from tests.beds.pods import image_of
from tests.plugin.cluster.wire import WRITE, Fault, faulty_wire
from tests.plugin.in_process import Ran
from tests.plugin.real.test_among_people import ALICE, BOB, held, image, settings, whose_next_pods_stay_unready
from tests.plugin.real.test_rollback import kruise_ds
from tests.plugin.real.test_under_fire import FOR_EVER, watching

pytestmark = pytest.mark.real

NOTE = {"verb": "pause", "by": "alice", "at": "2026-01-01T00:00:00Z", "reason": "CVE triage", "client": "test"}


async def test_what_another_tool_applies_while_one_watches_is_waited_for(bed: Bed, plane: ControlPlane) -> None:
    """By its generation or by its image: what there was before is finished, and not it."""
    await bed.deploy(daemonset(), nodes=3)
    now = int((await bed.daemonset())["metadata"]["generation"])
    for wanted, new in ((("--generation", str(now + 1)), V2), (("--image", "agent:v3"), V3)):
        async with watching(bed, plane, *wanted) as (watch, said):
            assert "Healthy 3/3" in (await said.readline()).decode()
            await bed.set_image(new)
            assert await watch.wait() == 0
        assert {image_of(pod) for pod in (await bed.pods()).values()} == {new}
    overtaken = await kruise_ds(bed, plane, "status", "agent", "-w", "--generation", str(now + 1))
    assert (overtaken.code, f"(now generation {now + 2})" in overtaken.err) == (6, True), overtaken
    absent = await kruise_ds(bed, plane, "status", "agent", "-w", "--image", "agent:v4", "--timeout=2s")
    assert absent.code == 3, absent


async def test_an_image_that_is_taken_back_while_one_watches_is_waited_for_no_longer(
    bed: Bed, plane: ControlPlane
) -> None:
    await whose_next_pods_stay_unready(bed)
    await bed.set_image(V2)
    await bed.phase("Progressing")
    async with watching(bed, plane, "--image", "agent:v2") as (watch, said):
        assert "Progressing" in (await said.readline()).decode()
        await bed.set_image(V1)
        assert await watch.wait() == 6


async def test_canaries_that_crash_right_before_the_write_are_not_promoted(bed: Bed, plane: ControlPlane) -> None:
    """The status is another one then: the server refuses, and what is tried again is judged again."""
    await held(bed)

    async def crashes() -> None:
        bed.nodes.behave("*", Behaviour(ready=None))
        (canary,) = [pod for pod in (await bed.pods()).values() if image_of(pod) == V2]
        await bed.nodes.crash(canary)
        await bed.status(available=2)

    async with faulty_wire(plane) as wire:
        write = Fault(WRITE, times=1, before=crashes)
        wire.faults += [write]
        ran = await kruise_ds(bed, plane, "promote", "agent", "--full", "-y", f"--server={wire.url}")
    assert (ran.code, write.met, "is not finished" in ran.err) == (6, 1, True), ran
    assert (await settings(bed))["partition"] == 2


async def test_a_log_that_hangs_keeps_nobody_from_the_rest(bed: Bed, plane: ControlPlane) -> None:
    """It does so for ever, and the program would wait for ever."""
    await bed.deploy(daemonset(), nodes=1)
    bed.nodes.behave("*", Behaviour(crash=0.1, back_off=0.1))
    await bed.set_image(V2)
    (pod,) = await bed.until(PODS, _has_restarted, "a container that crashes again and again")
    bed.nodes.behave("*", Behaviour(start=None))
    await bed.nodes.crash(pod)
    async with faulty_wire(plane) as wire:
        log = Fault("GET */pods/*/log[?]*")
        wire.faults += [log]
        at_the_wire = (FOR_EVER, f"--server={wire.url}")
        ran = await kruise_ds(bed, plane, "status", "agent", *at_the_wire)
        assert (ran.code, log.met, "0 of 1 nodes" in ran.out) == (0, 1, True), ran
        assert (await kruise_ds(bed, plane, "status", "agent", "-w", "--timeout=3s", *at_the_wire)).code == 3


def _has_restarted(pods: list[Object]) -> str:
    """The new one, and no other is there any more."""
    states = [(image_of(pod), pod["status"].get("containerStatuses") or []) for pod in pods]
    found = [(image, one["restartCount"]) for image, containers in states for one in containers]
    return "" if len(found) == 1 and found[0][0] == V2 and found[0][1] else f"restarts: {found}"


async def test_a_rollback_goes_to_what_most_of_the_nodes_run_that_are_left(bed: Bed, plane: ControlPlane) -> None:
    """Revision 2 never got beyond the canary on which revision 3 is now."""
    await held(bed, nodes=4)
    await bed.set_image(V3)
    await bed.seen()
    await bed.status(updated=1, available=4)
    await bed.phase("Held")
    ran = await kruise_ds(bed, plane, "rollback", "agent", "-y")
    assert (ran.code, " rolled back to revision 1 " in ran.out.partition("\n")[0]) == (0, True), ran
    assert "3 of 3 nodes left to update run it, not revision 2" in ran.out
    await bed.settled()
    assert {image_of(pod) for pod in (await bed.pods()).values()} == {V1}


async def test_a_manifest_lifts_the_pause_of_another_person_only_if_told(
    bed: Bed, plane: ControlPlane, tmp_path: Path
) -> None:
    await bed.deploy(daemonset(), nodes=2)
    assert (await kruise_ds(bed, plane, "pause", "agent", "--reason", "CVE triage", *ALICE)).code == 0
    path = tmp_path / "agent.json"

    async def applied(new: str, *more: str, **rolling: object) -> Ran:
        made = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", **daemonset(image=new, rolling=rolling)}
        path.write_text(json.dumps(made))
        return await kruise_ds(bed, plane, "apply", "-f", str(path), "-y", *more, *BOB)

    refused = await applied(V2, maxUnavailable=1, paused=False)
    told = 'paused by alice: "CVE triage"; the manifest would lift that'
    assert (refused.code, told in refused.err) == (6, True), refused
    assert (await image(bed), (await settings(bed))["paused"]) == (V1, True)
    left = await applied(V2, maxUnavailable=1)
    assert (left.code, await image(bed), (await settings(bed))["paused"]) == (0, V2, True), left
    assert 'by alice: "CVE triage"' in (await kruise_ds(bed, plane, "status", "agent")).out
    lifted = await applied(V3, "--lift-pause", maxUnavailable=1, paused=False)
    assert (lifted.code, await image(bed), (await settings(bed))["paused"]) == (0, V3, False), lifted


async def test_a_pause_by_other_means_is_nobodys_though_an_old_note_is_there(bed: Bed, plane: ControlPlane) -> None:
    """The server's managedFields tell when it was paused, long after what is noted."""
    await bed.deploy(daemonset(), nodes=2)
    await bed.set_image(V4)
    again = {
        "metadata": {"annotations": {"kruise-ds/last-action": json.dumps(NOTE)}},
        "spec": {"updateStrategy": {"rollingUpdate": {"paused": True}}},
    }
    await bed.api.patch(DAEMONSETS, "agent", again, content_type=MERGE_PATCH)
    refused = await kruise_ds(bed, plane, "rollback", "agent", "-y", *ALICE)
    assert (refused.code, "agent is paused; a rollback would lift that" in refused.err) == (6, True), refused
    assert ((await settings(bed))["paused"], await image(bed)) == (True, V4)
