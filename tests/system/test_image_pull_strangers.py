"""Pullers that somebody else deletes, lays claim to, or is in the way of (virtual time)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
import pytest

from controller.api.image_pull_job import ImagePullJobView, project
from controller.api.puller import PULLER_LABEL
from controller.imagepull.puller_manifest import pod_name
from controller.imagepull.puller_results import LOST
from tests.beds.api import IMAGE_PULL_JOBS, PODS, Object, Refusal
from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import pod
from tests.beds.simulator.cluster import Attempt
from tests.system.pulls import counts, job, no_pods, over, pulling, reads, restart
from tests.system.webhook import judged

ENDLESS = Behaviour(pull=1e6)


async def delete_whatever_comes(bed: Bed) -> None:
    async for event in bed.api.watch(PODS):
        if event.type == "ADDED":
            with suppress(Refusal):
                await bed.api.delete(PODS, event.object["metadata"]["name"])


async def test_who_deletes_each_puller_ends_attempts_and_makes_no_flood() -> None:
    async with pulling() as bed:
        bed.patience = 15.0
        await bed.add_nodes(2)
        bed.nodes.behave("*", ENDLESS)
        deleting = asyncio.create_task(delete_whatever_comes(bed))
        await bed.api.create(IMAGE_PULL_JOBS, job(pullPolicy={"backoffLimit": 2}))
        found = await over(bed)
        deleting.cancel()
        assert (counts(found), len(bed.journal.created)) == ((2, 0, 0, 2), 6)
        assert found["message"] == f"job has completed; node-0: {LOST}"


async def test_a_puller_that_was_deleted_once_comes_again(pulls: Bed) -> None:
    await pulls.add_nodes(1)
    pulls.nodes.behave("*", Behaviour(pull=30.0))
    await pulls.api.create(IMAGE_PULL_JOBS, job())
    await reads(pulls, 1, 1, 0, 0)
    (puller,) = await pulls.api.list(PODS)
    await pulls.api.delete(PODS, puller["metadata"]["name"])
    assert counts(await over(pulls)) == (1, 0, 1, 0)


async def test_a_pod_that_has_a_pullers_name_is_told_and_the_job_goes_on_when_it_is_gone(pulls: Bed) -> None:
    await pulls.add_nodes(2)
    await pulls.api.create(IMAGE_PULL_JOBS, job(parallelism=0))
    (made,) = await pulls.until(
        IMAGE_PULL_JOBS, lambda found: "" if found[0].get("status") else "not seen", "is seen"
    )
    name = pod_name(project(msgspec.convert(made, ImagePullJobView)), "node-1")
    await pulls.api.create(PODS, pod(name, on="node-0"))
    await pulls.api.patch(IMAGE_PULL_JOBS, "pull", {"spec": {"parallelism": 1}})
    await pulls.event("FailedCreate", f'pods "{name}" already exists')

    def missing(found: list[Object]) -> str:
        told = str(found[0]["status"]["message"])
        return "" if "already exists" in told else told

    await pulls.until(IMAGE_PULL_JOBS, missing, "the job tells of it")
    assert pulls.journal.created[0] == "node-0"
    await pulls.api.delete(PODS, name)
    assert counts(await over(pulls)) == (2, 0, 2, 0)


async def test_who_sends_pullers_elsewhere_makes_no_flood() -> None:
    def judge(attempt: Attempt) -> None:
        if attempt.verb == "create":
            attempt.object["spec"]["nodeName"] = "node-0"

    async with pulling() as bed:
        bed.patience = 15.0
        await bed.add_nodes(3)
        with judged(bed, judge):
            await bed.api.create(IMAGE_PULL_JOBS, job(parallelism=2, pullPolicy={"backoffLimit": 2}))
            found = await over(bed)
    assert (counts(found), found["failedNodes"]) == ((3, 0, 1, 2), ["node-1", "node-2"])


@pytest.mark.parametrize("away", [True, False], ids=["while the controller is away", "while it runs"])
async def test_pullers_that_are_left_as_orphans_go(away: bool) -> None:
    async with pulling() as bed:
        await bed.add_nodes(3)
        bed.nodes.behave("*", ENDLESS)
        await bed.api.create(IMAGE_PULL_JOBS, job(parallelism=3))
        await reads(bed, 3, 3, 0, 0)
        if away:
            await bed.controller.kill()
        await bed.api.delete(IMAGE_PULL_JOBS, "pull", propagationPolicy="Orphan")
        assert [
            owner for one in await bed.api.list(PODS) for owner in one["metadata"].get("ownerReferences") or []
        ] == []
        if away:
            restart(bed)
        await no_pods(bed)


async def test_a_puller_that_is_taken_from_its_job_makes_room_for_another_one(pulls: Bed) -> None:
    await pulls.add_nodes(1)
    pulls.nodes.behave("*", Behaviour(pull=30.0))
    await pulls.api.create(IMAGE_PULL_JOBS, job())
    await reads(pulls, 1, 1, 0, 0)
    (puller,) = await pulls.api.list(PODS)
    await pulls.api.patch(PODS, puller["metadata"]["name"], {"metadata": {"ownerReferences": None}})
    assert counts(await over(pulls)) == (1, 0, 1, 0)
    assert len(pulls.journal.created) == 2


async def test_a_pod_that_only_has_the_label_is_left_alone(pulls: Bed) -> None:
    await pulls.add_nodes(1)
    await pulls.api.create(PODS, pod("theirs", on="node-0", labels={PULLER_LABEL: "x"}))
    await pulls.idle()
    await pulls.api.get(PODS, "theirs")
    assert pulls.journal.of("pods", "delete") == []
