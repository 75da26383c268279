"""A cluster with played nodes and a running controller, the same in a test's hand whatever is behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from controller.runtime.clock import Clock
from tests.beds.api import DAEMONSETS, EVENTS, NODES, PODS, REVISIONS, Api, Object, Resource
from tests.beds.control_plane import ControlPlane
from tests.beds.controller.journal import Counted, Journal
from tests.beds.controller.running import Controller
from tests.beds.nodes import Nodes
from tests.beds.objects import condition, image_of, is_ready, node_of, stays
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.transport import InProcess

Check: TypeAlias = Callable[[list[Object]], str]
"""What is still missing, in words; empty when nothing is."""

SECONDS = 60.0
"""Much more than anything takes, also on a busy machine."""

QUIET = 0.25
"""Seconds without a request after which a controller has usually nothing more to do."""
TICKS = 25
"""Into so many parts a silence is divided; in each of them this process has had its turn."""
REST = 1.0
"""Seconds: what the controller has put off for less is waited for too. After a costly pass it rests for 0.5."""
INSTANT = 0.001
"""Seconds by which a timer may be early: asyncio rounds, and virtual time would stand still for what is left."""

WATCHED = (NODES, REVISIONS, PODS, DAEMONSETS)
"""What the controller keeps."""

FIELDS = {
    "observed": "observedGeneration",
    "desired": "desiredNumberScheduled",
    "current": "currentNumberScheduled",
    "ready": "numberReady",
    "updated": "updatedNumberScheduled",
    "available": "numberAvailable",
    "unavailable": "numberUnavailable",
    "misscheduled": "numberMisscheduled",
    "collisions": "collisionCount",
}


@dataclass(frozen=True)
class Simulation:
    """What only the simulator offers: its objects, and the controller's way to it, with faults."""

    cluster: Cluster
    link: InProcess


