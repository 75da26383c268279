"""Keeps one store like the server, for ever."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, NoReturn, TypeVar

from controller.kube.client import Client
from controller.kube.decode import Malformed
from controller.kube.errors import ApiError, Unreachable
from controller.kube.meaning import ForRead, meaning_of
from controller.kube.request import Query
from controller.kube.resource import Resource, W
from controller.runtime import watch
from controller.runtime.backoff import Backoff
from controller.runtime.clock import elapsed
from controller.runtime.contact import Contact, RestartReason, contact_after, restart_reason
from controller.runtime.store import Change, Record, StoreWriter

T = TypeVar("T", bound=Record)

PATIENCE = 30.0
"""Seconds for the answer to a watch request, and of silence before the initial state is complete."""
TOO_SHORT = 1.0
"""A stream that ends sooner without an event counts as a failure to open: else we would hammer a sick server."""
OPENED_AGAIN = 1.0
"""Seconds within which any other stream that ended is opened again, however it ended: a load balancer that cuts
idle connections must not leave us without one for long. A random part of it, so that not all clients come at once."""
MISSING = 2.0
"""Seconds between two looks for a kind that is not there: somebody is probably about to install its CRD."""
AWAY = 1.0
"""Seconds between two looks for a server that does not answer: it feels none of them, and work waits for it."""
TURN = 128
"""Events, and objects of a list, after which the other tasks get their turn (some milliseconds)."""
CHANGE = 8
"""For how many of them a change counts: it has to be told, and a node's is judged for each DaemonSet."""


