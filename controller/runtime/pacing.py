"""Limits how often a pass runs over an object, and how often its status is written, while events keep coming. A
rollout of a thousand pods sends several thousand events; a pass and a status write for each would be wasted. An
object that has been quiet is served at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Hashable
from typing import Generic, Literal, TypeVar

import msgspec

from controller.api.objects import Value
from controller.runtime.workqueue import WorkQueue

K = TypeVar("K", bound=Hashable)

Urgency = Literal["urgent", "soon", "lazy"]
"""How soon a pass is needed. urgent: a pod is missing or a spec has changed. soon: a rollout waits for it. lazy: only
counts differ, and more such events usually follow at once (bound, started, ready)."""


class _Pause(Value):
    """The pause of a key after a pass: `share` times the seconds of deciding, from `least` to `most` seconds."""

    share: float
    least: float
    most: float


PAUSES: dict[Urgency, _Pause] = {
    "urgent": _Pause(share=3.0, least=0.0, most=10.0),  # passes over one key take at most a quarter of the time
    "soon": _Pause(share=20.0, least=0.02, most=0.5),  # at most a twentieth while a rollout goes on
    "lazy": _Pause(share=25.0, least=0.05, most=0.5),  # at most 4 % if passes only update counts
}
"""The reasons for the numbers are in docs/design/life-of-an-event.md#what-a-pass-costs."""

FIRST_INTERVAL = 0.2
"""Seconds between the first two status writes; too short to notice in `kubectl get --watch`."""
INTERVAL_GROWTH = 3.0
LONGEST_INTERVAL = 3.0
QUIET_INTERVALS = 2.0
"""Intervals without a write after which the interval is reset."""


class _LastPass(msgspec.Struct):
    cost: float = 0.0
    ended: float = 0.0
    running: bool = False


_NEVER = _LastPass(ended=float("-inf"))


class Pacer(Generic[K]):
    """Decides how long a key pauses after a pass, by the time it took to decide. Then an urgent trigger starts a pass
    at once; others wait for `least` seconds, to share a pass. A trigger during a pass waits for the whole pause."""

    def __init__(self) -> None:
        self._passes: dict[K, _LastPass] = {}

    def began(self, key: K) -> None:
        self._passes.setdefault(key, _LastPass()).running = True

    def passed(self, key: K, cost: float, moment: float) -> None:
        """Records that a pass ended at `moment` (loop time). `cost`: seconds of deciding, without waits."""
        self._passes[key] = _LastPass(cost, moment)

    def delay(self, key: K, urgency: Urgency, moment: float) -> float:
        """Seconds until a trigger of this urgency may start a pass."""
        last = self._passes.get(key, _NEVER)
        rule = PAUSES[urgency]
        pause = min(max(rule.share * last.cost, rule.least), rule.most)
        return pause if last.running else max(rule.least, last.ended + pause - moment)

    def forget(self, key: K) -> None:
        self._passes.pop(key, None)


class PacedPass(Generic[K]):
    """One pass as a `with` block. For the pacer it ends with the block, or earlier when the key is requeued."""

    def __init__(self, pacer: Pacer[K], key: K, requeue: Callable[[str], None]) -> None:
        self._pacer, self._key, self._requeue = pacer, key, requeue
        self._began, self._cost, self._is_over = 0.0, -1.0, False

    def __enter__(self) -> PacedPass[K]:
        self._began = asyncio.get_running_loop().time()
        self._pacer.began(self._key)
        return self

    def __exit__(self, *raised: object) -> None:
        self._end()

    def end_deciding(self) -> float:
        """Marks the end of deciding; returns the seconds it took."""
        self._cost = asyncio.get_running_loop().time() - self._began
        return self._cost

    def requeue(self, reason: str) -> None:
        self._end()
        self._requeue(reason)

    def _end(self) -> None:
        if not self._is_over:
            self._is_over, moment = True, asyncio.get_running_loop().time()
            self._pacer.passed(self._key, moment - self._began if self._cost < 0 else self._cost, moment)


class PacedQueue(WorkQueue[K]):
    """A work queue whose keys wait as the pacer decides, to which the reconciler must report its passes."""

    def __init__(self) -> None:
        super().__init__()
        self.pacer = Pacer[K]()

    def enqueue(self, key: K, urgency: Urgency, reason: str) -> None:
        self.add_after(key, self.pacer.delay(key, urgency, asyncio.get_running_loop().time()), reason)


class StatusPacer:
    """Decides when a status may be written: at once after a quiet time, then after 0.2, 0.6, 1.8, 3, 3 … seconds. The
    caller must come back after `delay`, so that the last state is written."""

    def __init__(self) -> None:
        self._last, self._interval = float("-inf"), 0.0

    def delay(self, moment: float, *, urgent: bool = False) -> float:
        """Seconds until the next write is allowed. An `urgent` one (a rollout is complete) never waits."""
        return 0.0 if urgent else max(0.0, self._last + self._interval - moment)

    def wrote(self, moment: float) -> None:
        is_quiet = moment - self._last >= QUIET_INTERVALS * self._interval
        self._interval = FIRST_INTERVAL if is_quiet else min(self._interval * INTERVAL_GROWTH, LONGEST_INTERVAL)
        self._last = moment


class Backoff:
    """Delays in seconds from `first`, doubling up to `cap`. `jitter=1.0` turns a delay of d into d to 2 d, so that
    clients that failed together do not come back together."""

    def __init__(
        self, first: float, cap: float, *, jitter: float = 0.0, chance: Callable[[], float] = random.random
    ) -> None:
        self._first, self._cap = first, cap
        self._jitter, self._chance = jitter, chance
        self._next = first

    def next(self) -> float:
        delay = min(self._next, self._cap)
        self._next = min(self._next * 2.0, self._cap)
        return delay * (1.0 + self._jitter * self._chance())

    def reset(self) -> None:
        self._next = self._first
