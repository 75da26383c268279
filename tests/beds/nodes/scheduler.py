"""Stands in for kube-scheduler: binds pods that fit somewhere, and says of the others why they do not.

And for the pod garbage collector of kube-controller-manager where none runs: pods of vanished nodes go too.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

from controller.api.objects import rfc3339
from controller.runtime.clock import Clock
from tests.beds import objects
from tests.beds.api import NODES, PODS, Api, Object, Refusal
from tests.beds.nodes.mirror import Mirror
from tests.beds.nodes.writer import write_status
from tests.beds.quantities import quantity

UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def place(pod: Object, nodes: Sequence[Object], on_node: dict[str, list[Object]]) -> tuple[str, str]:
    """The node for `pod` and "", or "" and the scheduler's words why there is none.

    `on_node`: the pods that each node has, without those that have ended.
    """
    reasons: Counter[str] = Counter()
    fitting = []
    for node in nodes:
        reason = _refusal(pod, node, on_node.get(node["metadata"]["name"], []))
        if reason:
            reasons[reason] += 1
        else:
            fitting.append(node["metadata"]["name"])
    if fitting:
        return min(fitting, key=lambda name: (len(on_node.get(name, [])), name)), ""
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return "", f"0/{len(nodes)} nodes are available: {listed or 'there are none'}."


def _refusal(pod: Object, node: Object, others: list[Object]) -> str:
    """Why `pod` cannot go to `node`, or ""."""
    spec = pod["spec"]
    if not _is_selected(spec, node):
        return "node(s) didn't match Pod's node affinity/selector"
    if taint := _untolerated(spec.get("tolerations") or [], node):
        return f"node(s) had untolerated taint(s) {{{taint['key']}: {taint.get('value', '')}}}"
    if host_ports(pod) & {port for other in others for port in host_ports(other)}:
        return "node(s) didn't have free ports for the requested pod ports"
    return _shortage(pod, node, others)


def _is_selected(spec: Object, node: Object) -> bool:
    labels: dict[str, str] = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(_term_holds(term, labels, fields) for term in required.get("nodeSelectorTerms") or [])


def _term_holds(term: Object, labels: dict[str, str], fields: dict[str, str]) -> bool:
    expressions, of_fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not of_fields:
        return False
    return all(_holds(item, labels) for item in expressions) and all(_holds(item, fields) for item in of_fields)


def _holds(requirement: Object, found: dict[str, str]) -> bool:
    value, values = found.get(requirement["key"]), requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(values[0])
        case _:
            return value is not None and int(value) < int(values[0])


def _untolerated(tolerations: list[Object], node: Object) -> Object | None:
    taints = list(node["spec"].get("taints") or [])
    if node["spec"].get("unschedulable") and not any(taint["key"] == UNSCHEDULABLE["key"] for taint in taints):
        taints.append(UNSCHEDULABLE)
    for taint in taints:
        hard = taint.get("effect") in ("NoSchedule", "NoExecute")
        if hard and not any(_tolerates(toleration, taint) for toleration in tolerations):
            return dict(taint)
    return None


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")


def host_ports(pod: Object) -> set[tuple[str, int]]:
    """Protocol and number of each port that the pod takes from its node."""
    return {
        (port.get("protocol", "TCP"), port["hostPort"])
        for container in pod["spec"].get("containers") or []
        for port in container.get("ports") or []
        if port.get("hostPort")
    }


def _shortage(pod: Object, node: Object, others: list[Object]) -> str:
    allocatable: dict[str, Any] = (node.get("status") or {}).get("allocatable") or {}
    if "pods" in allocatable and len(others) + 1 > quantity(allocatable["pods"]):
        return "Too many pods"
    for resource in ("cpu", "memory"):
        if resource not in allocatable or not (wanted := _requested([pod], resource)):
            continue
        if wanted + _requested(others, resource) > quantity(allocatable[resource]):
            return f"Insufficient {resource}"
    return ""


def _requested(pods: Iterable[Object], resource: str) -> Decimal:
    total = Decimal(0)
    for pod in pods:
        for container in pod["spec"].get("containers") or []:
            asked = ((container.get("resources") or {}).get("requests") or {}).get(resource)
            total += quantity(asked) if asked else 0
    return total


AT_ONCE = 16
RETRY_SECONDS = 0.5


class Scheduler:
    """Looks at all pods without a node whenever something has changed that could matter to them."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api, self._clock = api, clock
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
                elif objects.condition(pod, "PodScheduled").get("message") != words:
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
        old = objects.condition(pod, "PodScheduled")
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


QUARANTINE_SECONDS = 40.0
"""For which a node has to be missing before its pods are garbage, as in Kubernetes."""


class PodGarbage:
    """Looks every half quarantine for pods on nodes that do not exist."""

    def __init__(self, api: Api, clock: Clock, pods: Callable[[], Iterable[Object]], quarantine: float) -> None:
        self._api, self._clock, self._pods, self._quarantine = api, clock, pods, quarantine
        self._missing: dict[str, float] = {}
        """Node -> the loop's time when it was missed first."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._quarantine / 2)
            try:
                await self._collect()
            except (Refusal, OSError, TimeoutError):
                continue

    async def _collect(self) -> None:
        there = {node["metadata"]["name"] for node in await self._api.list(NODES)}
        bound = [pod for pod in self._pods() if pod["spec"].get("nodeName")]
        now = asyncio.get_running_loop().time()
        gone = {pod["spec"]["nodeName"] for pod in bound} - there
        self._missing = {node: self._missing.get(node, now) for node in gone}
        for pod in bound:
            missed = self._missing.get(pod["spec"]["nodeName"])
            if missed is not None and now - missed >= self._quarantine:
                await self._remove(pod)

    async def _remove(self, pod: Object) -> None:
        metadata = pod["metadata"]
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": rfc3339(self._clock()),
        }
        status = {"phase": "Failed", "conditions": [condition]}
        if (pod.get("status") or {}).get("phase") not in ("Failed", "Succeeded"):
            await write_status(self._api, pod, status)
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        await self._api.delete(PODS, metadata["name"], namespace=metadata["namespace"], options=options)
