"""Pullers that somebody else deletes, lays claim to, or is in the way of (virtual time)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.beds.api import IMAGE_PULL_JOBS, PODS, Refusal
from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.system.pulls import counts, job, over, pulling, reads

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
        assert found["message"] == "job has completed; node-0: its pod was deleted by somebody else"


async def test_a_puller_that_was_deleted_once_comes_again(pulls: Bed) -> None:
    await pulls.add_nodes(1)
    pulls.nodes.behave("*", Behaviour(pull=30.0))
    await pulls.api.create(IMAGE_PULL_JOBS, job())
    await reads(pulls, 1, 1, 0, 0)
    (pod,) = await pulls.api.list(PODS)
    await pulls.api.delete(PODS, pod["metadata"]["name"])
    assert counts(await over(pulls)) == (1, 0, 1, 0)
