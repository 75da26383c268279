"""Keeps objects up to date for a command.

| state | what happens | next state |
|---|---|---|
| STALE | it is read | CURRENT |
| CURRENT | it is watched; the stream ends | CURRENT |
| | the right to watch is missing | POLLED |
| | its version is too old, or `watch` clears the state | STALE |
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
from enum import Enum, auto
from math import inf
from typing import Any, Final, Generic, Self, TypeVar

from controller.api.objects import Key
from controller.kube.client import Client
from controller.kube.decode import Bookmark, Malformed, Seen
from controller.kube.errors import ApiError, Forbidden, WatchVerdict, classify
from controller.kube.requests import Query, Resource
from kubectl_plugin.cluster.documents import from_version, scope

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
PERMANENT: Final = (WatchVerdict.NOT_SERVED, WatchVerdict.FORBIDDEN, WatchVerdict.UNAUTHORIZED)
"""Errors that only an administrator can end."""
WORKING_SECONDS: Final = 5.0
"""Seconds after which a watch that ends is restarted at once."""


def is_from_proxy(error: ApiError) -> bool:
    """Whether a load balancer or proxy answered: the API server always gives a reason."""
    return error.status != 0 and not error.reason


def right_is_missing(error: ApiError) -> bool:
    """Whether the API server itself refused because a right is missing."""
    return isinstance(error, Forbidden) and not is_from_proxy(error)


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
    """An object or list that `WatchSet` keeps up to date; its attributes have the current values."""

    state = State.STALE

    @abstractmethod
    async def refresh(self) -> None:
        """Reads the current state. Raises ApiError."""

    @abstractmethod
    async def watch(self) -> None:
        """Follows changes after the last known version until the server ends the stream. What cannot be watched waits
        until it may have changed, and becomes STALE. Raises ApiError."""

    def on_refusal(self, error: ApiError) -> None:
        """Called after `refresh` failed for good. Raises `error`, or returns if the state is not essential."""
        raise error


class WatchSet:
    """Keeps several `Watched` up to date and signals changes."""

    bunch = 0.0
    """Seconds for which `changed` collects further changes."""

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self._seen = 0.0
        self._interruptions: dict[Watched, str] = {}

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
                await read_with_patience(one.refresh, report)
            except Forbidden as error:
                one.on_refusal(error)
            if one.state is State.STALE:
                one.state = State.CURRENT
        async with scope() as group:
            tasks = [group.create_task(self.keep(one)) for one in (*first, *watched)]
            yield self
            for task in tasks:
                task.cancel()

    async def keep(self, watched: Watched) -> None:
        """Runs until it is over or cancelled; after `PATIENCE` seconds of `PERMANENT` errors calls `on_refusal`."""
        loop = asyncio.get_running_loop()
        pause, rest, refused = FIRST_PAUSE, POLL, inf
        while watched.state is not State.OVER:
            if watched.state is State.POLLED:
                await asyncio.sleep(rest)
            began = loop.time()
            try:
                if watched.state is State.CURRENT:
                    await watched.watch()
                else:
                    await watched.refresh()
                    rest, refused = max(POLL, PAUSE_FACTOR * (loop.time() - began)), inf
                    self._interruptions.pop(watched, None)
                    if watched.state is State.STALE:
                        watched.state = State.CURRENT
                        continue
                if watched.state is not State.CURRENT:
                    pause = FIRST_PAUSE
                    continue
            except ApiError as error:
                verdict = classify(error).watch
                if verdict is WatchVerdict.FORBIDDEN and watched.state is State.CURRENT:
                    watched.state, rest = State.POLLED, POLL
                    continue
                watched.state = State.STALE
                if verdict is not WatchVerdict.EXPIRED:
                    self._interruptions[watched] = str(error)
                if verdict in PERMANENT:
                    refused = min(refused, loop.time())
                    if loop.time() - refused >= PATIENCE:
                        watched.on_refusal(error)
            if loop.time() - began >= WORKING_SECONDS:
                pause = FIRST_PAUSE
                continue
            await asyncio.sleep(pause)  # after a failure, or a watch that ended at once
            pause = min(pause * 2, LONGEST_PAUSE)


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


class ReadAgain(Watched):
    """Calls `read` soon after each `mark_stale`, and at least every `every` seconds."""

    def __init__(
        self, read: Callable[[], Awaitable[None]], *, every: float, bunch: float, dispensable: bool = False
    ) -> None:
        """`bunch`: seconds a read waits for more changes. `dispensable`: keep the last state when reads fail."""
        self.every = every
        """Seconds between reads without `mark_stale`; `read` may change it."""
        self._read, self._bunch, self._dispensable = read, bunch, dispensable
        self._stale = asyncio.Event()

    def mark_stale(self) -> None:
        self._stale.set()

    async def refresh(self) -> None:
        self._stale.clear()  # what changes during the read may be missing in it
        await self._read()

    async def watch(self) -> None:
        if await is_set_within(self._stale, self.every):
            await asyncio.sleep(self._bunch)  # all of the bunch is read once
        self.state = State.STALE

    def on_refusal(self, error: ApiError) -> None:
        if not self._dispensable:
            raise error


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
        """`dispensable`: without the right to list them there are none, and no error."""
        self.found: dict[Key, T] = {}
        self._client, self._resource, self._namespace, self._query = client, resource, namespace, query
        self._on_news, self._wanted, self._dispensable = on_news, wanted, dispensable
        self._version = ""
        self.is_read = asyncio.Event()

    async def refresh(self) -> None:
        found: dict[Key, T] = {}
        async for page in self._client.pages(self._resource, self._namespace, query=self._query):
            for item in page.items:
                if isinstance(item, Seen) and item.obj is not None and self._wanted(item.obj):
                    found[item.key] = item.obj
        is_news = not self.is_read.is_set() or found != self.found
        self.found, self._version = found, page.version
        self.is_read.set()
        if is_news:
            self._on_news()

    def on_refusal(self, error: ApiError) -> None:
        if not (self._dispensable and isinstance(error, Forbidden)):
            raise error
        self.state = State.OVER
        self._on_news()

    async def watch(self) -> None:
        query = (*self._query, *from_version(self._version))
        async with self._client.watch(self._resource, self._namespace, query=query) as bunches:
            async for bunch in bunches:
                for event in bunch:
                    self._version = event.version or self._version
                    if not isinstance(event, Bookmark | Malformed):
                        self._see(event)

    def _see(self, event: Seen[T]) -> None:
        before = self.found.pop(event.key, None)
        if event.obj is not None and self._wanted(event.obj):
            self.found[event.key] = event.obj
        elif before is None:
            return
        self._on_news()
