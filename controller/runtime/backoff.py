"""Delays that grow while something keeps failing. The caller says what time it is; no clock is read."""

from __future__ import annotations

import random
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


class BackoffTable(Generic[K]):
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
