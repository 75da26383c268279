"""What the status says: counts, columns, the phase of a rollout and its record; and how often it is written."""

from __future__ import annotations

import asyncio
from itertools import groupby

import pytest

from controller.runtime.pacing import LONGEST_INTERVAL
from tests.beds.api import CONFIGMAPS, DAEMONSETS, NODES, PODS, Object
from tests.beds.controller.bed import Bed, rollout_of
from tests.beds.controller.opening import simulated
from tests.beds.controller.waves import UNREADY, all_ready
from tests.beds.kstatus import READ_AS, TERMINATING, kstatus
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, condition, daemonset
from tests.system.both import both_beds


def phases(bed: Bed) -> list[str]:
    """The phases that were written, one after another."""
    written = (rollout_of(write.answer).get("phase", "") for write in bed.journal.statuses)
    return [phase for phase, _ in groupby(written)]


async def stands(bed: Bed, phase: str) -> Object:
    """Wait until the rollout is in that phase, and return its record. Whatever was written on the way, kstatus reads
    as it should.
    """
    record = await bed.phase(phase)
    for write in bed.journal.statuses:
        written = rollout_of(write.answer).get("phase", "")
        assert kstatus(write.answer) == READ_AS[written], f"{written}: {write.answer['status']['conditions']}"
    return record


async def progressing(bed: Bed) -> tuple[str, str]:
    found = condition(await bed.daemonset(), "Progressing")
    return found["status"], found["reason"]


@both_beds
async def test_a_deployment_is_pending_then_progressing_then_healthy(bed: Bed) -> None:
    await bed.add_nodes(3)
    bed.nodes.behave("*", UNREADY)
    await bed.api.create(DAEMONSETS, daemonset())
    going = await stands(bed, "Progressing")
    assert (going["target"], going["done"]) == (3, 0)
    assert "completionTime" not in going
    assert await progressing(bed) == ("True", "Updating")
    await bed.runs_on("node-0", "node-1", "node-2", ready=False)
    await all_ready(bed)
    healthy = await stands(bed, "Healthy")
    assert (healthy["target"], healthy["done"], healthy["mostDone"], healthy["mostUpdated"]) == (3, 3, 3, 3)
    assert healthy["startTime"] <= healthy["completionTime"] <= healthy["lastTransitionTime"]
    assert await progressing(bed) == ("True", "RolloutComplete")
    assert phases(bed) == ["Pending", "Progressing", "Healthy"]


@pytest.mark.parametrize(("silent", "most", "updated"), [(1, 1, 0), (1, 2, 5), (2, 2, 0), (3, 1, 0)])
async def test_nodes_that_cannot_be_reached_stall_no_rollout(silent: int, most: int, updated: int) -> None:
    """The template tolerates everything, as that of most node agents. The limit counts the silent nodes."""
    async with simulated() as bed:
        bed.patience = 86400.0
        everything = {"tolerations": [{"operator": "Exists"}]}
        made = daemonset(pod=everything, rolling={"maxUnavailable": most}, minReadySeconds=10)
        nodes = await bed.deploy(made, nodes=6)
        for name in nodes[:silent]:
            await bed.nodes.lose(name)
        await bed.set_image(V2)
        await bed.condition("Progressing", "NodesUnreachable")
        await bed.idle(60)
        bed.journal.clear()
        await bed.idle(6 * 3600)
        assert bed.journal.writes == [], "time alone changes nothing"
        one = await bed.daemonset()
        assert (rollout_of(one)["phase"], rollout_of(one)["done"]) == ("Progressing", updated)
        who = f"{silent} unreachable {'node' if silent == 1 else 'nodes'}: "
        assert f"waits for {who}{', '.join(nodes[:silent][::-1])}" in condition(one, "Reconciling")["message"]

        for name in nodes[:silent]:
            await bed.nodes.regain(name)
        await stands(bed, "Healthy")
        assert "Stalled" not in phases(bed)


