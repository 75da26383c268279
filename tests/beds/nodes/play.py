"""`Nodes`: the machines of a cluster as one object that a test holds in its hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Self, TypeAlias

from controller.api.objects import rfc3339
from controller.kube.requests import Transport
from controller.runtime.clock import Clock, system_clock
from tests.beds import objects
from tests.beds.api import LEASES, MERGE_PATCH, NODES, PODS, Api, Object, Refusal
from tests.beds.nodes import statuses
from tests.beds.nodes.kubelet import Kubelet
from tests.beds.nodes.machine import heartbeat, lost_conditions, node_manifest, ready_conditions, unreachable_taints
from tests.beds.nodes.mirror import Mirror
from tests.beds.nodes.scheduler import PodGarbage, Scheduler
from tests.beds.nodes.stages import DEAD, INSTANT, Behaviour

Status: TypeAlias = Callable[[Object, str], Object]

LEASE_NAMESPACE = "kube-node-lease"


class Nodes:
    """Plays scheduler and kubelets through `transport`, on a simulated or on a real API server.

        async with Nodes(transport) as nodes:
            await nodes.add("node-1", labels={"zone": "a"})
            nodes.behave("node-1", Behaviour(ready=None))

    `schedule=False` where a real scheduler runs; `heartbeat` seconds between the Leases of each node, None for no
    heartbeat (only the node life-cycle controller listens to it); `pod_garbage` seconds after which the pods of a
    node that is gone go too, None where kube-controller-manager sees to it, or they shall stay.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        behaviour: Behaviour = INSTANT,
        clock: Clock = system_clock,
        schedule: bool = True,
        heartbeat: float | None = None,
        pod_garbage: float | None = None,
    ) -> None:
        self._api, self._clock = Api(transport), clock
        self._default, self._behaviours = behaviour, dict[str, Behaviour | None]()
        self._schedule, self._heartbeat, self._pod_garbage = schedule, heartbeat, pod_garbage
        self._scope = AsyncExitStack()

    @property
    def names(self) -> list[str]:
        """The nodes that are played."""
        return list(self._behaviours)

    async def __aenter__(self) -> Self:
        await self._scope.enter_async_context(self._running())
        await self._pods.synced.wait()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._scope.aclose()

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._kubelet = Kubelet(self._api, self._clock, group, self.behaviour_of)
            self._scheduler = Scheduler(self._api, self._clock)
            self._pods = Mirror(self._api, PODS, seen=self._pod_seen, lost=self._pod_lost)
            tasks = [group.create_task(self._pods.run(), name="pods")]
            if self._schedule:
                tasks.append(group.create_task(self._scheduler.run(), name="scheduler"))
            if self._heartbeat is not None:
                tasks.append(group.create_task(self._beat(self._heartbeat), name="heartbeats"))
            if self._pod_garbage is not None:
                garbage = PodGarbage(self._api, self._clock, self._pods.objects.values, self._pod_garbage)
                tasks.append(group.create_task(garbage.run(), name="pod garbage"))
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                self._kubelet.stop()

    def behaviour_of(self, node: str) -> Behaviour | None:
        """None for a node that is not played here."""
        if node not in self._behaviours:
            return None
        return self._behaviours[node] or self._default

    def behave(self, node: str, behaviour: Behaviour | None = None) -> None:
        """From now on the node behaves like this; None: like all others. `node` "*": the others themselves."""
        if node == "*":
            self._default = behaviour or INSTANT
        elif node in self._behaviours:
            self._behaviours[node] = behaviour
        else:
            raise LookupError(f"{node} is not played; there are: {', '.join(self._behaviours)}")
        for name in self.names if node == "*" else [node]:
            self._kubelet.poke(name)

    async def add(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        allocatable: Mapping[str, str] | None = None,
        behaviour: Behaviour | None = None,
    ) -> Object:
        """A new node, ready; or one that exists already, from now on played here. Returns it."""
        manifest = node_manifest(name, labels or {}, taints, allocatable or {}, rfc3339(self._clock()))
        self._behaviours[name] = behaviour
        self._kubelet.allocatable[name] = manifest["status"]["allocatable"]
        try:
            node = await self._api.create(NODES, manifest)
        except Refusal as refusal:
            if refusal.reason != "AlreadyExists":
                raise
        else:
            if objects.condition(node, "Ready").get("status") == "True":
                return node
        return await self._api.patch(NODES, name, {"status": manifest["status"]}, sub="status")

    async def remove(self, name: str) -> None:
        """The machine is gone: no kubelet, no Node object. Its pods stay until they are deleted."""
        self._behaviours.pop(name, None)
        self._kubelet.forget(name)
        await self._api.delete(NODES, name)

    async def lose(self, name: str) -> None:
        """The machine goes silent, and the node life-cycle controller has noticed: unknown, tainted unreachable."""
        self.behave(name, DEAD)
        now = rfc3339(self._clock())
        await self._api.patch(NODES, name, {"status": {"conditions": lost_conditions(now)}}, sub="status")
        await self._retaint(name, unreachable_taints(now))

    async def regain(self, name: str, behaviour: Behaviour | None = None) -> None:
        """The machine is back after `lose`."""
        now = rfc3339(self._clock())
        await self._api.patch(NODES, name, {"status": {"conditions": ready_conditions(now)}}, sub="status")
        await self._retaint(name, [])
        self.behave(name, behaviour)

    def begin_anew(self) -> None:
        """All kubelets are restarted, as after the server was restored: what they knew counts no more."""
        for pod in [*self._pods.objects.values()]:
            self._pod_lost(pod)
        self._pods.objects.clear()

    def images_of(self, name: str) -> frozenset[str]:
        """What the node has."""
        return frozenset(self._kubelet.images_of(name))

    def environment_of(self, pod: Object, container: str = "agent") -> dict[str, str]:
        """What the container read there when it was started."""
        return self._kubelet.environment_of(pod, container)

    async def ready(self, pod: Object, *, value: bool = True) -> Object:
        """The containers run and are ready, or with `value=False` not ready. Returns the pod."""
        return await self._write(pod, lambda found, now: statuses.running(found, now, ready=value))

    async def fail(self, pod: Object, *, reason: str = "") -> Object:
        return await self._write(pod, lambda found, now: statuses.ended(found, "Failed", reason, "", now))

    async def succeed(self, pod: Object) -> Object:
        return await self._write(pod, lambda found, now: statuses.ended(found, "Succeeded", "", "", now))

    async def crash(self, pod: Object) -> Object:
        return await self._write(pod, statuses.crashed)

    async def gone(self, pod: Object) -> Object:
        """What was deleted has gone from the node."""
        return await self._kubelet.writer.remove(pod)

    async def _write(self, pod: Object, status: Status) -> Object:
        metadata = pod["metadata"]
        async with self._kubelet.writer.turn(pod):
            found = await self._api.get(PODS, metadata["name"], namespace=metadata["namespace"])
            after = await self._kubelet.writer.write(found, status(found, rfc3339(self._clock())))
            self._kubelet.pod_seen(after)
        return after

    async def _retaint(self, name: str, taints: list[Object]) -> None:
        """Replace the taints of a silent node by these; foreign taints stay."""
        node = await self._api.get(NODES, name)
        kept = [
            taint
            for taint in node["spec"].get("taints") or []
            if not taint["key"].startswith("node.kubernetes.io/unreachable")
        ]
        await self._api.patch(NODES, name, {"spec": {"taints": kept + taints}}, content_type=MERGE_PATCH)

    def _pod_seen(self, pod: Object) -> None:
        self._scheduler.pod_seen(pod)
        self._kubelet.pod_seen(pod)

    def _pod_lost(self, pod: Object) -> None:
        self._scheduler.pod_lost(pod)
        self._kubelet.pod_lost(pod)

    async def _beat(self, seconds: float) -> None:
        api = Api(self._api.transport, LEASE_NAMESPACE)
        while True:
            for name in self.names:
                behaviour = self.behaviour_of(name)
                if behaviour is not None and not behaviour.dead:
                    await heartbeat(api, LEASES, name, self._clock())
            await asyncio.sleep(seconds)
