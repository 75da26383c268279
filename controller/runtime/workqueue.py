"""Which keys need work: coalesced, one worker at a time per key, with delays and a growing one for keys that fail."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import msgspec

from controller.runtime.backoff import BackoffTable

K = TypeVar("K", bound=Hashable)

REASONS_KEPT = 4
REPLACED_KEPT = 64
"""Entries of the heap that may be out of date, besides as many as there are due times, before it is rebuilt."""


class QueueClosed(Exception):
    """The queue hands out nothing any more."""


class Taken(msgspec.Struct, Generic[K], frozen=True):
    """A key in somebody's hand, and why it came there."""

    key: K
    reasons: tuple[str, ...]
    """The first few different reasons since the key was last taken."""
    queued_seconds: float
    """How long it was ready and nobody had a free hand."""


class _Wanted(msgspec.Struct):
    since: float
    reasons: list[str]

    def because(self, reason: str) -> None:
        if reason and len(self.reasons) < REASONS_KEPT and reason not in self.reasons:
            self.reasons.append(reason)


class WorkQueue(Generic[K]):
    """Keys that are to be processed, each by one worker at a time. It has no lock and no task of its own.

    Invariants, between any two awaits:
    - a key is in `ready` if and only if it is dirty and not processing; it stands there once;
    - a key is processing from `take` until the block is left, however it is left, cancellation included;
    - a key added while processing is dirty, and becomes ready when the block is left: no trigger is lost;
    - a key has at most one due time; of two delays the earlier wins, and an `add` in between leaves it alone;
    - while a key is ready, some waiting `take` has been woken, or none waits;
    - after `close` nothing is handed out and nothing is added; what is taken may finish.

    Use it inside one running event loop: delays are seconds of that loop's time.
    """

    def __init__(self, backoff: BackoffTable[K] | None = None) -> None:
        self._backoff: BackoffTable[K] = BackoffTable() if backoff is None else backoff
        self._ready: deque[K] = deque()
        self._dirty: dict[K, _Wanted] = {}
        self._processing: dict[K, float] = {}
        self._due: dict[K, tuple[float, str]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self.adds = 0
        """Keys that became dirty since the start (a repeated add of a dirty key does not count)."""
        self.retries = 0

    def add(self, key: K, reason: str = "") -> None:
        """`key` needs work now."""
        if self._closed:
            return
        wanted = self._dirty.get(key)
        if wanted is None:
            wanted = self._dirty[key] = _Wanted(asyncio.get_running_loop().time(), [])
            self.adds += 1
            if key not in self._processing:
                self._ready.append(key)
                self._wake()
        wanted.because(reason)

    def add_after(self, key: K, delay: float, reason: str = "") -> None:
        """`key` needs work in `delay` seconds, or earlier if that was asked for before."""
        if delay <= 0:
            self.add(key, reason)
            return
        if self._closed:
            return
        due = asyncio.get_running_loop().time() + delay
        known = self._due.get(key)
        if known is not None and known[0] <= due:
            return
        self._due[key] = (due, reason)
        self._sequence += 1
        heapq.heappush(self._heap, (due, self._sequence, key))
        if len(self._heap) > 2 * len(self._due) + REPLACED_KEPT:
            self._drop_replaced()
        self._set_timer()

    def retry(self, key: K, at_least: float = 0.0) -> None:
        """`key` failed: add it after its own growing delay, not sooner than `at_least` seconds."""
        self.retries += 1
        delay = self._backoff.strike(key, asyncio.get_running_loop().time())
        self.add_after(key, max(delay, at_least), "retry")

    def forget(self, key: K) -> None:
        """`key` did not fail: its next retry starts from the shortest delay. Wanted work stays wanted."""
        self._backoff.forget(key)

    @asynccontextmanager
    async def take(self) -> AsyncIterator[Taken[K]]:
        """Wait for a key and hold it; leaving the block gives it back. Raises `QueueClosed`."""
        taken = await self._next()
        try:
            yield taken
        finally:
            del self._processing[taken.key]
            if taken.key in self._dirty and not self._closed:
                self._dirty[taken.key].since = asyncio.get_running_loop().time()
                self._ready.append(taken.key)
                self._wake()

    def close(self) -> None:
        """Hand out nothing more. Those who wait in `take` get `QueueClosed`."""
        self._closed = True
        self._ready.clear()
        self._due.clear()
        self._heap.clear()
        self._set_timer()
        while self._waiting:
            self._wake()

    @property
    def depth(self) -> int:
        """Keys that are ready and in nobody's hand."""
        return len(self._ready)

    @property
    def later(self) -> int:
        """Keys with a due time ahead."""
        return len(self._due)

    def processing_seconds(self) -> tuple[float, ...]:
        """For each key in somebody's hand: since how many seconds. A growing one is a worker that hangs."""
        now = asyncio.get_running_loop().time()
        return tuple(now - since for since in self._processing.values())

    async def _next(self) -> Taken[K]:
        loop = asyncio.get_running_loop()
        while not self._ready:
            if self._closed:
                raise QueueClosed
            woken = loop.create_future()
            self._waiting.append(woken)
            try:
                await woken
            except asyncio.CancelledError:
                if woken in self._waiting:
                    self._waiting.remove(woken)
                elif self._ready:
                    self._wake()  # we were woken for a key and will not take it: pass the call on
                raise
        key = self._ready.popleft()
        wanted = self._dirty.pop(key)
        now = loop.time()
        self._processing[key] = now
        return Taken(key=key, reasons=tuple(wanted.reasons), queued_seconds=now - wanted.since)

    def _wake(self) -> None:
        while self._waiting:
            woken = self._waiting.popleft()
            if not woken.done():
                woken.set_result(None)
                return

    def _on_timer(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            known = self._due.get(key)
            if known is not None and known[0] == due:
                del self._due[key]
                self.add(key, known[1])
        self._set_timer()

    def _drop_replaced(self) -> None:
        """Delays that come down from afar leave entries that would stay until due, a quarter of an hour maybe."""
        self._sequence = 0
        self._heap.clear()
        for key, (due, _) in self._due.items():
            self._sequence += 1
            self._heap.append((due, self._sequence, key))
        heapq.heapify(self._heap)

    def _set_timer(self) -> None:
        """One timer, for the earliest entry. Entries that an earlier one replaced fire and do nothing."""
        first = self._heap[0][0] if self._heap else None
        if self._timer is not None:
            if self._timer.when() == first:
                return
            self._timer.cancel()
            self._timer = None
        if first is not None:
            self._timer = asyncio.get_running_loop().call_at(first, self._on_timer)
