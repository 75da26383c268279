"""Lists and watches one resource, for ever, and writes what it sees into a store."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Generic, NoReturn, TypeVar

from controller.kube.client import Client
from controller.kube.decode import Malformed
from controller.kube.errors import ApiError, Unreachable
from controller.kube.requests import Query, Resource, W
from controller.runtime import watch
from controller.runtime.clock import elapsed
from controller.runtime.store import Change, Record, StoreWriter
from controller.runtime.watch import Connectivity, ConnectivityState, PauseLength, RestartReason, pause_after
from controller.runtime.workqueue import Backoff

T = TypeVar("T", bound=Record)

SILENCE = 30.0
"""Seconds to wait for the answer to a watch request, and for the next event while the initial state is incomplete."""
TURN = 128
"""Events, and objects of a list, that are taken in before other tasks may run: some milliseconds of work."""
CHANGE = 8
"""A change counts as this many events for `TURN`, because it calls the listeners, and a node is judged for each
DaemonSet."""


class Reflector(Generic[W, T]):
    """Lists and watches one resource (in one namespace, or in all) and writes what it sees into one store.

    `on_change` is called for every change, with store and indexes up to date. Readers find a list all at once; its
    changes are told one by one, and other tasks run in between. `relist` never interrupts that, so no list stays half
    told. `on_contact` is called once whenever the server becomes reachable, unreachable, missing or forbidden.
    Callbacks must be quick and must not raise: an error in one is a bug and ends `run`, because a listener that
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
        on_contact: Callable[[Connectivity], None] = lambda contact: None,
        on_heard: Callable[[], None] = lambda: None,
        on_restart: Callable[[RestartReason], None] = lambda reason: None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`on_heard` is called when anything comes, a bookmark included; `on_restart` when an open stream ends.

        `chance` returns a number from 0 to 1, for the jitter.
        """
        self._on_heard, self._on_restart = on_heard, on_restart
        self._client, self._resource, self._writer = client, resource, writer
        self._namespace = namespace
        self._on_change, self._on_malformed, self._on_contact = on_change, on_malformed, on_contact
        self._chance = chance
        self._backoff = Backoff(*PauseLength.GROWING.seconds, jitter=1.0, chance=chance)
        self._state: watch.State = watch.Empty()
        self._contact: ConnectivityState | None = None
        self._relist_asked, self._synced = asyncio.Event(), asyncio.Event()
        self._waiting: asyncio.Timeout | None = None
        """The timeout of the open stream, but only while the next event is waited for: `relist` may expire it."""
        self._handled = 0

    async def synced(self) -> None:
        """Wait until a list is complete and its changes have been told: the first one, or the one after `relist`."""
        await self._synced.wait()

    def relist(self) -> None:
        """List again at once, because the store may be wrong. Readers see the old objects until the new list is
        complete."""
        self._relist_asked.set()
        self._synced.clear()
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> NoReturn:
        """Never returns; raises only for a bug. Cancel it to stop."""
        loop = asyncio.get_running_loop()
        while True:
            if self._relist_asked.is_set():
                self._relist_asked.clear()
                self._state = watch.on_end(self._state, watch.RelistRequested())
            if isinstance(self._state, watch.Empty):
                self._writer.asked(elapsed())
            wanted = watch.ask(self._state, timeout_seconds=300 + int(300 * self._chance()))
            began, handled = loop.time(), self._handled
            end: watch.End | None = None
            try:
                if isinstance(wanted, watch.OpenWatch):
                    end = await self._stream(wanted.query)
                else:
                    await self._list(wanted)
            except ApiError as error:
                end = watch.Failed(error=error)
            if end is None:
                continue
            lasted, delivered = loop.time() - began, self._handled > handled
            if pause := await self._after(end, lasted=lasted, delivered=delivered):
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._relist_asked.wait(), pause)  # `relist` does not wait for its end

    async def _list(self, wanted: watch.ListPage) -> None:
        page = await self._client.page(self._resource, self._namespace, limit=wanted.limit, token=wanted.token)
        self._meet(Connectivity(state="reachable"))
        self._on_heard()
        self._state, told = watch.on_page(self._state, page)
        for event in told:
            await self._tell(event)

    async def _stream(self, query: Query) -> watch.End:
        """Open a stream and take in its events until it ends. Until the initial state is complete, a silence of
        `SILENCE` ends it; afterwards only the client's own limit does. `relist` ends every wait for an event."""
        loop = asyncio.get_running_loop()
        self._waiting = limit = asyncio.timeout(SILENCE)
        try:
            async with limit, self._client.watch(self._resource, self._namespace, query=query) as bunches:
                self._waits_no_more(limit)
                self._state, told = watch.on_open(self._state)
                for init in told:
                    await self._tell(init)
                self._meet(Connectivity(state="reachable"))
                while not self._relist_asked.is_set():
                    self._waiting = limit
                    if isinstance(self._state, watch.InitialWatch):
                        limit.reschedule(loop.time() + SILENCE)
                    bunch = await anext(bunches, None)
                    self._waits_no_more(limit)
                    if bunch is None:
                        return watch.Closed()
                    self._on_heard()
                    for event in bunch:
                        step = watch.on_event(self._state, event)
                        if not isinstance(step, watch.Next):
                            return step
                        self._state = step.state
                        await self._tell(step.event)
                return watch.RelistRequested()
        except TimeoutError:
            if not limit.expired():
                raise
            if self._relist_asked.is_set():
                return watch.RelistRequested()
            if isinstance(self._state, watch.InitialWatch):
                return watch.Stalled()
            return watch.Failed(error=Unreachable("watch", self._resource.name, f"no answer within {SILENCE:g} s"))
        finally:
            self._waiting = None

    def _waits_no_more(self, limit: asyncio.Timeout) -> None:
        """The awaited event has come: neither the timeout nor `relist` may interrupt what is done with it."""
        self._waiting = None
        if limit.when() is not None:
            limit.reschedule(None)

    async def _tell(self, event: watch.StoreEvent[T]) -> None:
        """Write the event into the store, and tell listeners each change; after every `TURN` other tasks run."""
        if isinstance(event, Malformed):
            self._on_malformed(event)
        steps: Iterable[Sequence[Change[T]]] = (
            self._writer.swap(event.version) if isinstance(event, watch.InitDone) else (self._writer.feed(event),)
        )
        for changes in steps:
            for change in changes:
                self._on_change(change)
            before = self._handled
            self._handled += 1 + CHANGE * len(changes)
            if before // TURN != self._handled // TURN:
                await asyncio.sleep(0)  # other tasks may run
        if isinstance(event, watch.InitDone) and not self._relist_asked.is_set():
            self._synced.set()

    async def _after(self, end: watch.End, *, lasted: float, delivered: bool) -> float:
        """Go to the next state and call the listeners for restart and contact; returns the seconds to pause."""
        pause = pause_after(self._state, end, lasted=lasted, delivered=delivered)
        self._state = watch.on_end(self._state, end)
        if pause.restart is not None:
            self._on_restart(pause.restart)
        if pause.contact is not None:
            self._meet(pause.contact)
        if pause.emptied and self._resource.custom and self._writer.filled:
            # only for custom kinds: if a built-in one is unknown, it was not the API server that answered
            await self._tell(watch.Init())
            await self._tell(watch.InitDone(version=""))
        return max(self._seconds(pause.length), pause.at_least)

    def _seconds(self, length: PauseLength) -> float:
        if length is PauseLength.GROWING:
            return self._backoff.next()
        if length is PauseLength.SHORT:
            self._backoff.reset()
        least, most = length.seconds
        return least + (most - least) * self._chance()

    def _meet(self, contact: Connectivity) -> None:
        if contact.state != self._contact:
            self._contact = contact.state
            self._on_contact(contact)
