"""Keeps objects up to date for a command.

| state | what happens | next state |
|---|---|---|
| STALE | it is read | CURRENT |
| | its list expires between two pages, and is begun anew | STALE |
| CURRENT | it is watched; the stream ends | CURRENT |
| | a bookmark: only the version is newer, so no change is signalled | CURRENT |
| | an object cannot be decoded: its last value stays, or it is an error (`leave_out`) | CURRENT |
| | the stream is silent for `STREAM_SILENCE` seconds, which is an error | STALE |
| | the right to watch is missing | POLLED |
| | its version is too old, or `watch` returns STALE | STALE |
| POLLED | it is read again every `POLL` seconds | POLLED |
| any | another error; with a pause that grows | STALE |
| any | it is deleted, or may not be read and is dispensable | OVER |

The controller's Reflector retries forever and needs the rights to list and watch. A command ends on a missing right,
polls what it may not watch, and reports interruptions.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from typing import Any, Final, Generic, Self, TypeVar

from controller.api.objects import Key
from controller.kube.client import Client
from controller.kube.decode import Malformed, Seen
from controller.kube.errors import ApiError, Forbidden, NotFound, WatchVerdict, classify
from controller.kube.requests import Query, Resource
from kubectl_plugin.cluster.documents import right_is_missing, scope

T = TypeVar("T")

POLL: Final = 2.0
"""Seconds between reads of what cannot be watched."""
PATIENCE: Final = 30.0
"""Seconds for which a failing read is retried."""
MIN_INTERVAL: Final = 0.25
"""Minimum seconds between two drawings."""
PAUSE_FACTOR: Final = 4.0
"""Pause before the next poll, as a multiple of the last read's duration, to spare a slow server."""
FIRST_PAUSE: Final = 1.0
"""Seconds before the first retry; doubled by each further failure."""
LONGEST_PAUSE: Final = 30.0
"""Maximum seconds before a retry."""
SERVER_ENDS: Final = "540"
"""Seconds after which the server ends a watch."""
PERMANENT: Final = (WatchVerdict.NOT_SERVED, WatchVerdict.FORBIDDEN, WatchVerdict.UNAUTHORIZED)
"""Errors that only an administrator can end."""
WORKING_SECONDS: Final = 5.0
"""Seconds after which a watch that ends is restarted at once."""


async def read_with_patience(
    read: Callable[[], Awaitable[T]],
    report: Callable[[str], None],
    passes: Callable[[ApiError], bool] = lambda error: not right_is_missing(error),
) -> T:
    """Retries `read` for `PATIENCE` seconds while `passes` accepts its ApiError, else raises it. `report` gets the
    first."""
    loop = asyncio.get_running_loop()
    until, reported = loop.time() + PATIENCE, False
    while True:
        try:
            return await read()
        except ApiError as error:
            if not passes(error) or loop.time() >= until:
                raise
            if not reported:
                report(f"{error}; retrying")
            reported = True
        await asyncio.sleep(POLL)  # after a failure


class State(Enum):
    STALE = auto()
    """Not read yet, or a change may have been missed since."""
    CURRENT = auto()
    POLLED = auto()
    """Current a moment ago; it may not be watched."""
    OVER = auto()
    """It will not change again."""


class Watched(ABC):
    """An object or list that `WatchSet` keeps up to date; its attributes have the current values. Only the `WatchSet`
    stores `state`."""

    state = State.STALE

    @abstractmethod
    async def refresh(self) -> State:
        """Reads it. Returns CURRENT, or OVER. Raises ApiError."""

    @abstractmethod
    async def watch(self) -> State:
        """Follows changes after the last known version. Returns CURRENT when the server ends the stream, OVER, or
        STALE if it has to be read again. Raises ApiError."""

    def state_when_refused(self, error: ApiError) -> State:
        """The state after `refresh` failed for good: STALE to go on with the last values, or OVER. Raises `error` if
        it is essential."""
        raise error


