"""The preDelete hook when writes are refused or taken back, watches lag, and others write the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from tests.beds.api import DAEMONSETS, PODS, STRATEGIC_MERGE_PATCH, Object, Refusal
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.waves import layout, roll
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, V3, condition, is_ready, node_of
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import LateWatch, Rule
from tests.beds.simulator.refusal import Refused
from tests.system.monitor import monitoring
from tests.system.pre_delete import (
    BLOCK,
    HOOK,
    STATE,
    hooked,
    is_prepared,
    list_in_message,
    one_at_a_time,
    prepared,
    release,
    user_controller,
)
from tests.system.webhook import judged

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
async def test_who_takes_back_what_was_written_is_told_of_and_not_fought(bed: Bed, how: str) -> None:
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
    """It would be released, run on beside its successor, and nobody would ever delete it."""
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


async def test_a_pod_kept_not_ready_by_others_in_their_words_stays_so(bed: Bed) -> None:
    await bed.deploy(hooked(hook=MARK), nodes=1)
    await list_in_message(bed, "kept for maintenance")
    await bed.status(ready=0)
    await bed.set_image(V2)
    await prepared(bed, "node-0")
    await bed.set_image(V1)
    await prepared(bed)
    await bed.idle()
    (pod,) = (await bed.pods()).values()
    closed = condition(pod, "KruisePodReady")
    assert (closed["status"], closed["message"]) == ("False", "kept for maintenance")


async def test_a_pod_that_was_let_go_waits_for_the_image_of_its_successor(pulls: Bed) -> None:
    await pulls.deploy(hooked(hook=MARK), nodes=2)
    waits = {"kruise-ds/image-predownload-wait": "true", "apps.kruise.io/image-predownload-parallelism": "2"}
    await pulls.api.patch(DAEMONSETS, "agent", {"metadata": {"annotations": waits}})
    await pulls.set_image(V2)
    pod = (await prepared(pulls, "node-1"))["node-1"]
    pulls.nodes.behave("*", Behaviour(pull=300.0))
    await pulls.set_image(V3)
    await pulls.idle(5)
    await release(pulls, pod)
    await pulls.idle(5)
    assert uids(await pulls.pods())["node-1"] == pod["metadata"]["uid"]
    async with user_controller(pulls, most=1.0), monitoring(pulls, most_unavailable=1):
        await pulls.settled()
