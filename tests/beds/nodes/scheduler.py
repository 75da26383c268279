"""Stands in for kube-scheduler: binds pods that fit somewhere, and says of the others why they do not."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from controller.api.objects import rfc3339
from controller.runtime.clock import Clock
from tests.beds import pods
from tests.beds.api import NODES, PODS, Api, Object, Refusal
from tests.beds.nodes.mirror import Mirror
from tests.beds.nodes.placement import place
from tests.beds.nodes.writer import write_status

AT_ONCE = 16
RETRY_SECONDS = 0.5


class Scheduler:
    """Looks at all pods without a node whenever something has changed that could matter to them."""

    def __init__(self, api: Api, clock: Clock, *, delay: float = 0.0) -> None:
        self._api, self._clock, self._delay = api, clock, delay
        self._nodes = Mirror(api, NODES, seen=self._node_seen, lost=self._node_lost)
        self._by_name: dict[str, Object] = {}
        self._looks: dict[str, Object] = {}
        """What placement saw of each node when it was last looked at."""
        self._pending: dict[str, Object] = {}
        self._placed: defaultdict[str, dict[str, Object]] = defaultdict(dict)
        """Node -> uid -> pod, the assumed ones included."""
        self._work = asyncio.Event()

    def pod_seen(self, pod: Object) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if node:
            self._pending.pop(uid, None)
            if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
                self._leave(pod)
            else:
                self._placed[node][uid] = pod
        elif pod["metadata"].get("deletionTimestamp"):
            self._pending.pop(uid, None)
        elif pod["spec"].get("schedulerName", "default-scheduler") == "default-scheduler":
            known = self._pending.get(uid)
            self._pending[uid] = pod
            if known is None:
                self._work.set()

    def pod_lost(self, pod: Object) -> None:
        self._pending.pop(pod["metadata"]["uid"], None)
        self._leave(pod)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run())
            await self._nodes.synced.wait()
            while True:
                await self._work.wait()
                if self._delay:
                    await asyncio.sleep(self._delay)
                self._work.clear()
                await self._round()

    def _leave(self, pod: Object) -> None:
        node = pod["spec"].get("nodeName")
        if node and self._placed[node].pop(pod["metadata"]["uid"], None) is not None and self._pending:
            self._work.set()

    def _node_seen(self, node: Object) -> None:
        self._by_name[node["metadata"]["name"]] = node
        status = node.get("status") or {}
        look = {
            "labels": node["metadata"].get("labels"),
            "spec": node["spec"],
            "allocatable": status.get("allocatable"),
        }
        if self._looks.get(node["metadata"]["uid"]) != look:
            self._looks[node["metadata"]["uid"]] = look
            if self._pending:
                self._work.set()

    def _node_lost(self, node: Object) -> None:
        self._looks.pop(node["metadata"]["uid"], None)
        self._by_name.pop(node["metadata"]["name"], None)

    async def _round(self) -> None:
        """One look at each pod that waits. Decisions are made one after the other, requests go out together."""
        gate = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for uid, pod in list(self._pending.items()):
                candidates = self._candidates(pod)
                placed = {name: list(self._placed[name].values()) for name in candidates}
                name, words = place(pod, list(candidates.values()), placed)
                if name:
                    self._placed[name][uid] = pod
                    del self._pending[uid]
                    group.create_task(self._bind(gate, pod, name))
                elif pods.condition(pod, "PodScheduled").get("message") != words:
                    group.create_task(self._refuse(gate, pod, words))

    def _candidates(self, pod: Object) -> dict[str, Object]:
        """The nodes that its affinity names, for a daemon pod; all nodes for another."""
        names = _names(pod)
        return {name: self._by_name[name] for name in names if name in self._by_name} if names else self._by_name

    async def _bind(self, gate: asyncio.Semaphore, pod: Object, node: str) -> None:
        metadata = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        async with gate:
            try:
                await self._api.create(PODS, binding, sub="binding")
            except (Refusal, OSError, TimeoutError):
                await self._try_again(pod, node)

    async def _try_again(self, pod: Object, node: str) -> None:
        """The pod is gone, bound already, or the server is away: the mirror will say which."""
        self._placed[node].pop(pod["metadata"]["uid"], None)
        await asyncio.sleep(RETRY_SECONDS)
        found = await self._now(pod)
        if found is not None:
            self.pod_seen(found)
            self._work.set()

    async def _now(self, pod: Object) -> Object | None:
        try:
            found = await self._api.find(PODS, pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
        except (Refusal, OSError, TimeoutError):
            return pod
        return found if found and found["metadata"]["uid"] == pod["metadata"]["uid"] else None

    async def _refuse(self, gate: asyncio.Semaphore, pod: Object, words: str) -> None:
        old = pods.condition(pod, "PodScheduled")
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": words,
            "lastTransitionTime": old.get("lastTransitionTime") or rfc3339(self._clock()),
        }
        async with gate:
            try:
                await write_status(self._api, pod, {"conditions": [condition]})
            except (Refusal, OSError, TimeoutError):
                self._work.set()
                await asyncio.sleep(RETRY_SECONDS)


def _names(pod: Object) -> list[str]:
    """The nodes that the required affinity of a daemon pod names; empty for other pods."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    names: list[str] = []
    for term in terms:
        fields = [field for field in term.get("matchFields") or [] if field["key"] == "metadata.name"]
        if not fields:
            return []
        names += [name for field in fields for name in field.get("values") or []]
    return names