@dataclass
class Bed:
    """`api` works in the test's own namespace. `journal` has every write of `controller`, and no other."""

    api: Api
    nodes: Nodes
    controller: Controller
    journal: Journal
    clock: Clock
    """The server's and the nodes', in seconds since 1970."""
    simulation: Simulation | None = None
    plane: ControlPlane | None = None
    machines: Counted | None = None
    """How the nodes' stand-ins reach the server."""
    patience: float = SECONDS
    """Seconds for everything that is waited for."""

    @property
    def simulator(self) -> Simulation:
        """For tests that run on the simulator only."""
        assert self.simulation is not None, "this test needs the simulator"
        return self.simulation

    async def add_nodes(self, count: int, **options: Any) -> list[str]:
        """node-0, node-1 …, all alike; see `Nodes.add` for the options. Returns their names."""
        names = [f"node-{number}" for number in range(count)]
        for name in names:
            await self.nodes.add(name, **options)
        await self.heard()
        return names

    async def deploy(self, new: Object, *, nodes: int = 0) -> list[str]:
        """Create a DaemonSet, with so many nodes, and wait until its status says that it is done. Then the journal
        begins anew. Returns the names of the new nodes."""
        names = await self.add_nodes(nodes)
        await self.api.create(DAEMONSETS, new)
        await self.settled(new["metadata"]["name"])
        await self.idle()
        self.journal.clear()
        return names

    async def daemonset(self, name: str = "agent") -> Object:
        return await self.api.get(DAEMONSETS, name)

    async def edit(self, spec: Object, name: str = "agent") -> Object:
        """Merge these fields into the spec."""
        return await self.api.patch(DAEMONSETS, name, {"spec": spec})

    async def set_image(self, image: str, name: str = "agent") -> Object:
        path = "/spec/template/spec/containers/0/image"
        return await self.api.patch(DAEMONSETS, name, [{"op": "replace", "path": path, "value": image}])

    async def update(self, image: str) -> Object:
        """Set the image, and wait until it is everywhere."""
        await self.set_image(image)
        return await self.settled()

    async def label_node(self, node: str, **labels: str | None) -> Object:
        """None takes a label away."""
        found = await self.api.patch(NODES, node, {"metadata": {"labels": labels}})
        await self.heard()
        return found

    async def taint(self, node: str, *taints: Mapping[str, str]) -> Object:
        """These taints and no others."""
        found = await self.api.patch(NODES, node, {"spec": {"taints": [dict(taint) for taint in taints]}})
        await self.heard()
        return found

    async def pods(self, name: str = "agent") -> dict[str, Object]:
        """Node to the live daemon pod on it, now; fails when there are two on one."""
        found = [pod for pod in await self.api.list(PODS) if stays(pod, name)]
        by_node = {node_of(pod): pod for pod in found}
        assert len(by_node) == len(found), f"two pods on one node: {sorted(map(node_of, found))}"
        return by_node

    async def revisions(self) -> list[Object]:
        """Oldest number first."""
        return sorted(await self.api.list(REVISIONS), key=lambda one: int(one["revision"]))

    async def runs_on(
        self, *nodes: str, name: str = "agent", image: str = "", ready: bool = True
    ) -> dict[str, Object]:
        """Wait until each of these nodes has exactly one live (and ready) pod, of that image if given, and no other
        node has any. Returns them by node."""

        def missing(found: list[Object]) -> str:
            live = [pod for pod in found if stays(pod, name)]
            where = sorted(node_of(pod) for pod in live)
            if where != sorted(nodes):
                return f"live pods of {name} are on {where}"
            if unready := [node_of(pod) for pod in live if ready and not is_ready(pod)]:
                return f"pods that are not ready: {unready}"
            if outdated := [node_of(pod) for pod in live if image and image_of(pod) != image]:
                return f"pods of another image than {image}: {outdated}"
            return ""

        await self.until(PODS, missing, f"one pod of {name} on each of {sorted(nodes)}")
        return await self.pods(name)

    async def settled(self, name: str = "agent") -> Object:
        """Wait until the status says: observed, and everywhere an available pod of the current revision."""

        def missing(one: Object) -> str:
            status = one.get("status") or {}
            if status.get("observedGeneration") != one["metadata"]["generation"]:
                return "the generation is not observed"
            wanted = status["desiredNumberScheduled"]
            fields = ("currentNumberScheduled", "updatedNumberScheduled", "numberAvailable")
            return "" if all(status[field] == wanted for field in fields) else "not everything is available"

        return await self._until_one(name, missing, f"{name} settled")

    async def status(self, name: str = "agent", **wanted: int) -> Object:
        """Wait until the status reads like this (`desired=3, ready=2`), and return the DaemonSet."""

        def missing(one: Object) -> str:
            status = one.get("status") or {}
            there = {short: status.get(FIELDS[short]) for short in wanted}
            return "" if there == wanted else f"the status of {name} has {there}"

        return await self._until_one(name, missing, f"{name} has {wanted}")

    async def condition(self, kind: str, reason: str) -> Object:
        """Wait until that condition has that reason, and return it."""

        def missing(one: Object) -> str:
            there = condition(one, kind)
            return "" if there.get("reason") == reason else f"condition {kind} is {there}"

        return condition(await self._until_one("agent", missing, f"{kind}: {reason}"), kind)

    async def phase(self, phase: str, name: str = "agent") -> Object:
        """Wait until the rollout is in that phase, and return its record."""

        def missing(one: Object) -> str:
            there = rollout_of(one)
            return "" if there.get("phase") == phase else f"the rollout of {name} is {there}"

        return rollout_of(await self._until_one(name, missing, f"{name} is {phase}"))

    async def seen(self, name: str = "agent") -> Object:
        """Wait until the controller has looked at the DaemonSet as it is now and finished what it had to do."""

        def missing(one: Object) -> str:
            observed = (one.get("status") or {}).get("observedGeneration")
            generation = one["metadata"]["generation"]
            return "" if observed == generation else f"observed {observed} of generation {generation}"

        return await self._until_one(name, missing, f"{name} is observed")

    async def _until_one(self, name: str, missing: Callable[[Object], str], what: str) -> Object:
        return named(await self.until(DAEMONSETS, lambda found: missing(named(found, name)), what), name)

    async def event(self, reason: str, text: str = "") -> Object:
        """Wait for an event of that reason whose message contains `text`."""

        def missing(found: list[Object]) -> str:
            told = [(one["reason"], one["message"]) for one in found]
            return "" if any(why == reason and text in words for why, words in told) else f"the events are {told}"

        found = await self.until(EVENTS, missing, f"event {reason} {text!r}")
        return next(one for one in found if one["reason"] == reason and text in one["message"])

    async def until(
        self, resource: Resource, missing: Check, what: str, *, namespace: str | None = None
    ) -> list[Object]:
        """Watch objects until nothing is missing; otherwise fail with what is, and with the controller's writes."""
        words = "nothing has been looked at"

        def done(found: list[Object]) -> bool:
            nonlocal words
            words = missing(found)
            return not words

        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.patience
        while True:
            left = deadline - loop.time()
            try:
                found = await self.api.wait_for(resource, done, what, seconds=left, namespace=namespace)
                if self.plane is not None:  # in a simulator the answer comes first, or a test wants it late
                    async with asyncio.timeout(self.patience):
                        await self.journal.answered()
                return found
            except TimeoutError as error:  # a watch that was silent for long ends so too
                if loop.time() + INSTANT >= deadline:
                    raise AssertionError(f"{error}\n{words}\n{self.journal}") from None

    async def idle(self, seconds: float = QUIET) -> None:
        """Wait until the controller knows what there is and has not asked for anything for that long: whatever it had
        to do is done.

        A starved process is silent too, so the time counts only while this one runs; and unless less than `QUIET` is
        asked for, nothing may be left to do that was only put off for a moment.
        """
        loop = asyncio.get_running_loop()
        deadline, silent, ticks = loop.time() + self.patience, 0, TICKS if seconds else 0
        while True:
            if silent >= ticks and self._rests(seconds):
                if not await self.heard() and self._rests(seconds):
                    return
                silent = 0
            assert loop.time() < deadline, f"no end of writing; {self.journal}"
            before = self.journal.last
            stirred = await self.journal.news(seconds / TICKS if silent < ticks else 0.01)
            silent = 0 if stirred or self.journal.in_flight or self.journal.last != before else silent + 1

    def _rests(self, seconds: float) -> bool:
        if seconds < QUIET or self.journal.in_flight:
            return not self.journal.in_flight
        return not (self.machines and self.machines.under_way) and self.controller.rests(REST)

    async def heard(self) -> bool:
        """Wait until the running controller has been told all that the real server has now: one kind's watch may lag
        behind another's. In a simulator nothing is long on its way, unless a test wants it to be.

        Returns whether it had to be waited for.
        """
        if self.plane is None or not self.controller.is_running:
            return False
        pages = dict(zip(WATCHED, await asyncio.gather(*map(self.api.page, WATCHED)), strict=True))
        try:
            async with asyncio.timeout(self.patience):
                return await self.journal.heard.until(pages)
        except TimeoutError:
            raise AssertionError(f"in {self.patience:g} s the controller was not told all that there is") from None


def named(found: list[Object], name: str) -> Object:
    return next((one for one in found if one["metadata"]["name"] == name), {"metadata": {"generation": -1}})


def rollout_of(one: Object) -> Object:
    """The record in `status.rollout`, empty before the first."""
    return (one.get("status") or {}).get("rollout") or {}


def uids(pods: Mapping[str, Object]) -> dict[str, str]:
    """Node to the uid of the pod on it: equal as long as none was replaced."""
    return {node: pod["metadata"]["uid"] for node, pod in pods.items()}
