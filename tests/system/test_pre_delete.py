"""The preDelete hook: pods are prepared, wait for whoever was asked, and go; or stay, when their reason is gone."""

from __future__ import annotations

import asyncio

import pytest

from controller.api.objects import epoch
from tests.beds.api import DAEMONSETS, PODS
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.waves import UNREADY, layout, live
from tests.beds.nodes import INSTANT
from tests.beds.objects import V1, V2, V3, condition, image_of, is_ready, labelled, requires
from tests.beds.simulator.faults import Answer, LoseAnswer, Rule
from tests.system.both import both_beds
from tests.system.monitor import monitoring
from tests.system.pre_delete import (
    BLOCK,
    DAY,
    HOOK,
    OURS,
    SINCE,
    THEIRS,
    hooked,
    list_in_message,
    one_at_a_time,
    prepared,
    release,
    user_controller,
)


@both_beds
async def test_an_update_prepares_one_pod_after_the_other_and_waits_for_each(bed: Bed) -> None:
    await bed.deploy(hooked(), nodes=3)
    async with monitoring(bed, most_unavailable=1), one_at_a_time(bed):
        await bed.set_image(V2)
        for node in ("node-2", "node-1", "node-0"):
            pod = (await prepared(bed, node))[node]
            assert epoch(pod["metadata"]["annotations"][SINCE]) is not None
            assert is_ready(pod)
            await bed.seen()
            await bed.idle()
            assert uids(await bed.pods())[node] == pod["metadata"]["uid"]
            await release(bed, pod)
        await bed.settled()
    assert await layout(bed) == "v2 v2 v2"
    await bed.event("PreparingDelete", f"label {BLOCK}=true")


@pytest.mark.parametrize(
    "stamp",
    ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00", "0001-01-01T00:00:00Z", "2025-11-20", "soon", ""],
)
async def test_a_time_that_is_none_or_far_away_ends_no_pass(bed: Bed, stamp: str) -> None:
    await bed.deploy(hooked(), nodes=2)
    await bed.set_image(V2)
    pod = (await prepared(bed, "node-1"))["node-1"]
    await bed.api.patch(PODS, pod["metadata"]["name"], {"metadata": {"annotations": {SINCE: stamp}}})
    await asyncio.sleep(2 * DAY)
    await bed.api.delete(PODS, (await bed.pods())["node-0"]["metadata"]["name"])
    await bed.runs_on("node-0", "node-1")
    await release(bed, pod)
    await bed.settled()
    assert await layout(bed) == "v2 v2"


async def test_a_users_controller_that_takes_its_time_never_sees_two_pods(bed: Bed) -> None:
    await bed.deploy(hooked(hook={**HOOK, "markPodNotReady": True}), nodes=4)
    async with user_controller(bed, most=5.0) as nodes, monitoring(bed, most_unavailable=1), one_at_a_time(bed):
        await bed.update(V2)
    assert nodes == ["node-3", "node-2", "node-1", "node-0"]
    assert await layout(bed) == "v2 v2 v2 v2"


@both_beds
async def test_a_pod_stays_when_its_node_is_to_run_it_after_all(bed: Bed) -> None:
    await bed.add_nodes(2, labels={"pool": "a"})
    await bed.deploy(hooked(hook={**HOOK, "markPodNotReady": True}, affinity=requires(labelled("pool", "a"))))
    before = uids(await bed.pods())
    await bed.label_node("node-1", pool=None)
    await prepared(bed, "node-1")
    await bed.status(misscheduled=1, desired=1)
    await bed.label_node("node-1", pool="a")
    await prepared(bed)
    await bed.settled()
    pod = (await bed.runs_on("node-0", "node-1"))["node-1"]
    assert uids(await bed.pods()) == before
    assert SINCE not in (pod["metadata"].get("annotations") or {})
    assert condition(pod, "KruisePodReady")["status"] == "True"
    await bed.event("CancelledDelete", pod["metadata"]["name"])


