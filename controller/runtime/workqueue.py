"""Delays that grow while something keeps failing. The caller says what time it is; no clock is read.

Keys that are due at some time ahead, with one timer for the earliest.

The queue of keys that need work: each key once, with at most one worker per key, delays, and a back-off for keys
that fail. It has the promises of client-go's rate-limiting queue.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)

SWEEP_EVERY = 1024
"""The least number of strikes between two sweeps. Without sweeps, keys that are no longer used would fill the
table."""


class Backoff:
    """One series of growing delays: `first`, twice as long each time, never more than `cap` seconds.

    Jitter comes on top of the cap: with `jitter=1.0` a delay of d becomes anything from d to 2 d, so that a
    thousand clients that failed together do not come back together.
    """

    def __init__(
        self, first: float, cap: float, *, jitter: float = 0.0, chance: Callable[[], float] = random.random
    ) -> None:
        self._first, self._cap = first, cap
        self._jitter, self._chance = jitter, chance
        self._next = first

    def next(self) -> float:
        """Seconds to wait now; the delay after this one is longer."""
        delay = min(self._next, self._cap)
        self._next = min(self._next * 2.0, self._cap)
        return delay * (1.0 + self._jitter * self._chance())

    def reset(self) -> None:
        """After a success: the next delay is `first` again."""
        self._next = self._first


class _Strikes(msgspec.Struct):
    delay: float
    """Seconds."""
    since: float
    """When the last failure was noted, by the caller's clock."""


class FailureRateLimiter(Generic[K]):
    """A growing delay for each key.

    `strike` counts a failure and raises the delay; `remaining` may be asked as often as one likes. A key without
    strikes for `quiet` seconds is forgotten: its next strike starts from `first` again. The defaults are those of
    client-go's `ItemExponentialFailureRateLimiter`.
    """

    def __init__(self, first: float = 0.005, cap: float = 1000.0, *, quiet: float = 2000.0) -> None:
        self._first, self._cap, self._quiet = first, cap, quiet
        self._strikes: dict[K, _Strikes] = {}
        self._until_sweep = SWEEP_EVERY

    def strike(self, key: K, now: float) -> float:
        """Note a failure; returns the seconds that `key` has to wait from now on."""
        known = self._strikes.get(key)
        if known is None or now - known.since > self._quiet:
            delay = min(self._first, self._cap)
        else:
            delay = min(known.delay * 2.0, self._cap)
        self._strikes[key] = _Strikes(delay, now)
        self._until_sweep -= 1
        if self._until_sweep <= 0:
            self._strikes = {k: s for k, s in self._strikes.items() if now - s.since <= self._quiet}
            self._until_sweep = max(SWEEP_EVERY, len(self._strikes))
        return delay

    def remaining(self, key: K, now: float) -> float:
        """Seconds that `key` still has to wait; 0.0 when it may act, which it may at exactly its delay."""
        known = self._strikes.get(key)
        if known is None:
            return 0.0
        return max(0.0, known.since + known.delay - now)

    def forget(self, key: K) -> None:
        self._strikes.pop(key, None)

    def __len__(self) -> int:
        return len(self._strikes)


REPLACED_KEPT = 64
"""The heap is rebuilt when more than so many of its entries, and more than half of them, are replaced ones."""


class Delays(Generic[K]):
    """At most one due time for each key: of two the earlier wins. Times are those of the running event loop."""

    def __init__(self, on_due: Callable[[K, str], None]) -> None:
        """`on_due` gets the key that is due, and the reason that was given with it."""
        self._on_due = on_due
        self.due: dict[K, tuple[float, str]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self.due)

    def add(self, key: K, due: float, reason: str) -> None:
        known = self.due.get(key)
        if known is not None and known[0] <= due:
            return
        self.due[key] = (due, reason)
        self._sequence += 1
        heapq.heappush(self._heap, (due, self._sequence, key))
        if len(self._heap) > 2 * len(self.due) + REPLACED_KEPT:
            self._drop_replaced()
        self._set_timer()

    def clear(self) -> None:
        self.due.clear()
        self._heap.clear()
        self._set_timer()

    def _on_timer(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            known = self.due.get(key)
            if known is not None and known[0] == due:
                del self.due[key]
                self._on_due(key, known[1])
        self._set_timer()

    def _drop_replaced(self) -> None:
        """Rebuild the heap without the entries that an earlier due time has replaced: otherwise each would stay until
        its own time, perhaps a quarter of an hour."""
        self._heap = [(due, number, key) for number, (key, (due, _)) in enumerate(self.due.items())]
        self._sequence = len(self._heap)
        heapq.heapify(self._heap)

    def _set_timer(self) -> None:
        """Set the one timer to the earliest entry. A replaced entry fires as well, and does nothing."""
        first = self._heap[0][0] if self._heap else None
        if self._timer is not None:
            if self._timer.when() == first:
                return
            self._timer.cancel()
            self._timer = None
        if first is not None:
            self._timer = asyncio.get_running_loop().call_at(first, self._on_timer)


REASONS_KEPT = 4
"""The most reasons that the log line of a pass lists; more would add nothing."""


class QueueShutDown(Exception):
    """Raised by `take` when the queue is closed: it gives out no more keys."""


class WorkItem(msgspec.Struct, Generic[K], frozen=True):
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
    - a key is being processed from `get` until `done`;
    - a key added while it is processed is dirty, and becomes ready when it is done: no trigger is lost;
    - a key has at most one due time; of two delays the earlier wins, and an `add` in between leaves it alone;
    - while a key is ready, a waiting `get` has been woken, unless none waits;
    - after `close` no key is dirty and none is added; keys that are being processed may finish.

    Use it inside one running event loop: delays are seconds of that loop's time.
    """

    def __init__(self) -> None:
        self._backoff: FailureRateLimiter[K] = FailureRateLimiter()
        self._ready: deque[K] = deque()
        self._dirty: dict[K, _Wanted] = {}
        self._processing: dict[K, tuple[float, WorkItem[K]]] = {}
        """Since when, and for whom."""
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

    async def get(self) -> WorkItem[K]:
        """Wait for a key; it is being processed until `done`. Raises `QueueShutDown`."""
        loop = asyncio.get_running_loop()
        while not self._ready:
            if self._closed:
                raise QueueShutDown
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
        taken = WorkItem(key=key, reasons=tuple(wanted.reasons), queued_seconds=now - wanted.since)
        self._processing[key] = now, taken
        return taken

    def done(self, taken: WorkItem[K]) -> None:
        """The key of `taken` is not processed any more. Does nothing the second time."""
        _, current = self._processing.get(key := taken.key, (0.0, None))
        if current is not taken:
            return
        del self._processing[key]
        if key in self._dirty:
            self._dirty[key].since = asyncio.get_running_loop().time()
            self._ready.append(key)
            self._wake()

    def close(self) -> None:
        """Give out no more keys. Whoever waits in `get` gets `QueueShutDown`."""
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
        return tuple(now - since for since, _ in self._processing.values())

    def _wake(self) -> None:
        while self._waiting:
            woken = self._waiting.popleft()
            if not woken.done():
                woken.set_result(None)
                return
