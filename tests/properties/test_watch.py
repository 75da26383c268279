"""Whatever happens to server and connection, in whatever order: in the end the store is what the server has,
and whoever follows the changes has the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import hypothesis.strategies as st
from hypothesis import example, given

from controller.api.objects import JSON, JSONObject, Key
from controller.kube.client import Client
from controller.kube.requests import NotConnected, Request, Response
from controller.kube.sender import Sender
from controller.runtime.reflector import Reflector
from controller.runtime.store import Change, Store
from tests.beds.sample_kind import THINGS, Thing, ThingView, bookmark, error_line, line, page, status, thing
from tests.beds.stores import open_store
from tests.beds.virtual_time import now, virtual_time_from, virtually
from tests.properties.size import every_day

PAGE = 2
"""Objects on a page, whatever limit was asked for: so that few objects make many pages."""


class Feed:
    """One open watch, as the client's end sees it."""

    def __init__(self, code: int, timeout: float | None) -> None:
        self.status = code
        self.retry_after: float | None = None
        self.date = ""
        self.lost = False
        """Half open: the server sends, nothing arrives, no error comes."""
        self._timeout = timeout
        self._parts: asyncio.Queue[bytes | OSError | None] = asyncio.Queue()

    def send(self, part: bytes | OSError | None) -> None:
        if not self.lost:
            self._parts.put_nowait(part)

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            async with asyncio.timeout(self._timeout):
                part = await self._parts.get()
            if part is None:
                return
            if isinstance(part, OSError):
                raise part
            yield part