@both_beds
async def test_terminating_is_read_off_the_deletion_alone(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=1)
    kept = {"metadata": {"finalizers": ["example.com/hold"]}}
    await bed.api.patch(DAEMONSETS, "agent", kept)
    await bed.api.delete(DAEMONSETS, "agent")
    assert kstatus(await bed.daemonset()) == READ_AS["Terminating"] == TERMINATING
    await bed.api.patch(DAEMONSETS, "agent", {"metadata": {"finalizers": None}})


async def test_the_first_status_has_every_count_and_the_columns_of_kubectl(bed: Bed) -> None:
    await bed.deploy(daemonset(pod={"nodeSelector": {"disk": "ssd", "zone": "a"}}), nodes=1)
    one = await bed.daemonset()
    counts = {name: value for name, value in one["status"].items() if isinstance(value, int)}
    assert counts == {
        "observedGeneration": 1,
        "desiredNumberScheduled": 0,
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
        "updatedNumberScheduled": 0,
        "numberAvailable": 0,
        "numberUnavailable": 0,
    }
    assert one["status"]["columns"] == {
        "nodeSelector": "disk=ssd,zone=a",
        "containers": "agent",
        "images": "registry.example/agent:v1",
        "selector": "app=agent",
    }


PODS_PER_DEPLOY = 50


@both_beds
async def test_a_quiet_cluster_sees_no_writes(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=3)
    beat = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Again"}]}}
    for node in nodes:
        await bed.api.patch(NODES, node, beat, sub="status")
        await bed.label_node(node, irrelevant="yes")
    note = {"metadata": {"annotations": {"example.com/seen": "yes"}}}
    for pod in (await bed.pods()).values():
        await bed.api.patch(PODS, pod["metadata"]["name"], note)
    await bed.api.create(CONFIGMAPS, {"metadata": {"name": "unrelated"}})
    await bed.idle(1.0)
    assert bed.journal.writes == []


async def test_six_quiet_hours_see_no_writes(bed: Bed) -> None:
    bed.patience = 2 * 86400.0
    await bed.deploy(daemonset(minReadySeconds=30), nodes=20)
    await bed.idle(6 * 3600)
    assert bed.journal.writes == []


@both_beds
async def test_a_deployment_and_an_update_write_hardly_more_than_pods(bed: Bed) -> None:
    await bed.add_nodes(PODS_PER_DEPLOY)
    began = asyncio.get_running_loop().time()
    await bed.api.create(DAEMONSETS, daemonset(rolling={"maxUnavailable": "20%"}))
    await bed.settled()
    await bed.idle()
    assert bed.journal.failed == []
    assert bed.journal.counts()["create pods"] == PODS_PER_DEPLOY
    assert len(bed.journal.work) <= 1.02 * PODS_PER_DEPLOY + 10 + statuses_since(began), str(bed.journal.counts())

    bed.journal.clear()
    began = asyncio.get_running_loop().time()
    await bed.update(V2)
    await bed.idle()
    assert bed.journal.failed == []
    assert len(bed.journal.created) == len(bed.journal.deleted) == PODS_PER_DEPLOY
    assert len(bed.journal.work) <= 2.05 * PODS_PER_DEPLOY + 30 + statuses_since(began), str(bed.journal.counts())


def statuses_since(began: float) -> float:
    """How many more there may be: every three seconds one, if pods take so long to get ready."""
    return (asyncio.get_running_loop().time() - began) / LONGEST_INTERVAL


async def test_no_status_is_written_for_the_sake_of_a_condition_alone(bed: Bed) -> None:
    bed.patience = 86400.0
    await bed.add_nodes(40)
    bed.nodes.behave("*", Behaviour(ready=3.0))
    await bed.deploy(daemonset(rolling={"maxUnavailable": "10%"}))
    await bed.update(V2)
    await bed.idle(60)
    for write in bed.journal.statuses:
        assert isinstance(write.body, list)
        paths = {str(one["path"]) for one in write.body if str(one["path"]).startswith("/status/")}
        assert paths - {"/status/conditions"}, f"nothing but conditions is new: {write.body}"
