"""A queue of keys with the guarantees of client-go's rate-limiting queue."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

import msgspec

from controller.runtime.clock import elapsed

K = TypeVar("K", bound=Hashable)

MAX_REASONS = 4
"""The most reasons kept for the log line of a pass."""
FIRST_RETRY, LONGEST_RETRY = 0.005, 1000.0
"""Seconds, as in client-go's `ItemExponentialFailureRateLimiter`."""


class QueueShutDown(Exception):
    """Raised by `get` after `shut_down`."""


class WorkItem(msgspec.Struct, Generic[K], frozen=True):
    key: K
    reasons: tuple[str, ...]
    """The first distinct reasons since the key was last taken, at most `MAX_REASONS`."""
    queued_seconds: float
    """Seconds for which the ready key waited to be taken."""


class _Dirty(msgspec.Struct):
    since: float
    reasons: list[str]


class WorkQueue(Generic[K]):
    """The keys to process; each is given out once at a time. Delays are seconds of the running event loop's time.
    Invariants, between any two awaits:

    - a key is queued, once, if and only if it is dirty (needs work) and not being processed (from `get` to `done`);
    - a key added while it is processed is dirty, and is queued when it is done: no trigger is lost;
    - a key has at most one timer; of two delays the earlier wins, and `add` leaves it alone;
    - while a key is queued, every waiting `get` has been woken;
    - after `shut_down` no key is dirty and none is added; keys that are being processed may finish."""

    def __init__(self) -> None:
        self._retry_delays: dict[K, float] = {}
        self._queue: deque[K] = deque()
        self._dirty: dict[K, _Dirty] = {}
        self._processing: dict[K, tuple[float, WorkItem[K]]] = {}
        """Since when, and for which `get`."""
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._changed = asyncio.Event()
        self._is_shut_down = False
        self.adds = 0
        """How many times a key has become dirty; adding a dirty key does not count."""
        self.retries = 0

    def add(self, key: K, reason: str = "") -> None:
        if self._is_shut_down:
            return
        dirty = self._dirty.get(key)
        if dirty is None:
            dirty = self._dirty[key] = _Dirty(elapsed(), [])
            self.adds += 1
            if key not in self._processing:
                self._queue.append(key)
                self._changed.set()
        if reason and len(dirty.reasons) < MAX_REASONS and reason not in dirty.reasons:
            dirty.reasons.append(reason)

    def add_after(self, key: K, delay: float, reason: str = "") -> None:
        """Adds `key` in `delay` seconds, or earlier if an earlier time is already set."""
        if delay <= 0:
            self.add(key, reason)
        elif not self._is_shut_down:
            due, timer = elapsed() + delay, self._timers.get(key)
            if timer is not None:
                if timer.when() <= due:
                    return
                timer.cancel()
            self._timers[key] = asyncio.get_running_loop().call_at(due, self._on_timer, key, reason)

    def add_rate_limited(self, key: K, at_least: float = 0.0) -> None:
        """Adds the failed `key` after its own growing delay, but not before `at_least` seconds."""
        self.retries += 1
        delay = min(max(FIRST_RETRY, 2.0 * self._retry_delays.get(key, 0.0)), LONGEST_RETRY)
        self._retry_delays[key] = delay
        self.add_after(key, max(delay, at_least), "retry")

    def forget(self, key: K) -> None:
        """Resets the retry delay of `key`. Added work stays."""
        self._retry_delays.pop(key, None)

    async def get(self) -> WorkItem[K]:
        """Waits for a key, which is being processed until `done`. Raises `QueueShutDown`."""
        while not self._queue:
            if self._is_shut_down:
                raise QueueShutDown
            self._changed.clear()
            await self._changed.wait()
        key = self._queue.popleft()
        dirty, moment = self._dirty.pop(key), elapsed()
        item = WorkItem(key=key, reasons=tuple(dirty.reasons), queued_seconds=moment - dirty.since)
        self._processing[key] = moment, item
        return item

    def done(self, item: WorkItem[K]) -> None:
        """Ends the processing of `item`. A second call does nothing."""
        _, current = self._processing.get(key := item.key, (0.0, None))
        if current is not item:
            return
        del self._processing[key]
        if key in self._dirty:
            self._dirty[key].since = elapsed()
            self._queue.append(key)
            self._changed.set()

    def shut_down(self) -> None:
        """Gives out no more keys. A waiting `get` raises `QueueShutDown`."""
        self._is_shut_down = True
        self._queue.clear()
        self._dirty.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._changed.set()

    @property
    def depth(self) -> int:
        return len(self._queue)

    def processing_seconds(self) -> tuple[float, ...]:
        """Seconds for which each key has been processed so far. A growing number is a pass that hangs."""
        moment = elapsed()
        return tuple(moment - since for since, _ in self._processing.values())

    def _on_timer(self, key: K, reason: str) -> None:
        del self._timers[key]
        self.add(key, reason)
