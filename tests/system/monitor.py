"""Watches a rollout from outside, with streams of its own, and judges every event in the server's order.

Nothing here comes from the controller: eligibility, limits and revisions are worked out anew, for the plain cases
that tests use (taints and nodeSelector, no tolerations of the template's own, no affinity).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field

from controller.api.objects import epoch
from controller.api.revision import template_of
from tests.beds.api import DAEMONSETS, NODES, PODS, REVISIONS, Event, Object, Resource, apply, closing
from tests.beds.controller.bed import Bed, named
from tests.beds.controller.waves import HASH
from tests.beds.objects import condition, image_of, is_ready, node_of, stays

WATCHED = (DAEMONSETS, NODES, REVISIONS, PODS)


@dataclass
class State:
    """The objects as the server has them after one event, and what that means for the DaemonSet `name`."""

    name: str
    objects: defaultdict[Resource, dict[str, Object]] = field(default_factory=lambda: defaultdict(dict))
    """By uid."""
    since: dict[str, tuple[str, float]] = field(default_factory=dict)
    """uid of a pod to the time stamp of its readiness, and the moment from which that counts."""
    live: list[Object] = field(default_factory=list)
    """The pods that `stays` says are there."""
    now: float = 0.0

    def apply(self, resource: Resource, event: Event, now: float) -> None:
        apply(self.objects[resource], event)
        self.now = now
        if resource is PODS:
            self.live = [pod for pod in self.of(PODS) if stays(pod, self.name)]
        if resource is PODS and event.type != "DELETED":
            stamp = condition(event.object, "Ready").get("lastTransitionTime") or ""
            uid = event.object["metadata"]["uid"]
            if self.since.get(uid, ("", 0.0))[0] != stamp:  # a node's clock may be ahead: then it counts from now
                self.since[uid] = stamp, min(epoch(stamp) or now, now)

    def of(self, resource: Resource) -> list[Object]:
        return list(self.objects[resource].values())

    @property
    def spec(self) -> Object:
        spec: Object = named(self.of(DAEMONSETS), self.name).get("spec") or {}
        return spec

    @property
    def pairs(self) -> set[str]:
        """The nodes with two live pods or more."""
        nodes = [node_of(pod) for pod in self.live]
        return {node for node in nodes if nodes.count(node) > 1}

    @property
    def eligible(self) -> set[str]:
        wanted = ((self.spec.get("template") or {}).get("spec") or {}).get("nodeSelector") or {}
        return {
            node["metadata"]["name"]
            for node in self.of(NODES)
            if wanted.items() <= (node["metadata"].get("labels") or {}).items()
            and all(taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints") or [])
        }

    def is_current(self, pod: Object) -> bool:
        hash_, template = (pod["metadata"].get("labels") or {}).get(HASH), self.spec.get("template")
        stored = [one for one in self.of(REVISIONS) if one["metadata"]["labels"][HASH] == hash_]
        return any(template_of(one["data"]) == template for one in stored)

    def is_available(self, pod: Object) -> bool:
        """Ready for minReadySeconds, give or take the second that time stamps do not tell."""
        ready = is_ready(pod) and pod["status"]["phase"] == "Running"
        wait = float(self.spec.get("minReadySeconds") or 0)
        return bool(ready) and self.now >= self.since[pod["metadata"]["uid"]][1] + wait

    @property
    def max_surge(self) -> int:
        """Against the nodes that are eligible now."""
        rolling = (self.spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
        value = rolling.get("maxSurge") or 0
        return -(-int(value.rstrip("%")) * len(self.eligible) // 100) if isinstance(value, str) else int(value)


@dataclass
class Judge:
    """Looks at each event once, in the server's order. `wrong` has a line for every broken moment."""

    state: State
    most_unavailable: int | None = None
    """How many eligible nodes may be without an available pod; None: that is not what the test is about."""
    excused: set[str] = field(default_factory=set)
    """Nodes whose old pod was unavailable when its partner came: they need no surge."""
    idle: int = 0
    """Eligible nodes without an available pod, after the last event: only more of them are reported again."""
    wrong: list[str] = field(default_factory=list)

    def see(self, resource: Resource, event: Event, now: float) -> None:
        state, uid = self.state, event.object["metadata"]["uid"]
        before = next((pod for pod in state.live if pod["metadata"]["uid"] == uid), None)
        was_available = before is not None and state.is_available(before)
        state.apply(resource, event, now)
        if resource is PODS and event.type == "ADDED" and stays(event.object, state.name):
            self._arrives(event)
        if before is not None and not any(pod["metadata"]["uid"] == uid for pod in state.live):
            self._leaves(before, was_available=was_available)
        self.excused &= state.pairs
        idle = state.eligible - {node_of(pod) for pod in state.live if state.is_available(pod)}
        if self.most_unavailable is not None and len(idle) > max(self.most_unavailable, self.idle):
            self._tell(event, f"without an available pod: {', '.join(sorted(idle))}", idle)
        self.idle = len(idle)

    def _arrives(self, event: Event) -> None:
        state, pod, node = self.state, event.object, node_of(event.object)
        others = [one for one in state.live if node_of(one) == node and one is not pod]
        if others and not state.max_surge:
            self._tell(event, f"a second pod on {node} without surge", {node})
        if any(state.is_current(one) == state.is_current(pod) for one in others):
            self._tell(event, f"two pods of a kind on {node}", {node})
        if others and not any(map(state.is_available, others)):
            self.excused.add(node)
        crowded = state.pairs - self.excused
        if len(crowded) > state.max_surge > 0:
            self._tell(event, f"more than maxSurge nodes have two pods: {', '.join(sorted(crowded))}", crowded)

    def _leaves(self, pod: Object, *, was_available: bool) -> None:
        """A pod is deleted: not one that serves, where its partner does not yet."""
        state, node = self.state, node_of(pod)
        partners = [one for one in state.live if node_of(one) == node]
        if was_available and partners and node in state.eligible and not any(map(state.is_available, partners)):
            name = pod["metadata"]["name"]
            self._tell(Event("DELETED", pod), f"{node} loses {name} before another serves", {node})

    def _tell(self, event: Event, words: str, nodes: Collection[str]) -> None:
        there = [self._describe(pod) for pod in self.state.of(PODS) if node_of(pod) in nodes]
        where = f"at version {event.object['metadata']['resourceVersion']}"
        self.wrong.append("\n  ".join([f"{where}: {words}", *sorted(there)]))

    def _describe(self, pod: Object) -> str:
        kind = "current" if self.state.is_current(pod) else "old"
        going = "going" if pod["metadata"].get("deletionTimestamp") else pod["status"].get("phase", "")
        available = ", available" if pod in self.state.live and self.state.is_available(pod) else ""
        image = image_of(pod).rpartition(":")[2]
        return f"{node_of(pod)}: {pod['metadata']['name']} ({kind}, {image}, {going}{available})"


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
        """Wait until everything that the server has now was reported; a pod of ours ends the stream of pods."""
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
            judge.state.apply(resource, Event("ADDED", found), began)
        for _, resource, event, at in sorted(self.events, key=lambda told: told[0]):
            judge.see(resource, event, at)
        return judge.wrong


@asynccontextmanager
async def monitoring(bed: Bed, *, name: str = "agent", most_unavailable: int | None = None) -> AsyncIterator[Monitor]:
    """Fails at its end with every moment in which the server's objects broke a limit: see `Judge`.

    maxSurge is that of the DaemonSet as the server had it at that moment; `most_unavailable` is the test's own.
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
