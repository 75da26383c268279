"""Stands in for kube-controller-manager's pod garbage collector where none runs: pods of vanished nodes go too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from controller.api.objects import rfc3339
from controller.runtime.clock import Clock
from tests.beds.api import NODES, PODS, Api, Object, Refusal
from tests.beds.nodes.writer import write_status

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
