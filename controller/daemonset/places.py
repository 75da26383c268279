"""Where writes failed, and for how long each such place is left alone: a node, the uid of an object, or what
was about to be stored. All moments by `runtime.clock.elapsed`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

import msgspec

from controller.api.base import Value

K = TypeVar("K", bound=Hashable)

FAILING_FIRST = 1.0
FAILING_AT_MOST = 300.0
"""Seconds for which a node or an orphan is left alone after its second failure in a row, and at most."""
DOUBTS = 3
"""A conflict, a busy server or no answer at all do not tell whether the place is at fault. After so many of them in a
row it counts as a failure of the place nevertheless, since a webhook or a proxy can give any answer."""
FAILING_KEPT = 10_000
"""Places that are remembered; beyond that those that may be tried again are forgotten."""


class Failing(Value):
    """Until when it is left alone, and for how many seconds that was."""

    until: float
    delay: float


class Places(msgspec.Struct, Generic[K]):
    """The places of one DaemonSet, or of one ImagePullJob, in which writes failed."""

    failing: dict[K, Failing] = msgspec.field(default_factory=dict)
    doubts: dict[K, int] = msgspec.field(default_factory=dict)
    """By place: how many writes in a row were answered without telling whether the place is at fault."""

    def failed(self, place: K, moment: float, at_most: float = FAILING_AT_MOST) -> None:
        """A write there failed. After the first time it may be tried again at once."""
        known = self.failing.get(place)
        if len(self.failing) > FAILING_KEPT:
            self.failing = {place: one for place, one in self.failing.items() if one.until > moment}
        if known is None:
            self.failing[place] = Failing(until=moment, delay=0.0)
        else:
            delay = min(max(known.delay * 2, FAILING_FIRST), at_most)
            self.failing[place] = Failing(until=moment + delay, delay=delay)

    def doubted(self, place: K) -> None:
        """A write there was answered without telling whether the place is at fault."""
        if len(self.doubts) > FAILING_KEPT:
            self.doubts.clear()
        self.doubts[place] = self.doubts.get(place, 0) + 1

    def is_suspect(self, place: K) -> bool:
        """Whether one more such answer counts as a failure of the place."""
        return self.doubts.get(place, 0) + 1 >= DOUBTS

    def went_well(self, place: K) -> None:
        """A write there succeeded: earlier failures are forgotten."""
        self.failing.pop(place, None)
        self.doubts.pop(place, None)

    def leave_alone(self, place: K, seconds: float, moment: float) -> None:
        """Nothing is tried there for so long, however often it failed before."""
        self.failing[place] = Failing(until=moment + seconds, delay=seconds)

    def held_back(self, moment: float) -> dict[K, float]:
        """What is to be left alone now, and until when."""
        return {place: one.until for place, one in self.failing.items() if one.until > moment}

    def due_again(self, moment: float) -> dict[K, float]:
        """Where writes failed and may be tried again now, and since when."""
        return {place: one.until for place, one in self.failing.items() if one.until <= moment}

    def clear(self) -> None:
        """Forget every failure: the spec was edited, which may have removed the cause."""
        self.failing.clear()
        self.doubts.clear()
