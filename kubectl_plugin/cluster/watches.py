"""Keeps objects up to date by watching them, and by reading them again when a watch has lost track.

The controller's reflector does not fit a command: it never gives up, needs the right to watch, and lists. A command
ends where a right is missing for good, reads at intervals what it may not watch, and says what does not work.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from enum import Enum, auto
from typing import Any, Final, Generic, TypeVar

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.objects import JSONObject, Key
from controller.kube.client import Client
from controller.kube.decode import Bookmark, Malformed, Seen
from controller.kube.errors import ApiError, Forbidden, NotFound, WatchVerdict, classify
from controller.kube.requests import DAEMONSETS, Query, Resource
from kubectl_plugin.cluster import documents, reads
from kubectl_plugin.cluster.documents import scope
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.rollout.snapshot import Snapshot, Unread

T = TypeVar("T")

POLL: Final = 2.0
"""Seconds between two reads of what cannot be watched."""
PATIENCE: Final = 30.0
"""Seconds for which a failing read is tried again."""


def is_from_proxy(error: ApiError) -> bool:
    """Whether the answer came from a load balancer or a proxy: the API server itself always gives a reason."""
    return error.status != 0 and not error.reason


def right_is_missing(error: ApiError) -> bool:
    """Whether the API server itself has refused for want of a right, which only an administrator can grant."""
    return isinstance(error, Forbidden) and not is_from_proxy(error)


async def read_with_patience(
    read: Callable[[], Awaitable[T]],
    tell: Callable[[str], None],
    passes: Callable[[ApiError], bool] = lambda error: not right_is_missing(error),
) -> T:
    """The result of `read`, which is tried again for up to `PATIENCE` seconds while `passes` holds for its error.

    `tell` is told the first error, once. Raises the last ApiError.
    """
    loop = asyncio.get_running_loop()
    until, told = loop.time() + PATIENCE, False
    while True:
        try:
            return await read()
        except ApiError as error:
            if not passes(error) or loop.time() >= until:
                raise
            if not told:
                tell(f"{error}; retrying")
            told = True
        await asyncio.sleep(POLL)  # after a failure


MIN_INTERVAL: Final = 0.25
"""The least number of seconds between two drawings."""
PAUSE_FACTOR: Final = 4.0
"""The pause before the next read, as a multiple of the time that the last one took: a slow server is asked less
often."""
FIRST_PAUSE: Final = 1.0
"""Seconds before the next attempt after a first failure; each further failure doubles them."""
LONGEST_PAUSE: Final = 30.0
"""The most seconds before the next attempt."""
PERMANENT: Final = (WatchVerdict.NOT_SERVED, WatchVerdict.FORBIDDEN, WatchVerdict.UNAUTHORIZED)
"""Errors that only an administrator can end."""
WORKING_SECONDS: Final = 5.0
"""Seconds after which a watch that ends counts as one that has worked, so that the next one begins at once."""


class State(Enum):
    """How much is known of something that is kept up to date. The methods of `Watched` go from one to another:

    =======  ==========================================================  =======  ============
    from     when                                                        to       by
    =======  ==========================================================  =======  ============
    STALE    it was read                                                 CURRENT  `mark_read`
    CURRENT  its watch failed or lost track, or it is time to read it    STALE    `lose_track`
    any      it was deleted, or can be done without and not be read      OVER     `end`
    OVER     anything                                                    OVER
    =======  ==========================================================  =======  ============
    """

    STALE = auto()
    """It has to be read before its changes can be followed. This is the first state, unless the caller has just read
    it."""
    CURRENT = auto()
    """It was read, and its changes are followed."""
    OVER = auto()
    """It will never change again."""


class Watched(ABC):
    """An object, or a list of them, that `Upkeep` keeps up to date. Its attributes have the present values."""

    state = State.STALE

    @property
    def over(self) -> bool:
        return self.state is State.OVER

    def mark_read(self) -> None:
        """Tell that the state on the server has just been read."""
        self._go_to(State.CURRENT)

    def lose_track(self) -> None:
        """Tell that changes may have been missed, so that it has to be read again."""
        self._go_to(State.STALE)

    def end(self) -> None:
        """Tell that it will never change again."""
        self._go_to(State.OVER)

    def _go_to(self, state: State) -> None:
        if not self.over:
            self.state = state

    @abstractmethod
    async def refresh(self) -> None:
        """Read the present state. Raises ApiError."""

    @abstractmethod
    async def watch(self) -> None:
        """Follow the changes after the last known version, until the server ends the stream. What cannot be followed
        waits until it may have changed, and calls `lose_track`. Raises ApiError."""

    def on_refusal(self, error: ApiError) -> None:
        """Called when `refresh` has failed for good. Raises `error`, or returns where its state is not essential."""
        raise error

    async def begin(self, tell: Callable[[str], None]) -> None:
        """Read it for the first time. A failure is retried for `PATIENCE` seconds, and `tell` is told of it once.

        Raises ApiError.
        """
        try:
            await read_with_patience(self.refresh, tell)
        except Forbidden as error:
            self.on_refusal(error)
        self.mark_read()


class Upkeep:
    """Keeps several `Watched` up to date together, and wakes who waits for a change of any of them."""

    bunch = 0.0
    """Seconds for which changes are collected before `changed` returns."""

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self._seen = 0.0
        self._interruptions: dict[Watched, str] = {}
        self._refused: dict[Watched, float] = {}

    @property
    def interruption(self) -> str:
        """What does not work at the moment, in words; empty if all works."""
        return next(iter(self._interruptions.values()), "")

    async def changed(self, seconds: float, *, apart: float = MIN_INTERVAL) -> None:
        """Wait for the next change, at most `seconds`. Two changes are told at least `apart` seconds apart."""
        if not await is_set_within(self._news, seconds):
            return
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(self._seen + apart - loop.time(), self.bunch))  # a screen is not drawn for each event
        self._seen = loop.time()
        self._news.clear()

    @asynccontextmanager
    async def keeping(self, *watched: Watched) -> AsyncIterator[None]:
        """Keep them up to date while the block runs. An error that ends one of them is raised by itself, in the
        block."""
        async with scope() as group:
            tasks = [group.create_task(self.keep(one)) for one in watched]
            yield
            for task in tasks:
                task.cancel()

    async def keep(self, watched: Watched) -> None:
        """Keep it up to date until it is over, or the task is cancelled. Raises what `watched.on_refusal` raises."""
        loop = asyncio.get_running_loop()
        pause, polls = FIRST_PAUSE, False
        while not watched.over:
            began = loop.time()
            try:
                if watched.state is State.STALE:
                    await watched.refresh()
                    self._note_success(watched)
                if polls:
                    await asyncio.sleep(max(POLL, PAUSE_FACTOR * (loop.time() - began)))  # it may not be watched
                    watched.lose_track()
                else:
                    await watched.watch()
                if watched.state is not State.CURRENT:
                    pause = FIRST_PAUSE
                    continue
            except ApiError as error:
                meaning = classify(error).watch
                if meaning is WatchVerdict.FORBIDDEN and watched.state is not State.STALE:
                    polls = True
                    continue
                watched.lose_track()
                if meaning is not WatchVerdict.EXPIRED and not self._may_pass(watched, error):
                    watched.on_refusal(error)
            if loop.time() - began >= WORKING_SECONDS:
                pause = FIRST_PAUSE
            else:
                await asyncio.sleep(pause)  # after a failure, or a watch that ended at once
                pause = min(pause * 2, LONGEST_PAUSE)

    def _note_success(self, watched: Watched) -> None:
        watched.mark_read()
        self._interruptions.pop(watched, None)
        self._refused.pop(watched, None)

    def _may_pass(self, watched: Watched, error: ApiError) -> bool:
        """Whether to try again. An error that only an administrator can end is retried for `PATIENCE` seconds."""
        self._interruptions[watched] = str(error)
        now = asyncio.get_running_loop().time()
        return classify(error).watch not in PERMANENT or now - self._refused.setdefault(watched, now) < PATIENCE


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Whether `event` is set now, or within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


class ReadAgain(Watched):
    """Calls `read` again soon after each `mark_stale`, and after `every` seconds without one."""

    def __init__(
        self,
        read: Callable[[], Awaitable[None]],
        *,
        every: float,
        bunch: float,
        dispensable: bool = False,
    ) -> None:
        """`bunch`: seconds that a read waits after a doubt, so that further doubts share it.

        `dispensable`: whether a command goes on with the last state where reading has failed for good.
        """
        self.every = every
        """Seconds between two reads without a doubt; `read` may set another number."""
        self._read, self._bunch, self._dispensable = read, bunch, dispensable
        self._stale = asyncio.Event()

    def mark_stale(self) -> None:
        """Tell that the state may have changed."""
        self._stale.set()

    async def refresh(self) -> None:
        self._stale.clear()  # what changes during the read may be missing in it
        await self._read()

    async def watch(self) -> None:
        if await is_set_within(self._stale, self.every):
            await asyncio.sleep(self._bunch)  # all of the bunch is read once
        self.lose_track()

    def on_refusal(self, error: ApiError) -> None:
        if not self._dispensable:
            raise error


class WatchedObject(Watched):
    """One DaemonSet. `snapshot` has its newest document and its revisions, which are listed again when there may be
    another one."""

    state = State.CURRENT

    def __init__(self, invocation: Invocation, first: Snapshot, on_news: Callable[[], None]) -> None:
        unread = tuple(one for one in first.unread if one.what == "controllerrevisions")
        self.snapshot = replace(first, unread=unread)
        self._invocation, self._on_news = invocation, on_news
        self._version = reads.meta_of(first.document).resource_version
        failed = any(not one.is_forbidden for one in unread)
        self._revised = None if failed else _revision_marks(first.daemonset)

    async def refresh(self) -> None:
        try:
            document = await documents.get(self._invocation.session, DAEMONSETS, self.snapshot.key)
        except NotFound as error:
            if error.name != self.snapshot.key.name:  # the 404 is from a proxy, or about the whole kind
                raise
            self._note_deletion()
            return
        await self._see(document)

    async def watch(self) -> None:
        await self._read_revisions()
        watch = documents.watch(self._invocation.session, DAEMONSETS, self.snapshot.key, self._version)
        async with aclosing(watch) as events:
            async for kind, document in events:
                if kind == "BOOKMARK":
                    self._version = reads.meta_of(document).resource_version
                elif kind == "DELETED":
                    self._note_deletion()
                else:
                    await self._see(document)
                if self.over:
                    return

    async def _see(self, document: JSONObject) -> None:
        """Take over the newer `document`. One with another uid is another object: the followed one was deleted."""
        made = reads.with_document(self.snapshot, document)
        if made.daemonset.uid != self.snapshot.daemonset.uid:
            self._note_deletion()
            return
        self._version = reads.meta_of(document).resource_version
        self.snapshot = made
        self._on_news()
        await self._read_revisions()

    async def _read_revisions(self) -> None:
        """List the revisions again, if the DaemonSet has changed in a way that may have made or renumbered one.

        Without the right to list them they are none, and `unread` says so. Raises ApiError for any other failure; the
        next call then tries again.
        """
        daemonset = self.snapshot.daemonset
        revised = _revision_marks(daemonset)
        if revised == self._revised:
            return
        try:
            revisions = await reads.revisions_of(self._invocation, daemonset)
            self.snapshot = replace(self.snapshot, revisions=revisions, unread=())
        except Forbidden as error:
            if not right_is_missing(error):
                raise
            self.snapshot = replace(self.snapshot, revisions=(), unread=(Unread(what="controllerrevisions"),))
        self._revised = revised
        self._on_news()

    def _note_deletion(self) -> None:
        self.end()
        self._on_news()


class WatchedObjects(Watched, Generic[T]):
    """A list of objects: those that `query` selects on the server and for which `wanted` holds here.

    `found` has them by key. It is empty before the first `refresh`, and is replaced as a whole by each further one.
    """

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
        """`dispensable`: whether a user without the right to list them gets a report without them, and no error."""
        self.found: dict[Key, T] = {}
        self._client, self._resource, self._namespace, self._query = client, resource, namespace, query
        self._on_news, self._wanted, self._dispensable = on_news, wanted, dispensable
        self._version = ""

    async def refresh(self) -> None:
        found: dict[Key, T] = {}
        async for page in self._client.pages(self._resource, self._namespace, query=self._query):
            for item in page.items:
                if isinstance(item, Seen) and item.obj is not None and self._wanted(item.obj):
                    found[item.key] = item.obj
        is_news = not self._version or found != self.found
        self.found, self._version = found, page.version
        if is_news:
            self._on_news()

    def on_refusal(self, error: ApiError) -> None:
        if not (self._dispensable and isinstance(error, Forbidden)):
            raise error
        self.end()
        self._on_news()

    async def watch(self) -> None:
        query = (*self._query, *documents.from_version(self._version))
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


def _revision_marks(daemonset: DaemonSet) -> tuple[object, ...]:
    """The fields of the DaemonSet that change whenever a revision is created or renumbered. While they stay the same,
    the revisions that were listed are up to date.
    """
    status = daemonset.status
    return (daemonset.generation, status and status.update_revision, status and status.observed_generation)
