"""What kubelets write about pods, one at a time about each, and the events that they tell."""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from controller.api.objects import rfc3339
from controller.runtime.clock import Clock
from tests.beds.api import EVENTS, PODS, STRATEGIC_MERGE_PATCH, Api, Object, Refusal

AT_ONCE = 32
RETRY_SECONDS = 0.5


async def write_status(api: Api, pod: Object, status: Object) -> Object:
    """Of that very pod; returns it as it is then. Conditions that `status` does not have stay."""
    metadata = pod["metadata"]
    patch, namespace = {"metadata": {"uid": metadata["uid"]}, "status": status}, metadata["namespace"]
    kind = STRATEGIC_MERGE_PATCH
    return await api.patch(PODS, metadata["name"], patch, namespace=namespace, sub="status", content_type=kind)


class Gone(Exception):
    """The pod is not there any more, or is another one of that name."""


class Writer:
    """For all played nodes."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def turn(self, pod: Object) -> asyncio.Lock:
        """Who holds it alone writes about this pod: a step that is on its way would undo what was written."""
        return self._turns[pod["metadata"]["uid"]]

    @asynccontextmanager
    async def place(self, pod: Object) -> AsyncIterator[None]:
        """A turn, and one of the places of those who write at the same time."""
        async with self._gate, self.turn(pod):
            yield

    def forget(self, pod: Object) -> None:
        self._turns.pop(pod["metadata"]["uid"], None)

    async def write(self, pod: Object, status: Object) -> Object:
        """Write `status` as the kubelet of the pod's node; returns the pod as it is then. Ask for a `turn` before."""
        return await write_status(self._api, pod, status)

    async def send(self, newest: Callable[[], Object], status: Object) -> Object:
        """The same, in its turn and until the server takes it. Raises Gone."""
        while True:
            try:
                async with self.place(newest()):
                    return await self.write(newest(), status)
            except Refusal as refusal:
                if refusal.status in (404, 409, 422):
                    raise Gone from refusal
                await asyncio.sleep(refusal.retry_after or RETRY_SECONDS)
            except (OSError, TimeoutError):
                await asyncio.sleep(RETRY_SECONDS)

    async def remove(self, pod: Object) -> Object:
        """The last word about a pod that was deleted: nothing of it is left on the node."""
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        metadata = pod["metadata"]
        return await self._api.delete(PODS, metadata["name"], namespace=metadata["namespace"], options=options)


class Events:
    """The same words again raise the count of the event. A server that does not take it misses it."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api, self._clock = api, clock
        self._told: Counter[str] = Counter()

    async def tell(self, pod: Object, container: str, kind: str, reason: str, message: str) -> None:
        """`kind`: Normal or Warning."""
        metadata, now = pod["metadata"], rfc3339(self._clock())
        key = f"{metadata['uid']} {container} {reason} {message}"
        name = f"{metadata['name']}.{zlib.crc32(key.encode()):08x}"
        self._told[key] += 1
        about = {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
        path = {"fieldPath": f"spec.containers{{{container}}}"} if container else {}
        event = {
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "involvedObject": {"kind": "Pod", "apiVersion": "v1", **about, **path},
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": "kubelet", "host": pod["spec"]["nodeName"]},
            "reportingComponent": "kubelet",
            "reportingInstance": pod["spec"]["nodeName"],
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        again = {"count": self._told[key], "lastTimestamp": now}
        try:
            if self._told[key] == 1:
                await self._api.create(EVENTS, event)
            else:
                await self._api.patch(EVENTS, name, again, namespace=metadata["namespace"])
        except (Refusal, OSError, TimeoutError):
            return
