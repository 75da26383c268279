"""Where an update in place ends on a real kubelet: edits that take new pods, that restart nothing, or that crash."""

from __future__ import annotations

import json

import pytest

from tests.beds.api import DAEMONSETS, EVENTS, PODS, Object
from tests.beds.pods import image_of, node_of
from tests.beds.real_node.patience import LONG
from tests.beds.real_node.workloads import agent_set
from tests.real_node.bed import Bed
from tests.real_node.rollouts import deployed, settled, update
from tests.real_node.test_in_place import IN_PLACE, identities
from tests.system.in_place import container_of, restarts

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("controller")]


async def patched(bed: Bed, *operations: Object) -> None:
    await bed.kubectl("patch", "ads", "agent", "--type=json", f"-p={json.dumps(operations)}")


async def test_a_variable_takes_new_pods_and_that_is_told(bed: Bed) -> None:
    async with deployed(bed, **IN_PLACE) as witness:
        witness.floor = len(bed.workers) - 1
        before = await identities(bed)
        env = [{"name": "LEVEL", "value": "debug"}]
        await patched(bed, {"op": "add", "path": "/spec/template/spec/containers/0/env", "value": env})
        await settled(bed)
        after = await identities(bed)
        assert after.keys() == before.keys()
        assert not {one[1] for one in after.values()} & {one[1] for one in before.values()}
        told = [one["message"] for one in await bed.api.list(EVENTS) if one["reason"] == "InPlaceUpdateNotPossible"]
        assert any("spec.containers[agent].env" in words for words in told), told


async def test_labels_alone_reach_the_pods_and_restart_nothing(bed: Bed) -> None:
    async with deployed(bed, **IN_PLACE) as witness:
        witness.floor = len(bed.workers)
        before = await identities(bed)
        ran = {node_of(pod): container_of(pod)["containerID"] for pod in await bed.pods()}
        await patched(bed, {"op": "add", "path": "/spec/template/metadata/labels/team", "value": "blue"})
        await settled(bed)
        pods = await bed.pods()
        assert {pod["metadata"]["labels"]["team"] for pod in pods} == {"blue"}
        assert await identities(bed) == before
        assert {node_of(pod): container_of(pod)["containerID"] for pod in pods} == ran


async def test_an_image_that_crashes_costs_one_node_until_the_next_edit_heals_it(bed: Bed) -> None:
    """Nobody probes it: its kubelet calls it ready while it runs."""
    bed.ours.registry.put("agent:crash", bed.ours.images.agent("crash", CRASH="1"))
    new = agent_set("agent:v1", rollingUpdateType="InPlaceIfPossible", maxUnavailable=1)
    del new["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
    await bed.apply(new)
    await settled(bed)
    before = await identities(bed)

    def crashes(pods: list[Object]) -> bool:
        waiting = [(container_of(pod).get("state") or {}).get("waiting") or {} for pod in pods]
        return any(one.get("reason") == "CrashLoopBackOff" for one in waiting) and any(
            restarts(pod) >= 2 for pod in pods
        )

    await update(bed, "agent:crash")
    await bed.api.wait_for(PODS, crashes, "it has crashed more than once", seconds=LONG)
    assert len([pod for pod in await bed.pods() if image_of(pod).endswith(":crash")]) == 1
    status = (await bed.api.get(DAEMONSETS, "agent"))["status"]
    assert status["updatedNumberScheduled"] == 1, status
    await update(bed, "agent:v1")
    await settled(bed)
    assert await identities(bed) == before
    assert await bed.versions() == bed.everywhere("v1")
