"""What the controller wrote, as the API server saw it: which request, when, and what it was answered; and what its
lists and watches have told it, so that a test can wait until it knows."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from controller.kube.decode import Lines
from controller.kube.requests import JSON, ONLY_METADATA, Request, Response, Stream, Transport
from tests.beds.api import Object, Resource, closing
from tests.beds.objects import node_of
from tests.beds.simulator.route import Route, route


class Heard:
    """Of each resource (`pods`, `daemonsets.apps.kruise.io`) the newest version of each object, by uid."""

    def __init__(self) -> None:
        self._versions: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._reached: defaultdict[str, int] = defaultdict(int)
        """The version of the last event: whatever came before it was reported too."""
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
        """Wait until all that these lists hold was reported, and the end of what they do not hold any more.

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
        self.status, self.retry_after, self.date = inner.status, inner.retry_after, inner.date

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


READS = ("get", "list", "watch")


@dataclass(frozen=True)
class Write:
    """One write of the controller. `status` 0: it got no answer."""

    verb: str
    """create, patch, update, delete, or probe for a create that is only a dry run."""
    resource: str
    """As kubectl writes it: `pods`, `daemonsets.apps.kruise.io/status`."""
    name: str
    body: Object | list[Object]
    status: int
    answer: Object
    at: float
    """The loop's time of the answer."""
    began: float = 0.0
    """The loop's time of the request."""

    @property
    def node(self) -> str:
        """Of a write about a pod: the pod's node."""
        created = self.body if self.verb in ("create", "probe") and isinstance(self.body, dict) else {}
        return node_of(created) or node_of(self.answer)

    def __str__(self) -> str:
        return " ".join(filter(None, [self.verb, self.resource, self.name, self.node, f"-> {self.status}"]))


@dataclass
class Journal:
    """All writes since the beginning, or since `clear`."""

    writes: list[Write] = field(default_factory=list)
    last: float = 0.0
    """The loop's time of the last beginning or end of a write, or of a look at one object."""
    heard: Heard = field(default_factory=Heard)
    """What the controller has read, by its lists and watches."""
    _under_way: set[int] = field(default_factory=set)
    _number: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def in_flight(self) -> int:
        """How many writes, and looks at one object, have no answer yet."""
        return len(self._under_way)

    def clear(self) -> None:
        """Forget what was written so far: the test begins now."""
        self.writes.clear()

    def of(self, resource: str, verb: str = "", *, failed: bool = False) -> list[Write]:
        """The writes of one resource; refused ones only if told so."""
        return [
            write
            for write in self.writes
            if write.resource == resource and verb in ("", write.verb) and (failed or 200 <= write.status < 300)
        ]

    @property
    def created(self) -> list[str]:
        """The nodes for which pods were created, in that order."""
        return [write.node for write in self.of("pods", "create")]

    @property
    def deleted(self) -> list[str]:
        """The nodes whose pods were deleted, in that order."""
        return [write.node for write in self.of("pods", "delete")]

    @property
    def patched(self) -> list[str]:
        """The nodes whose pods were patched (adopted, released, relabelled), in that order."""
        return [write.node for write in self.of("pods", "patch")]

    @property
    def failed(self) -> list[Write]:
        return [write for write in self.writes if not 200 <= write.status < 300]

    @property
    def work(self) -> list[Write]:
        """Everything but events: what the cluster has to carry."""
        return [write for write in self.writes if write.resource != "events"]

    @property
    def statuses(self) -> list[Write]:
        return self.of("daemonsets.apps.kruise.io/status")

    def counts(self) -> Counter[str]:
        return Counter(f"{write.verb} {write.resource}" for write in self.writes)

    def __str__(self) -> str:
        return "\n  ".join(["the controller wrote:", *map(str, self.writes)])

    def begin(self) -> int:
        self._number += 1
        self._under_way.add(self._number)
        self._stir()
        return self._number

    def end(self, number: int, write: Write | None = None) -> None:
        """`number` is what `begin` gave."""
        self._under_way.remove(number)
        if write is not None:
            self.writes.append(write)
        self._stir()

    async def answered(self) -> None:
        """Wait until what is under way now has its answer: what others see of a write may come before that."""
        now = set(self._under_way)
        while now & self._under_way:
            self._news.clear()
            await self._news.wait()

    async def news(self, seconds: float) -> bool:
        """Wait for one of these to begin or to end; False: none did in that time."""
        self._news.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
                return True
        return False

    def _stir(self) -> None:
        self.last = asyncio.get_running_loop().time()
        self._news.set()


class Recording:
    """A `Transport` that keeps a journal of the writes that go through it, with whole objects as answers."""

    def __init__(self, inner: Transport, journal: Journal) -> None:
        self._inner, self._journal = inner, journal

    async def exchange(self, request: Request) -> Response:
        where = route(request)
        if where.verb in READS:
            return await self._read(request, where)
        verb = "probe" if ("dryRun", "All") in request.query else where.verb
        body = _decoded(request.body)
        name = where.name or (body.get("metadata") or {}).get("name", "") if isinstance(body, dict) else where.name
        answered = Response(status=0)
        number = self._journal.begin()
        began = asyncio.get_running_loop().time()
        try:
            answered = await self._inner.exchange(replace(request, accept=JSON))
            return _as_asked(request, answered)
        finally:
            at, answer = asyncio.get_running_loop().time(), _decoded(answered.body)
            told = answer if isinstance(answer, dict) else {}
            self._journal.end(number, Write(verb, where.resource, name, body, answered.status, told, at, began))

    async def _read(self, request: Request, where: Route) -> Response:
        """A look at one object goes before a write, and is not idle; a list may be repeated for ever."""
        if where.verb == "list":
            found = await self._inner.exchange(request)
            self._journal.heard.listed(request, found)
            return found
        number = self._journal.begin()
        try:
            return await self._inner.exchange(request)
        finally:
            self._journal.end(number)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with self._inner.stream(request) as stream:
            with self._journal.heard.listening(request, stream) as overheard:
                yield overheard


class Counted:
    """A `Transport` that knows how many requests are under way."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.under_way = 0

    async def exchange(self, request: Request) -> Response:
        self.under_way += 1
        try:
            return await self._inner.exchange(request)
        finally:
            self.under_way -= 1

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(request)


def _as_asked(request: Request, answered: Response) -> Response:
    """The metadata alone, where the request accepts that of an object."""
    if request.accept != ONLY_METADATA or answered.status >= 300:
        return answered
    found = _decoded(answered.body)
    if not isinstance(found, dict) or "metadata" not in found:
        return answered
    return replace(answered, body=msgspec.json.encode({"metadata": found["metadata"]}))


def _decoded(body: bytes) -> Object | list[Object]:
    try:
        found: Object | list[Object] = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return found