@both_beds
async def test_a_pod_leaves_its_traffic_while_its_container_runs_on(bed: Bed) -> None:
    await bed.deploy(hooked(hook={**HOOK, "markPodNotReady": True}), nodes=1)
    new = (await bed.runs_on("node-0"))["node-0"]
    assert {"conditionType": "KruisePodReady"} in new["spec"]["readinessGates"]
    assert condition(new, "KruisePodReady")["status"] == "True"
    await bed.set_image(V2)
    waiting = (await prepared(bed, "node-0"))["node-0"]
    closed = condition(waiting, "KruisePodReady")
    assert (closed["status"], closed["message"], is_ready(waiting)) == ("False", OURS, False)
    assert condition(waiting, "ContainersReady")["status"] == "True"
    await bed.status(available=0)
    await release(bed, waiting)
    await bed.settled()


@both_beds
async def test_another_writers_entry_is_kept_and_keeps_the_pod_not_ready(bed: Bed) -> None:
    await bed.deploy(hooked(hook={**HOOK, "markPodNotReady": True}), nodes=1)
    await list_in_message(bed, f"[{THEIRS}]")
    await bed.status(ready=0)
    await bed.set_image(V2)
    waiting = (await prepared(bed, "node-0"))["node-0"]
    assert condition(waiting, "KruisePodReady")["message"] == f"[{THEIRS},{OURS[1:]}"
    await bed.set_image(V1)
    await prepared(bed)
    await bed.seen()
    await bed.idle()
    (left,) = await live(bed)
    closed = condition(left, "KruisePodReady")
    assert (closed["status"], closed["message"]) == ("False", f"[{THEIRS}]")
    await list_in_message(bed, "[]")
    await bed.settled()


@both_beds
async def test_hooks_come_change_and_go_in_the_midst_of_an_update(bed: Bed) -> None:
    await bed.add_nodes(3)
    made = hooked()
    del made["spec"]["lifecycle"]
    await bed.deploy(made)
    await bed.edit({"lifecycle": {"preDelete": HOOK}})
    await bed.set_image(V2)
    await prepared(bed, "node-2")
    await bed.edit({"lifecycle": {"preDelete": {"labelsHandler": {BLOCK: "other", "app": "agent"}}}})
    await bed.seen()
    await bed.idle()
    assert await layout(bed) == "v1 v1 v1", "another handler holds it"
    await bed.edit({"lifecycle": {"preDelete": {"labelsHandler": {"app": None}}}})
    await bed.settled()
    assert await layout(bed) == "v2 v2 v2", "no handler holds any"
    await bed.condition("HookUnmatched", "NoPodMatches")
    await bed.edit({"lifecycle": {"preDelete": {"labelsHandler": {BLOCK: "true"}}}})
    await bed.until(
        DAEMONSETS, lambda found: "it warns" if condition(found[0], "HookUnmatched") else "", "no warning"
    )
    await bed.set_image(V3)
    await prepared(bed, "node-2")
    await bed.edit({"lifecycle": None})
    await bed.settled()


async def test_finalizers_hold_too_and_a_deletion_by_hand_does_not_wait(bed: Bed) -> None:
    await bed.add_nodes(2)
    made = hooked(hook={"finalizersHandler": ["example.io/hold"]})
    made["spec"]["template"]["metadata"]["finalizers"] = ["example.io/hold"]
    await bed.deploy(made)
    await bed.set_image(V2)
    pod = (await prepared(bed, "node-1"))["node-1"]
    await bed.api.patch(PODS, pod["metadata"]["name"], {"metadata": {"finalizers": None}})
    await prepared(bed, "node-0")
    by_hand = (await bed.pods())["node-0"]["metadata"]["name"]
    await bed.api.delete(PODS, by_hand)
    await bed.api.patch(PODS, by_hand, {"metadata": {"finalizers": None}})
    await bed.settled()


