"""How an update stands, in the one word that everybody reads: `status.rollout.phase` and the record beside it."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from controller.api.objects import epoch
from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.controller.bed import Bed, rollout_of
from tests.beds.controller.opening import simulated
from tests.beds.controller.waves import UNREADY, all_ready, roll, unready
from tests.beds.kstatus import READ_AS, TERMINATING, kstatus
from tests.beds.objects import V2, condition, daemonset
from tests.beds.simulator.faults import LateWatch, Rule
from tests.system.both import both_beds

REFUSED = {"containers": [{"name": "agent", "image": V2, "volumeMounts": [{"name": "nowhere", "mountPath": "/x"}]}]}
SETS = "daemonsets.apps.kruise.io"


def impatient(seconds: int, **spec: Any) -> Object:
    """A DaemonSet whose rollouts count as stalled after so many seconds."""
    made = daemonset(**spec)
    made["metadata"]["annotations"] = {"kruise-ds/progress-deadline-seconds": str(seconds)}
    return made


async def lose_patience_after(bed: Bed, seconds: int) -> None:
    """From now on; a deadline of a second that held from the beginning would stall what is only slow."""
    annotations = {"kruise-ds/progress-deadline-seconds": str(seconds)}
    await bed.api.patch(DAEMONSETS, "agent", {"metadata": {"annotations": annotations}})


def told(bed: Bed) -> list[str]:
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
    assert told(bed) == ["Pending", "Progressing", "Healthy"]


async def test_held_by_the_partition_until_it_is_lowered(bed: Bed) -> None:
    await bed.deploy(daemonset(rolling={"maxUnavailable": 1, "partition": 2}), nodes=3)
    await bed.set_image(V2)
    held = await stands(bed, "Held")
    assert (held["target"], held["done"]) == (1, 1)
    assert await progressing(bed) == ("True", "PartitionReached")
    bed.nodes.behave("*", UNREADY)
    await unready(bed, 0)
    assert rollout_of(await bed.daemonset()) == held, "kept pods need not be available"
    await all_ready(bed)
    await roll(bed, partition=0)
    going = await stands(bed, "Progressing")
    assert going["target"] == 3
    assert going["startTime"] == held["startTime"], "it is the same rollout"
    assert "completionTime" not in going
    bed.nodes.behave("*", None)
    await all_ready(bed)
    await stands(bed, "Healthy")


async def test_stalled_when_a_new_pod_does_not_get_ready_and_back_on_progress(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=3)
    bed.nodes.behave("*", UNREADY)
    await bed.set_image(V2)
    await bed.status(updated=1, ready=2)
    await lose_patience_after(bed, 2)
    stalled = await stands(bed, "Stalled")
    assert await progressing(bed) == ("False", "ProgressDeadlineExceeded")
    message = condition(await bed.daemonset(), "Progressing")["message"]
    assert "no progress for 2 seconds; no new pod is available on node-2" in message
    waited = (epoch(stalled["lastTransitionTime"]) or 0) - (epoch(stalled["lastProgressTime"]) or 0)
    assert waited >= 2
    await all_ready(bed, 2)
    going = await stands(bed, "Progressing")
    assert going["done"] == 1
    bed.nodes.behave("*", None)
    await bed.runs_on("node-0", "node-1", "node-2", ready=False)
    await all_ready(bed)
    await stands(bed, "Healthy")
    assert await progressing(bed) == ("True", "RolloutComplete")


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
        assert "Stalled" not in told(bed)


@both_beds
async def test_stalled_when_the_server_refuses_the_template(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=2)
    await bed.edit({"template": {"spec": REFUSED}})
    await stands(bed, "Stalled")
    assert await progressing(bed) == ("False", "TemplateRefused")
    await bed.edit({"template": {"spec": {"containers": [{"name": "agent", "image": V2}]}}})
    await stands(bed, "Healthy")


@both_beds
async def test_terminating_is_read_off_the_deletion_alone(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=1)
    kept = {"metadata": {"finalizers": ["example.com/hold"]}}
    await bed.api.patch(DAEMONSETS, "agent", kept)
    await bed.api.delete(DAEMONSETS, "agent")
    assert kstatus(await bed.daemonset()) == READ_AS["Terminating"] == TERMINATING
    await bed.api.patch(DAEMONSETS, "agent", {"metadata": {"finalizers": None}})


async def test_what_becomes_of_a_rollout_is_an_event_told_once(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=2)
    bed.nodes.behave("*", UNREADY)
    await bed.set_image(V2)
    await bed.status(updated=1, ready=1)
    await lose_patience_after(bed, 1)
    await stands(bed, "Stalled")
    stalled = await bed.event("ProgressDeadlineExceeded", "Rollout stalled: no progress for 1 seconds")
    assert stalled["type"] == "Warning"
    await lose_patience_after(bed, 600)
    bed.nodes.behave("*", None)
    await all_ready(bed)
    await stands(bed, "Healthy")
    revision = (await bed.daemonset())["status"]["updateRevision"]
    words = f"Rollout complete: 2 of 2 nodes have an available pod of revision {revision}"
    complete = await bed.event("RolloutComplete", words)
    assert complete["type"] == "Normal"
    await bed.controller.stop()
    bed.controller.start()
    await bed.idle()
    told = [str(write.body["reason"]) for write in bed.journal.of("events") if isinstance(write.body, dict)]
    assert [told.count(reason) for reason in ("ProgressDeadlineExceeded", "RolloutComplete")] == [1, 1]


async def test_a_controller_that_starts_again_goes_on_with_the_record(bed: Bed) -> None:
    await bed.deploy(daemonset(rolling={"maxUnavailable": 1, "partition": 1}), nodes=2)
    await bed.set_image(V2)
    held = await stands(bed, "Held")
    await bed.seen()
    await bed.idle()
    await bed.controller.stop()
    bed.journal.clear()
    bed.controller.start()
    await bed.idle(1.0)
    assert bed.journal.writes == []
    assert rollout_of(await bed.daemonset()) == held


async def test_the_deadline_costs_one_status_and_one_event_and_time_none(bed: Bed) -> None:
    bed.patience = 86400.0
    await bed.deploy(daemonset(), nodes=3)
    bed.nodes.behave("*", UNREADY)
    await bed.set_image(V2)
    await stands(bed, "Progressing")
    await bed.idle(60)
    bed.journal.clear()
    stalled = await stands(bed, "Stalled")
    waited = (epoch(stalled["lastTransitionTime"]) or 0) - (epoch(stalled["lastProgressTime"]) or 0)
    assert 600 <= waited <= 601
    await bed.idle(6 * 3600)
    assert [write.resource for write in bed.journal.writes] == ["daemonsets.apps.kruise.io/status", "events"]


async def test_a_pod_getting_ready_again_and_again_does_not_hide_a_stall(bed: Bed) -> None:
    bed.patience = 86400.0
    await bed.deploy(impatient(120), nodes=3)
    bed.nodes.behave("*", UNREADY)
    await bed.set_image(V2)
    await bed.status(updated=1, ready=2)
    await all_ready(bed, 2)
    await bed.status(updated=2, ready=2)
    since = (await stands(bed, "Progressing"))["lastProgressTime"]
    sick = (await bed.pods())["node-2"]
    for _ in range(4):
        await bed.idle(20)
        await bed.nodes.ready(sick, value=False)
        await bed.idle(20)
        await bed.nodes.ready(sick)
    stalled = await stands(bed, "Stalled")
    assert stalled["lastProgressTime"] == since


async def test_while_the_cache_does_not_show_our_own_status_the_record_stays(bed: Bed) -> None:
    bed.patience = 86400.0
    await bed.deploy(daemonset(), nodes=3)
    bed.nodes.behave("*", UNREADY)
    await bed.set_image(V2)
    await bed.status(updated=1, ready=2)
    await bed.idle(30)
    link = bed.simulator.link
    link.faults.add(Rule(verb="watch", resource=SETS, effect=LateWatch(seconds=3600)))
    link.drop_watches(SETS)
    await all_ready(bed)
    await bed.status(updated=2, available=2)
    await bed.idle(30)
    before = rollout_of(await bed.daemonset())
    bed.journal.clear()
    for pod in (await bed.pods()).values():
        await bed.api.patch(PODS, pod["metadata"]["name"], {"metadata": {"labels": {"another": "look"}}})
    await bed.idle(30)
    assert bed.journal.writes == []
    assert rollout_of(await bed.daemonset()) == before
