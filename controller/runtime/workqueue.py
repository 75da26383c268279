"""The queue of keys that need work: each key once, with at most one worker per key, delays, and a back-off for keys
that fail. It has the promises of client-go's rate-limiting queue."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import msgspec

from controller.runtime.backoff import BackoffTable
from controller.runtime.delays import Delays

K = TypeVar("K", bound=Hashable)

REASONS_KEPT = 4
"""The most reasons that the log line of a pass lists; more would add nothing."""


class QueueClosed(Exception):
    """Raised by `take` when the queue is closed: it gives out no more keys."""


class Taken(msgspec.Struct, Generic[K], frozen=True):
    """A key that is being processed, and why it was added."""

    key: K
    reasons: tuple[str, ...]
    """The first different reasons since the key was last taken, at most `REASONS_KEPT`."""
    queued_seconds: float
    """For how many seconds the key was ready and waited for a free worker."""


class _Wanted(msgspec.Struct):
    since: float
    reasons: list[str]

    def because(self, reason: str) -> None:
        if reason and len(self.reasons) < REASONS_KEPT and reason not in self.reasons:
            self.reasons.append(reason)


class WorkQueue(Generic[K]):
    """The keys that are to be processed, each by one worker at a time. There is no lock and no task here.

    Invariants, between any two awaits:
    - a key is in `ready`, once, if and only if it is dirty (needs work) and not being processed;
    - a key is being processed from `take` until the block is left, however it is left, cancellation included;
    - a key added while it is processed is dirty, and becomes ready when the block is left: no trigger is lost;
    - a key has at most one due time; of two delays the earlier wins, and an `add` in between leaves it alone;
    - while a key is ready, a waiting `take` has been woken, unless none waits;
    - after `close` no key is dirty and none is added; keys that are being processed may finish.

    Use it inside one running event loop: delays are seconds of that loop's time.
    """

    def __init__(self) -> None:
        self._backoff: BackoffTable[K] = BackoffTable()
        self._ready: deque[K] = deque()
        self._dirty: dict[K, _Wanted] = {}
        self._processing: dict[K, float] = {}
        self._delays: Delays[K] = Delays(self.add)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self.adds = 0
        """How many keys have become dirty since the start; another add of a dirty key does not count."""
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
        if not self._closed:
            self._delays.add(key, asyncio.get_running_loop().time() + delay, reason)

    def retry(self, key: K, at_least: float = 0.0) -> None:
        """`key` failed: add it after its own growing delay, but not sooner than in `at_least` seconds."""
        self.retries += 1
        delay = self._backoff.strike(key, asyncio.get_running_loop().time())
        self.add_after(key, max(delay, at_least), "retry")

    def forget(self, key: K) -> None:
        """`key` did not fail: its next retry has the shortest delay again. Work that was added stays."""
        self._backoff.forget(key)

    @asynccontextmanager
    async def take(self) -> AsyncIterator[Taken[K]]:
        """Wait for a key; it is being processed until the block is left. Raises `QueueClosed`."""
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
                    self._wake()  # we were woken for a key and will not take it: wake another one
                raise
        key = self._ready.popleft()
        wanted, now = self._dirty.pop(key), loop.time()
        self._processing[key] = now
        try:
            yield Taken(key=key, reasons=tuple(wanted.reasons), queued_seconds=now - wanted.since)
        finally:
            del self._processing[key]
            if key in self._dirty:
                self._dirty[key].since = loop.time()
                self._ready.append(key)
                self._wake()

    def close(self) -> None:
        """Give out no more keys. Whoever waits in `take` gets `QueueClosed`."""
        self._closed = True
        self._ready.clear()
        self._dirty.clear()
        self._delays.clear()
        while self._waiting:
            self._wake()

    @property
    def depth(self) -> int:
        """How many keys are ready and not being processed."""
        return len(self._ready)

    @property
    def later(self) -> int:
        """How many keys wait for a delay that is not over."""
        return len(self._delays)

    def processing_seconds(self) -> tuple[float, ...]:
        """Seconds for which each key has been processed so far. A number that keeps growing is a pass that hangs."""
        now = asyncio.get_running_loop().time()
        return tuple(now - since for since in self._processing.values())

    def _wake(self) -> None:
        while self._waiting:
            woken = self._waiting.popleft()
            if not woken.done():
                woken.set_result(None)
                return