async def test_while_surging_a_held_pod_keeps_its_surge_and_may_serve_again(bed: Bed) -> None:
    await bed.add_nodes(3)
    await bed.deploy(hooked(hook={**HOOK, "markPodNotReady": True}, rolling={"maxSurge": 1, "maxUnavailable": 0}))
    async with monitoring(bed, most_unavailable=0), one_at_a_time(bed):
        await bed.set_image(V2)
        await prepared(bed, "node-2")
        await bed.seen()
        await bed.idle()
        assert await layout(bed) == "v1 v1 v1+v2"
    successor = next(pod for pod in await live(bed) if image_of(pod) == V2)
    bed.nodes.behave("*", UNREADY)
    await bed.nodes.ready(successor, value=False)
    await prepared(bed)
    bed.nodes.behave("*", INSTANT)
    async with monitoring(bed, most_unavailable=0):
        waiting = (await prepared(bed, "node-2"))["node-2"]
        await release(bed, waiting)
        await prepared(bed, "node-1")
    assert await layout(bed) == "v1 v1+v2 v2"


@pytest.mark.parametrize("which", ["pods/status", "pods"])
async def test_an_answer_that_was_lost_prepares_no_second_pod(bed: Bed, which: str) -> None:
    await bed.deploy(hooked(hook={**HOOK, "markPodNotReady": True}), nodes=3)
    lost = Rule(verb="patch", resource=which, effect=LoseAnswer(), times=3)
    bed.simulator.link.faults.add(lost)
    async with one_at_a_time(bed), monitoring(bed, most_unavailable=1):
        await bed.set_image(V2)
        await prepared(bed, "node-2")
        await bed.seen()
        await bed.idle()


async def test_a_controller_ended_at_any_moment_is_succeeded_to_the_end(bed: Bed) -> None:
    """Also between the two writes, whether the reason is still there or not."""
    await bed.deploy(hooked(hook={**HOOK, "markPodNotReady": True}), nodes=2)
    before = uids(await bed.pods())
    refused = Rule(verb="patch", resource="pods", effect=Answer(500))
    for rolled_back in (False, True):
        bed.simulator.link.faults.add(refused)
        await bed.set_image(V2)
        await bed.status(ready=1)
        await bed.controller.kill()
        bed.simulator.link.faults.remove(refused)
        if rolled_back:
            await bed.set_image(V1)
        bed.controller.start()
        await prepared(bed, *([] if rolled_back else ["node-1"]))
    await bed.settled()
    assert uids(await bed.pods()) == before


async def test_while_a_whole_surge_is_held_the_status_says_who_holds_it(bed: Bed) -> None:
    await bed.add_nodes(2)
    await bed.deploy(
        hooked(hook={**HOOK, "markPodNotReady": True}, rolling={"maxSurge": "100%", "maxUnavailable": 0})
    )
    await bed.set_image(V2)
    held = await prepared(bed, "node-0", "node-1")
    await bed.seen()
    await bed.idle()
    await bed.status(ready=2, available=2, updated=0)
    names = ", ".join(held[node]["metadata"]["name"] for node in ("node-1", "node-0"))
    for kind in ("Progressing", "Ready"):
        found = await bed.condition(kind, "HeldByLifecycleHook" if kind == "Progressing" else "Progressing")
        assert f"the preDelete hook holds {names} by label {BLOCK}=true since" in found["message"]
    await bed.set_image(V3)
    await bed.seen()
    await bed.idle()
    found = await bed.condition("Progressing", "HeldByLifecycleHook")
    assert names in found["message"], "not the pods that would go next"


async def test_a_pod_that_has_failed_or_is_misplaced_is_told_of_while_it_is_held(bed: Bed) -> None:
    await bed.add_nodes(3, labels={"pool": "a"})
    await bed.deploy(hooked(affinity=requires(labelled("pool", "a"))))
    await bed.label_node("node-2", pool=None)
    misplaced = (await prepared(bed, "node-2"))["node-2"]["metadata"]["name"]
    await bed.status(desired=2, misscheduled=1)
    await bed.idle()
    found = await bed.condition("Ready", "Healthy")
    assert f"the preDelete hook holds {misplaced} by" in found["message"]
    failed = (await bed.pods())["node-1"]["metadata"]["name"]
    await bed.api.patch(PODS, failed, {"status": {"phase": "Failed"}}, sub="status")
    await prepared(bed, "node-1", "node-2")
    await bed.status(available=1)
    await bed.idle()
    for kind, reason in (("Ready", "Degraded"), ("Progressing", "RolloutComplete")):
        found = await bed.condition(kind, reason)
        assert f"the preDelete hook holds {misplaced}, {failed} by" in found["message"]
