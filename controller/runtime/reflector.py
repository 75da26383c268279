"""Lists and watches one resource and writes what it sees into a store."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from typing import Generic, TypeAlias, TypeVar

from controller.api.objects import Value
from controller.kube.client import Client, Events
from controller.kube.decode import Malformed, Page
from controller.kube.errors import ApiError, Unreachable
from controller.kube.requests import Query, Resource, W
from controller.runtime import watch
from controller.runtime.clock import elapsed
from controller.runtime.pacing import Backoff
from controller.runtime.store import Change, Record, StoreWriter
from controller.runtime.watch import Connectivity, PauseLength, RestartReason

T = TypeVar("T", bound=Record)

WATCH_IDLE_SECONDS = 30.0
"""Seconds to wait for the answer to a watch request, and for each event of an incomplete initial state."""
SLICE = 128
"""Events and listed objects handled before other tasks may run: a few milliseconds of work."""
CHANGE_WEIGHT = 8
"""The number of events a change counts as for `SLICE`, because handling it judges a node for each DaemonSet."""


class Received(Value):
    """Something came from the server, at least a bookmark."""


class Restarted(Value):
    reason: RestartReason


class Restored(Value):
    """The server's storage was restored from a backup: other caches may show what never was, too."""


ReflectorEvent: TypeAlias = Change[T] | Malformed | Connectivity | Received | Restarted | Restored
ReflectorEvents: TypeAlias = Iterator[ReflectorEvent[T] | None]
"""The events of one answer; None where other tasks may run."""


