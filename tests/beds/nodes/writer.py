"""What kubelets write about pods, one at a time about each."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tests.beds.api import PODS, STRATEGIC_MERGE_PATCH, Api, Object, Refusal

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
        """The last word about a pod that was told to go: nothing of it is left on the node."""
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        metadata = pod["metadata"]
        return await self._api.delete(PODS, metadata["name"], namespace=metadata["namespace"], options=options)
