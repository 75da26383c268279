"""The preDelete hook: pods are prepared, wait for its controller, and go; or stay, when their reason is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from controller.api.objects import epoch
from tests.beds.api import DAEMONSETS, PODS, STRATEGIC_MERGE_PATCH, Object, Refusal
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.waves import layout, live, roll
from tests.beds.objects import V1, V2, V3, condition, is_ready, labelled, node_of, requires
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import Answer, LateWatch, LoseAnswer, Rule
from tests.beds.simulator.refusal import Refused
from tests.system.admission import judged
from tests.system.both import both_beds
from tests.system.monitor import monitoring
from tests.system.pre_delete import (
    BLOCK,
    DAY,
    HOOK,
    OURS,
    SINCE,
    STATE,
    THEIRS,
    hooked,
    is_prepared,
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


MARK: Object = {**HOOK, "markPodNotReady": True}


def refusing(verb: str, node: str) -> Callable[[Attempt], None]:
    """To prepare the pod of this node (`update`), or to `delete` it."""

    def judge(attempt: Attempt) -> None:
        concerns = verb == "delete" or (not attempt.subresource and is_prepared(attempt.object))
        if attempt.verb == verb and concerns and node_of(attempt.object) == node:
            raise Refused(403, "Forbidden", "denied by policy")

    return judge


async def test_a_pod_held_by_now_is_not_deleted_by_a_late_cache(bed: Bed) -> None:
    await bed.add_nodes(1)
    made = hooked()
    del made["spec"]["template"]["metadata"]["labels"][BLOCK]
    await bed.deploy(made)
    late = Rule(verb="watch", resource="pods", effect=LateWatch(seconds=3))
    bed.simulator.link.faults.add(late)
    await bed.controller.kill()
    bed.controller.start()
    await bed.idle(5)
    before = uids(await bed.pods())
    name = (await bed.pods())["node-0"]["metadata"]["name"]
    await bed.api.patch(PODS, name, {"metadata": {"labels": {BLOCK: "true"}}})
    await bed.set_image(V2)
    await prepared(bed, "node-0")
    assert uids(await bed.pods()) == before


@pytest.mark.parametrize("verb", ["update", "delete"])
async def test_a_pod_that_cannot_be_prepared_serves_on_and_others_go(bed: Bed, verb: str) -> None:
    await bed.deploy(hooked(hook=MARK), nodes=3)
    async with one_at_a_time(bed), monitoring(bed, most_unavailable=1):
        with judged(bed, refusing(verb, "node-2")):
            async with user_controller(bed, most=1.0):
                await bed.set_image(V2)
                await bed.status(updated=2, available=3)
            found = await bed.condition("Degraded", "WritesFail")
            assert "denied by policy" in found["message"]
            assert await layout(bed) == "v2 v2 v1"
            bed.journal.clear()
            await asyncio.sleep(600)
            assert len(bed.journal.work) < 20, bed.journal
            assert not bed.journal.of("pods/status"), "it leaves its traffic once"
            assert is_ready((await bed.pods())["node-2"])
        bed.patience = 600.0
        async with user_controller(bed, most=1.0):
            await bed.settled()


STRIPPED, TRUE, CLOSED, HELD = "label stripped", "set True", "set False", "label set"


@asynccontextmanager
async def meddling(bed: Bed, how: str) -> AsyncIterator[None]:
    """A webhook or another controller takes back what ours has written, each time."""

    def strip(attempt: Attempt) -> None:
        if attempt.verb == "update" and not attempt.subresource:
            (attempt.object["metadata"].get("labels") or {}).pop(STATE, None)

    async def again() -> None:
        while True:
            for pod in await bed.api.list(PODS):
                with suppress(Refusal):
                    await meddle(pod)
            await asyncio.sleep(0.5)

    async def meddle(pod: Object) -> None:
        name, status = pod["metadata"]["name"], condition(pod, "KruisePodReady").get("status")
        if how == HELD:
            if not is_prepared(pod):
                await bed.api.patch(PODS, name, {"metadata": {"labels": {STATE: "PreparingDelete"}}})
        elif status == ("False" if how == TRUE else "True"):
            written = {"type": "KruisePodReady", "status": "True" if how == TRUE else "False", "message": ""}
            change = {"status": {"conditions": [written]}}
            await bed.api.patch(PODS, name, change, content_type=STRATEGIC_MERGE_PATCH, sub="status")

    if how == STRIPPED:
        with judged(bed, strip):
            yield
        return
    task = asyncio.create_task(again(), name="meddler")
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("how", [STRIPPED, TRUE, CLOSED, HELD])
async def test_a_client_that_reverts_what_was_written_is_reported_and_not_fought(bed: Bed, how: str) -> None:
    await bed.deploy(hooked(hook=MARK), nodes=2)
    async with meddling(bed, how):
        if how in (STRIPPED, TRUE):
            await bed.set_image(V2)
        found = await bed.condition("Degraded", "WritesFail")
        assert "taken back by a webhook or by another controller" in found["message"]
        await asyncio.sleep(60)
        bed.journal.clear()
        await asyncio.sleep(300)
        assert len(bed.journal.of("pods")) + len(bed.journal.of("pods/status")) < 40, bed.journal
    bed.patience = 1200.0
    async with user_controller(bed, most=1.0):
        await bed.settled()
    await bed.condition("Degraded", "AsExpected")


async def test_a_label_that_the_selector_asks_for_lets_a_pod_go_and_not_run_away(bed: Bed) -> None:
    """It would be released, run on beside its successor, and would never be deleted."""
    await bed.add_nodes(2)
    made = hooked(hook=MARK)
    made["spec"]["selector"] = {"matchLabels": {"app": "agent", BLOCK: "true"}}
    await bed.deploy(made)
    before = uids(await bed.pods())
    await bed.set_image(V2)
    pod = (await prepared(bed, "node-1"))["node-1"]
    await bed.controller.stop()
    await release(bed, pod)
    await roll(bed, paused=True)
    bed.controller.start()
    await prepared(bed)
    await bed.status(available=2)
    assert uids(await bed.pods()) == before
    assert (await bed.pods())["node-1"]["metadata"]["labels"][BLOCK] == "true", "it is held the next time"
    await roll(bed, paused=None)
    async with user_controller(bed, most=1.0), monitoring(bed, most_unavailable=1):
        await bed.settled()
    assert len(await bed.api.list(PODS)) == 2