class Reflector(Generic[W, T]):
    """Lists and watches one resource, in one namespace or in all, as the only writer of that part of a store. Readers
    see a complete list all at once; its changes are yielded one by one, with other tasks in between."""

    def __init__(
        self,
        client: Client,
        resource: Resource[W, T],
        writer: StoreWriter[T],
        *,
        namespace: str = "",
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`chance` returns a number from 0 to 1, for the jitter."""
        self.resource, self.namespace = resource, namespace
        self._client, self._writer, self._chance = client, writer, chance
        self._backoff = Backoff(*PauseLength.GROWING.value, jitter=1.0, chance=chance)
        self._state: watch.State = watch.Empty()
        self._connectivity = ""
        self._end: watch.End | None = None
        """How the current request or stream ended; None while it goes on, or after a page."""
        self._relist_requested, self._synced = asyncio.Event(), asyncio.Event()
        self._idle: asyncio.Timeout | None = None
        """The timeout of the open stream, set only while the next event is awaited: `relist` may expire it."""
        self._handled = 0

    @property
    def name(self) -> str:
        """The resource for messages: `pods in default`."""
        name = f"{self.resource.name} with {self.resource.only}" if self.resource.only else self.resource.name
        return f"{name} in {self.namespace}" if self.namespace else name

    async def synced(self) -> None:
        """Waits until the changes of a complete list have been yielded: the first one, or the one after `relist`."""
        await self._synced.wait()

    def relist(self) -> None:
        """Lists again, because the store may be wrong. Readers see the old objects until the list is complete."""
        self._relist_requested.set()
        self._synced.clear()
        if self._idle is not None and not self._idle.expired():
            self._idle.reschedule(asyncio.get_running_loop().time())

    async def events(self) -> AsyncGenerator[ReflectorEvent[T]]:
        """Lists and watches forever, retrying every `ApiError`. A change is yielded once the store and its indexes
        show it. The caller must handle an event without waiting, and close the generator."""
        async with aclosing(self._answers()) as answers:
            async for events in answers:
                for event in events:
                    if event is None:
                        await asyncio.sleep(0)  # other tasks may run
                    else:
                        yield event

    async def _answers(self) -> AsyncGenerator[ReflectorEvents[T]]:
        while True:
            if self._relist_requested.is_set():
                self._relist_requested.clear()
                self._state = watch.on_end(self._state, watch.RelistRequested())
            if isinstance(self._state, watch.Empty):
                self._writer.list_requested(elapsed())
            request = watch.next_request(self._state, timeout_seconds=300 + int(300 * self._chance()))
            began, handled, self._end = elapsed(), self._handled, None
            try:
                if isinstance(request, watch.OpenWatch):
                    async with aclosing(self._stream(request.query)) as bunches:
                        async for events in bunches:
                            yield events
                else:
                    limit, token = request.limit, request.token
                    yield self._page(await self._client.page(self.resource, self.namespace, limit=limit, token=token))
            except ApiError as error:
                self._end = watch.Failed(error=error)
            if self._end is not None:
                lasted, delivered = elapsed() - began, self._handled > handled
                pause = watch.pause_after(self._state, self._end, lasted=lasted, delivered=delivered)
                self._state = watch.on_end(self._state, self._end)
                yield self._report(pause)
                if seconds := max(self._seconds(pause.length), pause.at_least):
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._relist_requested.wait(), seconds)

    async def _stream(self, query: Query) -> AsyncGenerator[ReflectorEvents[T]]:
        """Yields the events of one stream and sets `_end`. Only an incomplete initial state is ended by
        `WATCH_IDLE_SECONDS` without an event. `relist` interrupts every wait for one."""
        self._idle = limit = asyncio.timeout(WATCH_IDLE_SECONDS)
        try:
            async with limit, self._client.watch(self.resource, self.namespace, query=query) as bunches:
                self._stop_idle_timer(limit)
                self._state = watch.on_open(self._state)
                if isinstance(self._state, watch.InitialWatch):
                    self._writer.apply(watch.Init())
                yield self._reachable()
                while self._end is None:
                    if self._relist_requested.is_set():
                        self._end = watch.RelistRequested()
                        return
                    self._idle = limit
                    if isinstance(self._state, watch.InitialWatch):
                        limit.reschedule(elapsed() + WATCH_IDLE_SECONDS)
                    bunch = await anext(bunches, None)
                    self._stop_idle_timer(limit)
                    if bunch is None:
                        self._end = watch.Closed()
                    else:
                        yield self._events(bunch)
        except TimeoutError:
            if not limit.expired():
                raise
            self._end = self._end_of_silence()
        finally:
            self._idle = None

    def _stop_idle_timer(self, limit: asyncio.Timeout) -> None:
        """Protects the handling of the awaited event from the timeout and `relist`."""
        self._idle = None
        if limit.when() is not None:
            limit.reschedule(None)

    def _end_of_silence(self) -> watch.End:
        if self._relist_requested.is_set():
            return watch.RelistRequested()
        if isinstance(self._state, watch.InitialWatch):
            return watch.Stalled()
        return watch.Failed(
            error=Unreachable("watch", self.resource.name, f"no answer within {WATCH_IDLE_SECONDS:g} s")
        )

    def _events(self, bunch: Events[T]) -> ReflectorEvents[T]:
        yield Received()
        try:
            for event in bunch:
                following = watch.on_event(self._state, event)
                if not isinstance(following, watch.Next):
                    self._end = following
                    return
                self._state = following.state
                yield from self._store(following.event)
        except ApiError as error:
            self._end = watch.Failed(error=error)

    def _page(self, page: Page[T]) -> ReflectorEvents[T]:
        yield from self._reachable()
        yield Received()
        self._state, events = watch.on_page(self._state, page)
        for event in events:
            yield from self._store(event)

    def _reachable(self) -> ReflectorEvents[T]:
        if self._is_news(reachable := Connectivity(state="reachable")):
            yield reachable

    def _report(self, pause: watch.WatchPause) -> ReflectorEvents[T]:
        if pause.restart is not None:
            yield Restarted(reason=pause.restart)
        if pause.connectivity is not None and self._is_news(pause.connectivity):
            yield pause.connectivity
        if pause.not_served and self.resource.custom and self._writer.filled:
            # only for custom kinds: if a built-in one is not served, it was not the API server that answered
            yield from self._store(watch.Init())
            yield from self._store(watch.InitDone(version=""))

    def _store(self, event: watch.StoreEvent[T]) -> ReflectorEvents[T]:
        """Writes the event into the store; yields what that changes, and None after every `SLICE`."""
        if isinstance(event, Malformed):
            yield event
        if isinstance(event, watch.InitDone) and self._writer.is_ahead_of(event.version):
            yield Restored()
        changed: Iterable[Sequence[Change[T]]] = (
            self._writer.replace(event.version) if isinstance(event, watch.InitDone) else (self._writer.apply(event),)
        )
        for changes in changed:
            yield from changes
            before = self._handled
            self._handled += 1 + CHANGE_WEIGHT * len(changes)
            if before // SLICE != self._handled // SLICE:
                yield None
        if isinstance(event, watch.InitDone) and not self._relist_requested.is_set():
            self._synced.set()

    def _seconds(self, length: PauseLength) -> float:
        if length is PauseLength.GROWING:
            return self._backoff.next()
        if length is PauseLength.SHORT:
            self._backoff.reset()
        least, most = length._value_
        return least + (most - least) * self._chance()

    def _is_news(self, connectivity: Connectivity) -> bool:
        before, self._connectivity = self._connectivity, connectivity.state
        return before != connectivity.state
