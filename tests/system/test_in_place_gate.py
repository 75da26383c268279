"""When the condition of the readiness gate is written, and how long before the pod: grace periods, and refusals."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.beds.api import PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.objects import V1, V2, V3, daemonset
from tests.beds.pods import condition, is_ready
from tests.system import in_place as updates
from tests.system.both import both_beds
from tests.system.monitor import monitoring
from tests.system.webhook import webhook_down


@both_beds
@pytest.mark.parametrize("gated", [True, False], ids=["with the gate", "made before the switch"])
async def test_what_restarts_nothing_writes_no_condition(bed: Bed, gated: bool) -> None:
    await bed.deploy(updates.in_place() if gated else daemonset(), nodes=2)
    await bed.edit({"updateStrategy": {"rollingUpdate": updates.ONE_BY_ONE}})
    bed.journal.clear()
    await bed.edit({"template": {"metadata": {"labels": {"team": "blue"}}}})
    await bed.settled()
    await bed.idle()
    assert sorted(updates.told(bed)[1:]) == ["node-0 pods", "node-1 pods"], str(bed.journal)
    assert [bool(condition(pod, updates.GATE)) for pod in (await bed.pods()).values()] == [gated] * 2


@both_beds
async def test_a_grace_period_lets_traffic_leave_before_the_restart(bed: Bed) -> None:
    grace = 30 if bed.plane is None else 3
    nodes = await bed.deploy(updates.with_grace(grace), nodes=2)
    bed.journal.clear()
    async with monitoring(bed, most_unavailable=1):
        await bed.set_image(V2)
        bed.patience = 120.0
        closed = await bed.until(
            PODS, lambda pods: "" if not all(map(is_ready, pods)) else "all have traffic", "one has none"
        )
        assert [updates.restarts(pod) for pod in closed] == [0, 0]
        await bed.settled()
    await bed.idle()
    steps = ("pods/status", "pods", "pods/status")
    assert updates.told(bed)[1:] == [f"{node} {what}" for node in nodes[::-1] for what in steps], str(bed.journal)
    closed_at = [write.at for write in bed.journal.of("pods/status")][::2]
    changed_at = [write.began for write in bed.journal.of("pods", "patch")]
    waited = [after - before for before, after in zip(closed_at, changed_at, strict=True)]
    assert [seconds >= grace for seconds in waited] == [True, True], waited


def asked(bed: Bed) -> Counter[str]:
    """How often a dry run was made for each pod."""
    return Counter(write.name for write in bed.journal.work if write.verb == "probe")


@both_beds
async def test_where_updates_are_refused_traffic_comes_back_once_and_is_not_taken_again(bed: Bed) -> None:
    """Whether the server would take them is asked by dry runs from then on."""
    nodes = await bed.deploy(updates.in_place(), nodes=2)
    before = await bed.pods()
    names = {pod["metadata"]["name"] for pod in before.values()}
    bed.journal.clear()
    async with monitoring(bed, most_unavailable=1):
        async with webhook_down(bed, "update"):
            await bed.set_image(V2)
            for name in names:
                told_of = await bed.event("FailedUpdatePodInPlace", f"failed to update pod {name} in-place")
                assert told_of["type"] == "Warning"
            assert "failed calling webhook" in (await bed.condition("Degraded", "WritesFail"))["message"]
            while any(asked(bed)[name] < 3 for name in names):
                assert await bed.journal.news(bed.patience), str(bed.journal)
            assert all(updates.is_open(pod) and updates.runs(pod, V1) for pod in (await bed.pods()).values())
            gates = Counter(write.node for write in bed.journal.of("pods/status"))
            assert gates == dict.fromkeys(nodes, 2), str(bed.journal)
        await bed.settled()
    assert updates.identities(await bed.pods()) == updates.identities(before)
    assert await updates.serving(bed, V2) == {*nodes}
    assert bed.journal.deleted == []


async def test_a_pod_that_is_ready_and_not_available_yet_has_its_grace_period_too(bed: Bed) -> None:
    bed.patience = 120.0
    await bed.deploy(updates.with_grace(30, minReadySeconds=60), nodes=1)
    await bed.set_image(V2)

    def is_young(pods: list[Object]) -> str:
        ready = any(updates.runs(pod, V2) and condition(pod, "Ready")["status"] == "True" for pod in pods)
        return "" if ready else "not ready"

    await bed.until(PODS, is_young, "V2 is ready")
    began = bed.clock()
    await bed.set_image(V3)
    await bed.until(PODS, lambda pods: "" if all(updates.runs(pod, V3) for pod in pods) else "not yet", "V3 runs")
    assert bed.clock() - began >= 30


async def test_a_pause_in_the_grace_period_gives_the_pod_its_traffic_back(bed: Bed) -> None:
    await bed.deploy(updates.with_grace(30), nodes=2)
    await bed.set_image(V2)
    await bed.status(available=1)
    await bed.edit({"updateStrategy": {"rollingUpdate": {"paused": True}}})
    await bed.status(available=2)
    await asyncio.sleep(60)
    assert [updates.restarts(pod) for pod in (await bed.pods()).values()] == [0, 0]
