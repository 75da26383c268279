"""What the controller's lists and watches have told it, so that a test can wait until it knows."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, contextmanager

import msgspec

from controller.kube.decode import Lines
from controller.kube.requests import Request, Response, Stream
from tests.beds.api import Object, Resource, closing
from tests.beds.simulator.route import route


class Heard:
    """Of each resource (`pods`, `daemonsets.apps.kruise.io`) the newest version of each object, by uid."""

    def __init__(self) -> None:
        self._versions: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._reached: defaultdict[str, int] = defaultdict(int)
        """The version of the last event: whatever came before it was told too."""
        self._complete: set[str] = set()
        self._news = asyncio.Event()

    def listed(self, request: Request, response: Response) -> None:
        """A page; what it holds counts once a watch goes on from there."""
        where = route(request)
        if where.verb != "list" or response.status != 200:
            return
        if not any(key == "continue" for key, _ in request.query):
            self._begin_anew(where.resource)
        for item in msgspec.json.decode(response.body)["items"] or []:
            self._versions[where.resource][item["metadata"]["uid"]] = int(item["metadata"]["resourceVersion"])

    async def until(self, pages: Mapping[Resource, Object]) -> bool:
        """Wait until all that these lists hold was told, and the end of what they do not hold any more.

        Returns whether something was missing.
        """
        waited = False
        while not all(self._knows(_name(resource), page) for resource, page in pages.items()):
            waited = True
            self._news.clear()
            await self._news.wait()
        return waited

    def _knows(self, resource: str, page: Object) -> bool:
        known, as_of = self._versions[resource], int(page["metadata"]["resourceVersion"])
        there = {item["metadata"]["uid"]: int(item["metadata"]["resourceVersion"]) for item in page["items"] or []}
        same = all(known.get(uid, 0) >= version for uid, version in there.items()) and known.keys() <= there.keys()
        return resource in self._complete and (same or self._reached[resource] >= as_of)

    @contextmanager
    def listening(self, request: Request, stream: Stream) -> Iterator[Stream]:
        """The same stream, while the block runs."""
        if stream.status != 200:
            yield stream
            return
        resource = route(request).resource
        if ("sendInitialEvents", "true") in request.query:
            self._begin_anew(resource)
        else:
            self._complete.add(resource)
        self._news.set()
        try:
            yield _Overheard(self, resource, stream)
        finally:
            self._complete.discard(resource)

    def _begin_anew(self, resource: str) -> None:
        self._versions[resource].clear()
        self._reached[resource] = 0

    def told(self, resource: str, line: bytes) -> None:
        event = msgspec.json.decode(line)
        if event["type"] == "ERROR":
            return
        metadata = event["object"]["metadata"]
        version = int(metadata["resourceVersion"])
        if event["type"] == "BOOKMARK":
            if (metadata.get("annotations") or {}).get("k8s.io/initial-events-end") == "true":
                self._complete.add(resource)
        elif event["type"] == "DELETED":
            self._versions[resource].pop(metadata["uid"], None)
        else:
            self._versions[resource][metadata["uid"]] = version
        if resource in self._complete:  # the initial events come in no order
            self._reached[resource] = version
        self._news.set()


class _Overheard:
    """A watch. Who takes it asks for the next chunk when it has dealt with the last one: only then that was heard."""

    def __init__(self, heard: Heard, resource: str, inner: Stream) -> None:
        self._heard, self._resource, self._inner = heard, resource, inner
        self.status, self.retry_after = inner.status, inner.retry_after

    async def chunks(self) -> AsyncIterator[bytes]:
        lines = Lines()
        async with aclosing(closing(self._inner.chunks())) as chunks:
            async for chunk in chunks:
                yield chunk
                for line in lines.feed(chunk):
                    self._heard.told(self._resource, line)


def _name(resource: Resource) -> str:
    """As `Route.resource` has it."""
    group = resource.api_version.rpartition("/")[0]
    return f"{resource.plural}.{group}" if group else resource.plural