class Reflector(Generic[W, T]):
    """Lists and watches one resource (in one namespace, or in all) and writes what it sees into one store.

    `on_change` is called for every change in the very step that made it, with store and indexes up to date, so that
    nobody can see a change before its listener has. A list is told object by object, and others get their turn in
    between; `relist` never cuts that short, so the store is never half told for longer than telling takes.
    `on_contact` says when the server goes or comes, once each.
    Callbacks must be quick and must not raise: an error in one is a bug and ends `run`, because a cache that
    silently misses a change is worse than none.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[W, T],
        writer: StoreWriter[T],
        *,
        namespace: str = "",
        on_change: Callable[[Change[T]], None] = lambda change: None,
        on_malformed: Callable[[Malformed], None] = lambda malformed: None,
        on_contact: Callable[[Contact], None] = lambda contact: None,
        on_heard: Callable[[], None] = lambda: None,
        on_restart: Callable[[RestartReason], None] = lambda reason: None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`on_heard`: something came, a bookmark at least; `on_restart`: a stream that was open ended.

        `chance`: a number from 0 to 1, for the jitter.
        """
        self._on_heard, self._on_restart = on_heard, on_restart
        self._client, self._resource, self._writer = client, resource, writer
        self._namespace = namespace
        self._on_change, self._on_malformed, self._on_contact = on_change, on_malformed, on_contact
        self._chance = chance
        self._backoff = Backoff(0.8, 30.0, jitter=1.0, chance=chance)
        self._state: watch.State = watch.Start()
        self._contact: str = ""
        self._doubted = False
        self._cut: asyncio.Timeout | None = None
        self._swapping = False
        self._woken = asyncio.Event()
        self._lasted = self._delivered = False
        """Of the last stream, once it was complete: whether it stayed open for a while, and whether anything came."""
        self._went_back = False
        """Whether the last event showed that the server's versions are older than those we know."""
        self._synced = asyncio.Event()
        self._handled = 0

    async def synced(self) -> None:
        """Wait until a list is complete and its changes have been told: the first one, or the one after `relist`."""
        await self._synced.wait()

    def relist(self) -> None:
        """Somebody doubts the store: list again, now. Readers keep the old world until the new one is complete."""
        self._doubted = True
        self._woken.set()
        self._synced.clear()
        self._cut_short()

    async def run(self) -> NoReturn:
        """Never returns; raises only for a bug. Cancel it to stop."""
        while True:
            pause = 0.0
            if self._doubted:
                self._doubted = False
                self._woken.clear()
                self._state = watch.restart(self._state)
            try:
                pause = await self._turn()
            except ApiError as error:
                pause = self._failed(error)
                if meaning_of(error).read is ForRead.MISSING:
                    await self._is_unknown()
            if pause:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), pause)  # `relist` does not wait for its end

    async def _turn(self) -> float:
        """One page or one stream; returns the seconds to pause after it."""
        if isinstance(self._state, watch.Start):
            self._writer.asked(elapsed())
        wanted = watch.ask(self._state, timeout_seconds=300 + int(300 * self._chance()))
        if isinstance(wanted, watch.OpenWatch):
            return await self._stream(wanted.query)
        page = await self._client.page(self._resource, self._namespace, limit=wanted.limit, token=wanted.token)
        self._meet(Contact(state="reachable"))
        self._on_heard()
        self._state, told = watch.on_page(self._state, page)
        for event in told:
            await self._tell(event)
        return 0.0

    async def _stream(self, query: Query) -> float:
        loop = asyncio.get_running_loop()
        began, handled = loop.time(), self._handled
        cut = asyncio.timeout(PATIENCE)
        try:
            async with cut:
                self._cut = cut
                await self._follow(query)
        except TimeoutError:
            if not cut.expired():
                raise
            return self._gave_up()
        finally:
            self._cut = None
            complete = isinstance(self._state, watch.Streaming)
            self._lasted = complete and loop.time() - began >= TOO_SHORT
            self._delivered = complete and self._handled > handled
        if isinstance(self._state, watch.Start):
            return self._of_no_use()
        self._on_restart("closed")
        self._state = watch.on_end(self._state, None)
        return self._ended()

    def _of_no_use(self) -> float:
        """The seconds to pause after a stream that turned out to be of no use: none where there is another way to
        list. A server whose versions go back again and again is not listed all the time."""
        if not self._went_back:
            return 0.0
        self._on_restart("gone")
        return self._ended()

    def _ended(self) -> float:
        """The seconds to pause after a stream that was open; one that was of use forgives the failures before it.

        Where everything has to be listed again it must have lasted: a list is dear, and delivers by itself.
        """
        if self._lasted or (self._delivered and not isinstance(self._state, watch.Start)):
            self._backoff.reset()
            return OPENED_AGAIN * self._chance()
        return self._backoff.next()

    async def _follow(self, query: Query) -> None:
        """Open the stream and take what comes, until the server closes it or it turns out to be of no use."""
        async with self._client.watch(self._resource, self._namespace, query=query) as bunches:
            self._state, told = watch.on_open(self._state)
            for init in told:
                await self._tell(init)
            self._meet(Contact(state="reachable"))
            self._grant_patience()
            async for bunch in bunches:
                self._on_heard()
                for event in bunch:
                    before = self._state
                    self._state, news = watch.on_event(before, event)
                    self._went_back = isinstance(before, watch.Streaming) and isinstance(self._state, watch.Start)
                    if news is not None:
                        await self._tell(news)
                if isinstance(self._state, watch.Start):
                    return
                self._grant_patience()

    def _grant_patience(self) -> None:
        """A stream that fills must go on soon; one that streams may be silent as long as the client allows."""
        if self._doubted or self._cut is None:
            return
        if isinstance(self._state, watch.Filling):
            self._cut.reschedule(asyncio.get_running_loop().time() + PATIENCE)
        elif self._cut.when() is not None:
            self._cut.reschedule(None)

    def _cut_short(self) -> None:
        """End the stream, if there is one; a list that is being told is told to its end first."""
        if self._cut is not None and not self._cut.expired() and not self._swapping:
            self._cut.reschedule(asyncio.get_running_loop().time())

    async def _tell(self, event: watch.StoreEvent[T]) -> None:
        if isinstance(event, watch.InitDone):
            await self._tell_list(event.version)
            return
        if isinstance(event, Malformed):
            self._on_malformed(event)
        await self._told(self._writer.feed(event))

    async def _tell_list(self, version: str) -> None:
        self._swapping = True
        if self._cut is not None and not self._cut.expired():
            self._cut.reschedule(None)
        for changes in self._writer.swap(version):
            await self._told(changes)
        self._swapping = False
        if self._doubted:
            self._cut_short()
        else:
            self._synced.set()

    async def _told(self, changes: Sequence[Change[T]]) -> None:
        """Tell the listeners in the same step; after `TURN` the others get theirs."""
        for change in changes:
            self._on_change(change)
        before = self._handled
        self._handled += 1 + CHANGE * len(changes)
        if before // TURN != self._handled // TURN:
            await asyncio.sleep(0)  # the others' turn

    def _gave_up(self) -> float:
        """The time given to the stream is over: by `relist`, or because nothing came."""
        if self._doubted:
            return 0.0
        if isinstance(self._state, watch.Filling):
            self._on_restart("timeout")
            self._state = watch.on_stall(self._state)
            return 0.0
        raise Unreachable("watch", self._resource.name, f"no answer within {PATIENCE:g} s")

    def _failed(self, error: ApiError) -> float:
        """Work out the next state; returns the seconds to pause."""
        before, meant = self._state, meaning_of(error).read
        self._state = watch.on_end(before, error)
        if isinstance(before, watch.Filling | watch.Streaming):
            self._on_restart(restart_reason(error))
        if isinstance(before, watch.Start) and self._state != before:
            return 0.0  # this way of listing is refused, the other one is not tried yet
        if not isinstance(before, watch.Filling | watch.Streaming) and meant is not ForRead.ANEW:
            self._meet(contact_after(error))  # the end of an open stream is not news: the next request will show
        if meant is ForRead.MISSING:
            return MISSING * (1.0 + self._chance())
        if meant is ForRead.AWAY and not isinstance(before, watch.Filling | watch.Streaming):
            return AWAY * (1.0 + self._chance())
        pause = self._ended() if isinstance(before, watch.Filling | watch.Streaming) else self._backoff.next()
        return max(pause, error.retry_after or 0.0)

    async def _is_unknown(self) -> None:
        """The server does not know the kind, so it has no such objects any more. For one that it must know, somebody
        else has answered."""
        if self._resource.custom and self._writer.empty():
            await self._tell_list("")

    def _meet(self, contact: Contact) -> None:
        if contact.state != self._contact:
            self._contact = contact.state
            self._on_contact(contact)