class Server:
    """Implements `Transport`. The methods without underscore beyond that are what happens to the cluster."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, JSONObject] = {}
        self.streaming = True
        self.end_marks = True
        self.up = True
        self.next_codes: list[int] = []
        self.requests = 0
        self._uids = 0
        self._history: list[tuple[int, bytes]] = []
        self._compacted = 0
        self._feeds: list[Feed] = []
        self._snapshots: dict[str, tuple[int, list[JSONObject]]] = {}

    # -- what users do

    def put(self, name: str, size: JSON) -> None:
        known = self.objects.get(name)
        self.version += 1
        uid = _uid(known) if known else f"uid-{(uids := self._uids + 1)}"
        if known is None:
            self._uids = uids
        self.objects[name] = thing(name, self.version, size=size, uid=uid)
        self._tell("MODIFIED" if known else "ADDED", self.objects[name])

    def delete(self, name: str) -> None:
        if self.objects.pop(name, None) is not None:
            self.version += 1
            self._tell("DELETED", thing(name, self.version))

    def elsewhere(self) -> None:
        """Another resource was written: the version moves on without us."""
        self.version += 1

    # -- what happens to servers

    def compact(self) -> None:
        self._compacted = self.version
        self._history.clear()

    def send_bookmarks(self) -> None:
        self._broadcast(bookmark(self.version))

    def close(self, error: OSError | None = None) -> None:
        self._broadcast(error)
        self._feeds.clear()

    def expire(self) -> None:
        self._broadcast(error_line(410, "Expired"))
        self.close()

    def garble(self) -> None:
        self._broadcast(b'{"type":"ADDED","object":{"meta\n')
        self.close()

    def lose(self) -> None:
        for feed in self._feeds:
            feed.lost = True

    def ours(self) -> dict[str, tuple[str, str]]:
        """Name → (uid, version) of what a cache should have in the end."""
        return {name: (_uid(obj), _version(obj)) for name, obj in self.objects.items() if _size(obj) != 0}

    # -- what the server answers

    async def exchange(self, request: Request) -> Response:
        await self._arrive()
        if self.next_codes:
            code = self.next_codes.pop()
            return Response(status=code, body=status(code), retry_after=2.0 if code == 429 else None)
        query = dict(request.query)
        token = query.get("continue", "")
        if not token:
            token = f"{self.version}.{self.requests}"
            self._snapshots[token] = (self.version, list(self.objects.values()))
        version, items = self._snapshots.pop(token)
        if version < self._compacted:
            return Response(status=410, body=status(410, "Expired"))
        size = PAGE if "limit" in query else len(items)
        rest = items[size:]
        if rest:
            self._snapshots[token] = (version, rest)
        return Response(status=200, body=page(*items[:size], version=version, token=token if rest else ""))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Feed]:
        await self._arrive()
        feed = self._open(dict(request.query), request.timeout)
        try:
            yield feed
        finally:
            if feed in self._feeds:
                self._feeds.remove(feed)

    def _open(self, query: dict[str, str], timeout: float | None) -> Feed:
        wants_all = "sendInitialEvents" in query
        code = self.next_codes.pop() if self.next_codes else 422 if wants_all and not self.streaming else 200
        feed = Feed(code, timeout)
        if code != 200:
            feed.send(status(code))
            feed.send(None)
            return feed
        if wants_all:
            for obj in self.objects.values():
                feed.send(line("ADDED", obj))
            if self.end_marks:
                feed.send(bookmark(self.version, end=True))
        elif int(query["resourceVersion"]) < self._compacted:
            feed.send(error_line(410, "Expired"))
            feed.send(None)
        else:
            for version, event in self._history:
                if version > int(query["resourceVersion"]):
                    feed.send(event)
        self._feeds.append(feed)
        return feed

    async def _arrive(self) -> None:
        self.requests += 1
        await asyncio.sleep(0.01)
        if not self.up:
            raise NotConnected("connection refused")

    def _tell(self, kind: str, obj: JSONObject) -> None:
        event = line(kind, obj)
        self._history.append((self.version, event))
        self._broadcast(event)

    def _broadcast(self, part: bytes | OSError | None) -> None:
        for feed in self._feeds:
            feed.send(part)


def _meta(obj: JSONObject) -> JSONObject:
    meta = obj["metadata"]
    assert isinstance(meta, dict)
    return meta


def _uid(obj: JSONObject) -> str:
    return str(_meta(obj)["uid"])


def _version(obj: JSONObject) -> str:
    return str(_meta(obj)["resourceVersion"])


def _size(obj: JSONObject) -> object:
    spec = obj["spec"]
    assert isinstance(spec, dict)
    return spec["size"]


BAD = "big"
LONG_ENOUGH = 400.0
"""Seconds in which a silent stream is noticed (150), the longest back-off passes (60), and a list is read."""

names = st.sampled_from("abcde")
Move = tuple[str, object]

moves = st.one_of(
    st.tuples(st.just("put"), st.tuples(names, st.sampled_from([1, 2, 3, 0, BAD, -1]))),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("replace"), names),
    st.tuples(
        st.sampled_from(["elsewhere", "compact", "bookmark", "close", "reset", "expire", "garble", "lose"]),
        st.none(),
    ),
    st.tuples(st.sampled_from(["down", "up", "relist"]), st.none()),
    st.tuples(st.just("streaming"), st.booleans()),
    st.tuples(st.just("end marks"), st.booleans()),
    st.tuples(st.just("answer"), st.sampled_from([401, 403, 404, 410, 422, 429, 500, 503])),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.015, 0.03, 1.0, 5.0, 40.0, 200.0])),
)


class Follower:
    """Rebuilds the store from changes alone, and refuses changes that do not fit."""

    def __init__(self, store: Store[Thing]) -> None:
        self.things: dict[str, Thing] = {}
        self.malformed: dict[str, str] = {}
        self._store = store

    def __call__(self, change: Change[Thing]) -> None:
        name, old, new = change.key.name, change.old, change.new
        assert self.things.get(name) is old, f"{name} was {self.things.get(name)}, the change says {old}"
        if old is new:
            before, reason = self.malformed.pop(name, None), self._store.malformed.get(change.key)
            assert before != reason, f"{name} can be read as before"
            if reason is not None:
                self.malformed[name] = reason
            return
        if old and new:
            assert old.uid == new.uid, f"{name} became another object in one change"
            assert int(old.version) < int(new.version), f"{name} went back"
        if new:
            self.things[name] = new
        else:
            del self.things[name]


def by_name(malformed: Mapping[Key, str]) -> dict[str, str]:
    return {key.name: reason for key, reason in malformed.items()}


class Run:
    def __init__(self) -> None:
        self.server = Server()
        writer, self.store = open_store(Thing)
        self.by_size = self.store.index(lambda thing: thing.size)
        self.follower = Follower(self.store)
        self.reflector = Reflector[ThingView, Thing](Client(Sender(self.server)), THINGS, writer, chance=lambda: 0.5)

    async def run(self) -> None:
        async for event in self.reflector.events():
            if isinstance(event, Change):
                self.follower(event)

    def make(self, move: str, what: object) -> None:
        server = self.server
        simple: dict[str, Callable[[], None]] = {
            "elsewhere": server.elsewhere,
            "compact": server.compact,
            "bookmark": server.send_bookmarks,
            "close": server.close,
            "reset": lambda: server.close(ConnectionResetError("reset")),
            "expire": server.expire,
            "garble": server.garble,
            "lose": server.lose,
            "relist": self.reflector.relist,
        }
        match move, what:
            case "put", (str(name), (int() | str()) as size):
                server.put(name, size)
            case "delete", str(name):
                server.delete(name)
            case "replace", str(name):
                server.delete(name)
                server.put(name, 1)
            case (("down" | "up"), _):
                server.up = move == "up"
                if not server.up:
                    server.close(ConnectionResetError("reset"))
            case "streaming", bool(on):
                server.streaming = on
            case "end marks", bool(on):
                server.end_marks = on
            case "answer", int(code):
                server.next_codes.append(code)
            case _:
                simple[move]()

    def check(self) -> None:
        store = self.store
        assert {thing.name: thing for thing in store.values()} == self.follower.things
        assert by_name(store.malformed) == self.follower.malformed
        assert store.progress_in("").version <= self.server.version
        indexed = {(one.name, size) for size in self.by_size._groups for one in self.by_size.get(size)}
        assert indexed == {(thing.name, thing.size) for thing in store.values()}

    def heal(self) -> None:
        server = self.server
        server.up, server.next_codes, server.end_marks = True, [], True
        for name in list(server.objects):
            server.put(name, 2)  # what was malformed reads again

    async def play(self, script: list[Move]) -> None:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(self.run())
            for move, what in script:
                if move == "wait":
                    assert isinstance(what, float)
                    await asyncio.sleep(what)
                else:
                    self.make(move, what)
                self.check()
            self.heal()
            await asyncio.sleep(LONG_ENOUGH)
            self.server.elsewhere()
            for _ in range(3):  # between two streams there may be a second without any
                self.server.send_bookmarks()
                await asyncio.sleep(1.5)
            running.cancel()
        self.check()
        assert {name: (thing.uid, thing.version) for name, thing in self.follower.things.items()} == (
            self.server.ours()
        )
        assert self.store.progress_in("").version == self.server.version, (
            "a bookmark is what tells that nothing is missing"
        )
        assert not self.store.malformed


@every_day(200)
@given(script=st.lists(moves, max_size=40))
@example(script=[("put", ("a", 1)), ("wait", 1.0), ("lose", None), ("delete", "a"), ("compact", None)])
@example(script=[("put", ("a", 1)), ("wait", 1.0), ("put", ("a", BAD)), ("replace", "a"), ("expire", None)])
@example(script=[("streaming", False), ("put", ("a", 1)), ("put", ("b", 1)), ("put", ("c", 1)), ("wait", 0.03)])
@example(script=[("end marks", False), ("put", ("a", 1)), ("wait", 40.0), ("relist", None)])
def test_in_the_end_the_store_is_what_the_server_has(script: list[Move]) -> None:
    virtually(Run().play(script))


@every_day(30)
@given(script=st.lists(moves, max_size=20), fault=st.sampled_from(["close", "reset", "expire", "garble"]))
@virtual_time_from(1000.0)
async def test_a_server_that_ends_every_stream_is_not_hammered(script: list[Move], fault: str) -> None:
    run = Run()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run.run())
        for move, what in script:
            if move != "wait":
                run.make(move, what)
        run.heal()
        asked, began = run.server.requests, now()
        while now() < began + 120:
            await asyncio.sleep(0.1)
            run.make(fault, None)
        assert run.server.requests - asked <= 40
        running.cancel()
