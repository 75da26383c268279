"""Back-off by key: for writes that fail, and for writes that are accepted and then reverted by somebody else.

All moments are by `runtime.clock.elapsed`. Why: docs/design/decisions.md#writes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import msgspec

from controller.api.objects import Value
from controller.kube.errors import WriteVerdict

K = TypeVar("K", bound=Hashable)

FIRST_DELAY = 1.0
LONGEST_DELAY = 300.0
"""Seconds of back-off after the second failure in a row, and at most. They double in between."""
MOST_INCONCLUSIVE = 3
"""This many inconclusive errors in a row (a conflict, a busy server, no answer) count as a failure of the key,
because a webhook or a proxy can cause any of them."""
KEPT = 10_000
"""Keys that are remembered; when there are more, those that are not in back-off are forgotten."""

MOST_REPEATS = 2
"""How often the same write may be accepted in a row before it counts as reverted."""
REPEAT_SECONDS = 600.0
"""Writes that are this many seconds apart do not count as repeated; four times the back-off of their key, if that is
longer: in a cycle, each of its writes may be in back-off in turn."""
REPEAT_KEPT_SECONDS = 4 * LONGEST_DELAY


class Delay(Value):
    """The back-off of one key: until when, and for how many seconds in all."""

    until: float
    delay: float


class WriteBackoff(msgspec.Struct, Generic[K]):
    """The back-off of the writes of one object. A key says which writes would fail again together."""

    failing: dict[K, Delay] = msgspec.field(default_factory=dict)
    inconclusive: dict[K, int] = msgspec.field(default_factory=dict)
    """How many errors in a row each key had that do not say whether the key is at fault."""

    def record_failure(self, key: K, moment: float, *, first: float = 0.0, at_most: float = LONGEST_DELAY) -> None:
        """Record a failed write. After the first one the key is in back-off for `first` seconds."""
        known = self.failing.get(key)
        if len(self.failing) > KEPT:
            self.failing = {key: one for key, one in self.failing.items() if one.until > moment}
        if known is None:
            self.failing[key] = Delay(until=moment + first, delay=first)
        else:
            delay = min(max(known.delay * 2, FIRST_DELAY), at_most)
            self.failing[key] = Delay(until=moment + delay, delay=delay)

    def record_error(self, key: K, means: WriteVerdict, moment: float) -> bool:
        """Record an error by its meaning; returns whether it counts as a failure of the key."""
        counts = means.is_specific or self.is_suspect(key)
        if not means.is_specific:
            self.record_inconclusive(key)
        if counts:
            self.record_failure(key, moment)
        return counts

    def record_inconclusive(self, key: K) -> None:
        """Record an error that does not say whether the key is at fault."""
        if len(self.inconclusive) > KEPT:
            self.inconclusive.clear()
        self.inconclusive[key] = self.inconclusive.get(key, 0) + 1

    def is_suspect(self, key: K) -> bool:
        """Whether the next such error counts as a failure of the key."""
        return self.inconclusive.get(key, 0) + 1 >= MOST_INCONCLUSIVE

    def record_success(self, key: K) -> None:
        """Forget the failures of a key."""
        self.failing.pop(key, None)
        self.inconclusive.pop(key, None)

    def server_back(self) -> None:
        """Forget failures whose cause may have been that the server was away."""
        for key in self.inconclusive:
            self.failing.pop(key, None)
        self.inconclusive.clear()

    def hold(self, key: K, seconds: float, moment: float) -> None:
        """Keep the key in back-off for this time, however often writes failed before."""
        self.failing[key] = Delay(until=moment + seconds, delay=seconds)

    def delay_of(self, key: K) -> float:
        """Seconds of the last back-off of the key; 0: none."""
        return self.failing[key].delay if key in self.failing else 0.0

    def in_backoff(self, moment: float) -> dict[K, float]:
        """The keys that are in back-off now, and until when."""
        return {key: one.until for key, one in self.failing.items() if one.until > moment}

    def due_again(self, moment: float) -> dict[K, float]:
        """The keys that have failed and are not in back-off now, and since when."""
        return {key: one.until for key, one in self.failing.items() if one.until <= moment}

    def keep(self, exists: Callable[[K], bool]) -> None:
        """Forget all other keys."""
        self.failing = {key: one for key, one in self.failing.items() if exists(key)}
        self.inconclusive = {key: number for key, number in self.inconclusive.items() if exists(key)}

    def clear(self) -> None:
        """Forget all failures, because the spec was edited, which may have removed their cause."""
        self.failing.clear()
        self.inconclusive.clear()


class _Accepted(msgspec.Struct):
    times: int
    at: float


class RepeatedWrites(msgspec.Struct, Generic[K]):
    """Counts how often the same write was accepted. A webhook or another controller may revert a write, or two writes
    of ours may undo each other; each would be made again as soon as that is seen, without end."""

    accepted: dict[K, _Accepted] = msgspec.field(default_factory=dict)
    room: int = KEPT
    """Number of writes at which those of more than `REPEAT_KEPT_SECONDS` ago are forgotten."""

    def times(self, write: K, moment: float, delay: float) -> int:
        """How often the write was accepted in a row so far. `delay`: the last back-off of its key."""
        known = self.accepted.get(write)
        if known is None or moment - known.at > max(REPEAT_SECONDS, 4 * delay):
            return 0
        return known.times

    def record(self, write: K, moment: float, delay: float) -> int:
        """Record an accepted write; returns how often it was accepted in a row."""
        if len(self.accepted) >= self.room:
            kept = {key: one for key, one in self.accepted.items() if moment - one.at <= REPEAT_KEPT_SECONDS}
            self.accepted, self.room = kept, max(KEPT, 2 * len(kept))
        times = self.times(write, moment, delay) + 1
        self.accepted[write] = _Accepted(times=times, at=moment)
        return times

    def keep(self, wanted: Callable[[K], bool]) -> None:
        """Forget all other writes."""
        self.accepted = {write: one for write, one in self.accepted.items() if wanted(write)}