class WatchSet:
    """Keeps several `Watched` up to date and signals changes.

    One task for each reads and watches it, and ends with the block of `keeping`. A read replaces all values at once,
    so that half a list is never seen. `changed` returns once for all changes since it last did: a slow reader misses
    states, but not the last one. While requests fail the last values stay, and `interruption` says why. An error that
    an administrator would have to end, of something essential, ends the block."""

    bunch = 0.0
    """Seconds for which `changed` collects further changes."""

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self._seen = 0.0
        self._interruptions: dict[Watched, str] = {}
        self._added: asyncio.Queue[Watched] = asyncio.Queue()

    @property
    def interruption(self) -> str:
        """What currently fails, in words; empty if nothing does."""
        return next(iter(self._interruptions.values()), "")

    async def changed(self, seconds: float, *, apart: float = MIN_INTERVAL) -> None:
        """Waits up to `seconds` for the next change, and until `apart` seconds after the previous one."""
        if not await is_set_within(self._news, seconds):
            return
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(self._seen + apart - loop.time(), self.bunch))  # a screen is not drawn for each event
        self._seen = loop.time()
        self._news.clear()

    @asynccontextmanager
    async def keeping(
        self, *watched: Watched, first: Iterable[Watched] = (), report: Callable[[str], None] = lambda _: None
    ) -> AsyncIterator[Self]:
        """Keeps them up to date while the block runs; those of `first` are read before it begins, as
        `read_with_patience` does. Raises the first error in the block, not in a group."""
        for one in first:
            try:
                one.state = await read_with_patience(one.refresh, report)
            except Forbidden as error:
                refused = one.state_when_refused(error)
                one.state = State.CURRENT if refused is State.STALE else refused
        for one in (*first, *watched):
            self.begin_to_keep(one)
        async with scope() as group:
            keeper = group.create_task(self._keep_added())
            yield self
            keeper.cancel()

    def begin_to_keep(self, watched: Watched) -> None:
        """Keeps one more up to date until the block of `keeping` ends."""
        self._added.put_nowait(watched)

    async def _keep_added(self) -> None:
        async with scope() as group:
            while True:
                group.create_task(self.keep(await self._added.get()))

    async def keep(self, watched: Watched) -> None:
        """Runs until it is over or cancelled, and stores each state."""
        loop, backoff, rest = asyncio.get_running_loop(), Backoff(), POLL
        while (before := watched.state) is not State.OVER:
            if before is State.POLLED:
                await asyncio.sleep(rest)
            began, failed = loop.time(), False
            try:
                after = await (watched.watch() if before is State.CURRENT else watched.refresh())
            except ApiError as error:
                verdict, failed = classify(error).watch, True
                if verdict is WatchVerdict.FORBIDDEN and before is State.CURRENT:
                    watched.state, rest = State.POLLED, POLL
                    continue
                if verdict is not WatchVerdict.EXPIRED:
                    self._interruptions[watched] = str(error)
                for_good = verdict in PERMANENT and backoff.refused_for(loop.time()) >= PATIENCE
                after = watched.state_when_refused(error) if for_good else State.STALE
            else:
                if before is not State.CURRENT:
                    rest, backoff.refused = max(POLL, PAUSE_FACTOR * (loop.time() - began)), inf
                    self._interruptions.pop(watched, None)
            watched.state = State.POLLED if (before, after) == (State.POLLED, State.CURRENT) else after
            if after is State.OVER:
                self._news.set()
            elif loop.time() - began >= WORKING_SECONDS:
                backoff.pause = FIRST_PAUSE
            elif failed or before is after is State.CURRENT:  # a watch that ended at once
                await asyncio.sleep(backoff.next())
            elif before is not State.STALE:
                backoff.pause = FIRST_PAUSE


@dataclass
class Backoff:
    pause: float = FIRST_PAUSE
    refused: float = inf
    """When the first of the errors came that only an administrator can end."""

    def next(self) -> float:
        """Seconds until the next attempt."""
        pause, self.pause = self.pause, min(self.pause * 2, LONGEST_PAUSE)
        return pause

    def refused_for(self, now: float) -> float:
        self.refused = min(self.refused, now)
        return now - self.refused


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


class ReadAgain(Watched):
    """Calls `read` soon after each `mark_stale`, and at least every `every` seconds."""

    def __init__(
        self,
        read: Callable[[], Awaitable[None]],
        *,
        every: float,
        bunch: float,
        dispensable: bool = False,
        state: State = State.STALE,
    ) -> None:
        """`bunch`: seconds a read waits for more changes. `dispensable`: keep the last values when reads fail."""
        self.state = state
        self.every = every
        """Seconds between reads without `mark_stale`; `read` may change it."""
        self._read, self._bunch, self._dispensable = read, bunch, dispensable
        self._stale = asyncio.Event()

    def mark_stale(self) -> None:
        self._stale.set()

    async def refresh(self) -> State:
        self._stale.clear()  # what changes during the read may be missing in it
        await self._read()
        return State.CURRENT

    async def watch(self) -> State:
        if await is_set_within(self._stale, self.every):
            await asyncio.sleep(self._bunch)  # all of the bunch is read once
        return State.STALE

    def state_when_refused(self, error: ApiError) -> State:
        if not self._dispensable:
            raise error
        return State.STALE


class WatchedObjects(Watched, Generic[T]):
    """The objects that `query` selects on the server and `wanted` accepts here. `found` maps keys to objects; it is
    empty before the first `refresh`, and each further one replaces it."""

    def __init__(
        self,
        client: Client,
        resource: Resource[Any, T],
        namespace: str,
        query: Query,
        on_news: Callable[[], None],
        *,
        wanted: Callable[[T], bool] = lambda _: True,
        dispensable: bool = False,
    ) -> None:
        """`dispensable`: without the right to list them, or without the CRD, there are none, and no error."""
        self.found: dict[Key, T] = {}
        self._client, self._resource, self._namespace, self._query = client, resource, namespace, query
        self._on_news, self._wanted, self._dispensable = on_news, wanted, dispensable
        self._version = ""

    async def refresh(self) -> State:
        found: dict[Key, T] = {}
        async for page in self._client.pages(self._resource, self._namespace, query=self._query):
            for item in page.items:
                if isinstance(item, Seen) and item.obj is not None and self._wanted(item.obj):
                    found[item.key] = item.obj
        is_news = not self._version or found != self.found
        self.found, self._version = found, page.version
        if is_news:
            self._on_news()
        return State.CURRENT

    def state_when_refused(self, error: ApiError) -> State:
        has_no_kind = isinstance(error, NotFound) and self._resource.custom
        if not (self._dispensable and (has_no_kind or right_is_missing(error))):
            raise error
        return State.OVER

    async def watch(self) -> State:
        since = (("resourceVersion", self._version), ("allowWatchBookmarks", "true"), ("timeoutSeconds", SERVER_ENDS))
        async with self._client.watch(self._resource, self._namespace, query=(*self._query, *since)) as bunches:
            async for bunch in bunches:
                for event in bunch:
                    if isinstance(event, Seen):
                        self._see(event)
                    elif isinstance(event, Malformed):
                        self.leave_out(event)
                    self._version = event.version or self._version
        return State.CURRENT

    def leave_out(self, event: Malformed) -> None:
        """The last known value of an object stays when it cannot be decoded any more. Another class may raise."""

    def _see(self, event: Seen[T]) -> None:
        before = self.found.pop(event.key, None)
        if event.obj is not None and self._wanted(event.obj):
            self.found[event.key] = event.obj
        elif before is None:
            return
        self._on_news()
