"""The events that a kubelet tells of a pod's containers."""

from __future__ import annotations

import zlib
from collections import Counter

from controller.api.objects import rfc3339
from controller.runtime.clock import Clock
from tests.beds.api import EVENTS, Api, Object, Refusal


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
