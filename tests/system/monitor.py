"""Watches a rollout from outside, with streams of its own: every event is judged, in the server's order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field

from tests.beds.api import DAEMONSETS, NODES, PODS, REVISIONS, Event, Object, Resource, closing
from tests.beds.controller.bed import Bed
from tests.beds.objects import node_of
from tests.system.limits import Judge, State, hash_of

WATCHED = (DAEMONSETS, NODES, REVISIONS, PODS)


@dataclass
class Monitor:
    """What the server told, and when that arrived here. Versions count all kinds of objects together."""

    bed: Bed
    first: list[tuple[Resource, Object]] = field(default_factory=list)
    events: list[tuple[int, Resource, Event, float]] = field(default_factory=list)
    _reached: dict[Resource, int] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def watch(self, resource: Resource, listed: asyncio.Event) -> None:
        """Until cancelled: a list, and from there every event. What ends, or is silent, goes on in another."""
        page = await self.bed.api.page(resource)
        self.first += [(resource, item) for item in page["items"] or []]
        self._reached[resource] = int(page["metadata"]["resourceVersion"])
        listed.set()
        while True:
            with suppress(TimeoutError):
                await self._follow(resource, str(self._reached[resource]))

    async def _follow(self, resource: Resource, since: str) -> None:
        events = self.bed.api.watch(resource, resourceVersion=since)
        async with aclosing(closing(events)) as stream:
            async for event in stream:
                assert event.type != "ERROR", f"the watch of {resource.plural} ended: {event.object}"
                reached = int(event.object["metadata"]["resourceVersion"])
                self.events.append((reached, resource, event, self.bed.clock()))
                self._reached[resource] = reached
                self._news.set()

    async def catch_up(self) -> None:
        """Wait until everything that the server has now was told; a pod of ours ends the stream of pods."""
        name = f"marker-{self._reached[PODS]}"
        pod = {"schedulerName": "nobody", "containers": [{"name": "none", "image": "none"}]}
        await self.bed.api.create(PODS, {"metadata": {"name": name}, "spec": pod})
        async with asyncio.timeout(self.bed.patience):
            for resource in WATCHED:
                there = await self.bed.api.list(resource)
                newest = max((int(one["metadata"]["resourceVersion"]) for one in there), default=0)
                while self._reached[resource] < newest:
                    self._news.clear()
                    await self._news.wait()
        await self.bed.api.delete(PODS, name, options={"gracePeriodSeconds": 0})

    def judge(self, judge: Judge, began: float) -> list[str]:
        """Every broken moment since `began`, each told once."""
        for resource, found in self.first:
            judge.scene.apply(resource, Event("ADDED", found), began)
        for pod in sorted(judge.scene.live, key=lambda pod: str(pod["metadata"]["creationTimestamp"])):
            judge.scene.last[node_of(pod)] = hash_of(pod)
        for _, resource, event, at in sorted(self.events, key=lambda told: told[0]):
            judge.see(resource, event, at)
        return judge.wrong


@asynccontextmanager
async def monitoring(bed: Bed, *, name: str = "agent", most_unavailable: int | None = None) -> AsyncIterator[Monitor]:
    """Fails at its end with every moment in which the server's objects broke a limit: see `Judge`.

    maxSurge, partition, selector and pause are those of the DaemonSet as the server had it at that moment;
    `most_unavailable` is the test's own. A test that edits them waits until the controller is idle before.
    """
    monitor, began = Monitor(bed), bed.clock()
    listed = {resource: asyncio.Event() for resource in WATCHED}
    tasks = [asyncio.create_task(monitor.watch(one, ready), name=one.plural) for one, ready in listed.items()]
    try:
        async with asyncio.timeout(bed.patience):
            for ready in listed.values():
                await ready.wait()
        yield monitor
        await monitor.catch_up()
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends
    wrong = monitor.judge(Judge(State(name), most_unavailable), began)
    assert not wrong, "\n".join(dict.fromkeys(wrong))
