"""How much the controller writes: nothing when nothing happens, and hardly more than the pods otherwise."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise

import pytest

from controller.runtime.pacing import LONGEST_INTERVAL, RESTS
from tests.beds.api import CONFIGMAPS, DAEMONSETS, NODES, PODS
from tests.beds.controller.bed import Bed
from tests.beds.controller.metrics import metric
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, condition, daemonset
from tests.system.both import both_beds

PODS_PER_DEPLOY = 50
LAZIEST = 2 * RESTS["lazy"].most
"""Seconds of quiet after which no pass is due any more that only counts."""


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


async def test_events_of_one_daemonset_stop_at_the_spam_filter(bed: Bed) -> None:
    await bed.add_nodes(40)
    await bed.api.create(DAEMONSETS, daemonset())
    await bed.settled()
    await bed.idle()
    told = Counter(str(write.body["reason"]) for write in bed.journal.of("events") if isinstance(write.body, dict))
    assert 20 <= told["SuccessfulCreate"] <= 25
    assert told.keys() == {"SuccessfulCreate", "RolloutComplete"}, "what became of it is not lost among its pods"
    assert told["RolloutComplete"] == 1


async def test_statuses_come_further_and_further_apart_while_pods_get_ready(bed: Bed) -> None:
    nodes = await bed.add_nodes(30)
    began = asyncio.get_running_loop().time()
    await bed.api.create(DAEMONSETS, daemonset())
    await bed.settled()
    await bed.idle()
    pauses = [after.at - before.at for before, after in pairwise(bed.journal.statuses)]
    assert len(bed.journal.statuses) <= 6 + statuses_since(began), pauses
    assert len(nodes) == 30


@pytest.mark.parametrize(
    ("change", "wakes"),
    [
        ("a condition", False),
        ("allocatable", False),
        ("a label that nobody asks for", False),
        ("a taint that is not tolerated", True),
        ("a label that the node selector asks for", True),
        ("a label that the update's selector asks for", True),
    ],
)
async def test_only_nodes_whose_verdict_changes_wake_a_daemonset(bed: Bed, change: str, wakes: bool) -> None:
    await bed.controller.stop()
    await bed.add_nodes(2)
    bed.controller.start()
    selector = {"matchLabels": {"canary": "yes"}}
    await bed.deploy(daemonset(pod={"nodeSelector": {"kubernetes.io/os": "linux"}}, rolling={"selector": selector}))
    await bed.idle(LAZIEST)
    before = metric(bed.controller, "controller_runtime_reconcile_total")
    await CHANGES[change](bed)
    await bed.nodes.add("node-2", labels={"kubernetes.io/os": "windows"})
    await bed.idle(LAZIEST)
    assert (metric(bed.controller, "controller_runtime_reconcile_total") > before) == wakes


async def a_condition(bed: Bed) -> None:
    cond = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}
    await bed.api.patch(NODES, "node-0", {"status": {"conditions": [cond]}}, sub="status")


async def allocatable(bed: Bed) -> None:
    await bed.api.patch(NODES, "node-0", {"status": {"allocatable": {"cpu": "2"}}}, sub="status")


async def label_nobody(bed: Bed) -> None:
    await bed.label_node("node-0", irrelevant="yes")


async def taint(bed: Bed) -> None:
    await bed.taint("node-0", {"key": "reserved", "effect": "NoSchedule"})


async def label_selector(bed: Bed) -> None:
    await bed.label_node("node-0", **{"kubernetes.io/os": "windows"})


async def label_canary(bed: Bed) -> None:
    await bed.label_node("node-0", canary="yes")


CHANGES = {
    "a condition": a_condition,
    "allocatable": allocatable,
    "a label that nobody asks for": label_nobody,
    "a taint that is not tolerated": taint,
    "a label that the node selector asks for": label_selector,
    "a label that the update's selector asks for": label_canary,
}


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


async def test_a_pod_turning_ready_with_its_condition_costs_few_statuses(bed: Bed) -> None:
    bed.patience = 86400.0
    await bed.deploy(daemonset(rolling={"maxUnavailable": 1, "partition": 1}), nodes=2)
    await bed.set_image(V2)
    await bed.phase("Held")
    await bed.idle(60)
    bed.journal.clear()
    bed.nodes.behave("*", Behaviour(ready=None))
    updated = (await bed.pods())["node-1"]
    for _ in range(40):
        await bed.nodes.ready(updated, value=False)
        await asyncio.sleep(0.25)
        await bed.nodes.ready(updated)
        await asyncio.sleep(0.25)
    await bed.idle(10)
    assert 3 <= len(bed.journal.statuses) <= 15, "twenty seconds in which Held and Degraded took turns"
    assert condition(await bed.daemonset(), "Ready")["status"] == "True"
