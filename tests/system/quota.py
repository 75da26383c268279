"""A namespace that admits only so many pods, or no more revisions, on both beds.

On the real server we count: its own controller counts what a cache shows, and where that does not show the newest pod
yet, one too many is let in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager

from tests.beds import api
from tests.beds.api import Api, Object, Refusal, Resource, closing
from tests.beds.controller.bed import Bed
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.kinds import PODS, REVISIONS
from tests.beds.simulator.refusal import forbidden

QUOTAS = Resource("/api/v1", "resourcequotas", "ResourceQuota")
ALL_PODS, ALL_REVISIONS = "pods", "count/controllerrevisions.apps"
NAME = "full"
LONG = 3600.0
"""Seconds for which nothing may happen to any pod."""


async def limit_pods(bed: Bed, count: int) -> None:
    """No more than that many pods in the namespace, ever."""
    if bed.simulation is None:
        await _store(bed.api, {ALL_PODS: count}, used=0)
        return
    made: list[str] = []

    def admit(attempt: Attempt) -> None:
        if attempt.kind is PODS and attempt.verb == "create":
            if len(made) >= count:
                raise forbidden(PODS, attempt.name, "exceeded quota: pods")
            made.append(attempt.name)

    bed.simulation.cluster.admission.append(admit)


async def lift_limit(bed: Bed) -> None:
    if bed.simulation is not None:
        bed.simulation.cluster.admission.clear()
    else:
        await bed.api.delete(QUOTAS, NAME)


@asynccontextmanager
async def no_more_revisions(bed: Bed) -> AsyncIterator[None]:
    """While the block runs a quota of objects refuses every new ControllerRevision."""
    if bed.simulation is None:
        await _store(bed.api, {ALL_REVISIONS: 1}, used=1)
        yield
        await bed.api.delete(QUOTAS, NAME)
        return

    def admit(attempt: Attempt) -> None:
        if attempt.kind is REVISIONS and attempt.verb == "create":
            raise forbidden(REVISIONS, attempt.name, "exceeded quota: revisions")

    bed.simulation.cluster.admission.append(admit)
    yield
    bed.simulation.cluster.admission.remove(admit)


@asynccontextmanager
async def full_quota(bed: Bed, count: int) -> AsyncIterator[None]:
    """No more than that many pods at a time, while the block runs; nobody makes or deletes any as it begins."""
    if bed.simulation is None:
        there = await bed.api.page(api.PODS)
        await _store(bed.api, {ALL_PODS: count}, used=len(there["items"]))
        async with asyncio.TaskGroup() as group:
            counting = group.create_task(_count_off(bed.api, there["metadata"]["resourceVersion"]))
            yield
            counting.cancel()
        await bed.api.delete(QUOTAS, NAME)
        return
    cluster = bed.simulation.cluster

    def admit(attempt: Attempt) -> None:
        new = attempt.kind is PODS and attempt.verb == "create"
        if new and len(cluster.store.objects[PODS]) >= count:
            raise forbidden(PODS, attempt.name, "exceeded quota: pods")

    cluster.admission.append(admit)
    yield
    cluster.admission.remove(admit)


async def _store(server: Api, hard: Mapping[str, int], *, used: int) -> None:
    limits = {what: str(most) for what, most in hard.items()}
    status = {"hard": limits, "used": dict.fromkeys(hard, str(used))}
    await server.create(QUOTAS, {"metadata": {"name": NAME}, "spec": {"hard": limits}})
    await server.patch(QUOTAS, NAME, {"status": status}, sub="status")


async def _count_off(server: Api, version: str) -> None:
    """The server itself counts only the pods that it lets in. Until cancelled."""
    async with aclosing(closing(server.watch(api.PODS, resourceVersion=version, silence=LONG))) as events:
        async for event in events:
            if event.type == "DELETED":
                await _one_less(server)


async def _one_less(server: Api) -> None:
    while True:
        quota: Object = await server.get(QUOTAS, NAME)
        used = quota["status"]["used"]
        used[ALL_PODS] = str(int(used[ALL_PODS]) - 1)
        try:
            await server.replace(QUOTAS, quota, sub="status")
            return
        except Refusal as refusal:
            if refusal.status != 409:  # it has just let another one in
                raise
