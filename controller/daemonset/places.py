"""Remembers the places where writes failed, and until when each is left alone: a node, the uid of an object, or what
was about to be stored. All moments are by `runtime.clock.elapsed`. Why: docs/design/decisions.md#writes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import msgspec

from controller.api.base import Value
from controller.kube.meaning import ForWrite

K = TypeVar("K", bound=Hashable)

FAILING_FIRST = 1.0
FAILING_AT_MOST = 300.0
"""Seconds for which a place is left alone after its second failure in a row, and at most. They double in between."""
MOST_INCONCLUSIVE = 3
"""This many inconclusive errors in a row (a conflict, a busy server, no answer) count as a failure of the place,
because a webhook or a proxy can cause any of them."""
FAILING_KEPT = 10_000
"""Places that are remembered; when there are more, those that may be tried again are forgotten."""


class Failing(Value):
    """Until when a place is left alone, and how many seconds its last wait was."""

    until: float
    delay: float


class Places(msgspec.Struct, Generic[K]):
    """The places of one DaemonSet, or of one ImagePullJob, in which writes failed."""

    failing: dict[K, Failing] = msgspec.field(default_factory=dict)
    inconclusive: dict[K, int] = msgspec.field(default_factory=dict)
    """How many writes in a row at each place were answered without telling whether the place is at fault."""

    def failed(self, place: K, moment: float, at_most: float = FAILING_AT_MOST) -> None:
        """Note a failed write. After the first one the place may be tried again at once."""
        known = self.failing.get(place)
        if len(self.failing) > FAILING_KEPT:
            self.failing = {place: one for place, one in self.failing.items() if one.until > moment}
        if known is None:
            self.failing[place] = Failing(until=moment, delay=0.0)
        else:
            delay = min(max(known.delay * 2, FAILING_FIRST), at_most)
            self.failing[place] = Failing(until=moment + delay, delay=delay)

    def learn_failure(self, place: K, means: ForWrite, moment: float) -> bool:
        """Note a failed write by its meaning; returns whether it counts as a failure of the place."""
        counts = means.of_the_place or self.is_suspect(place)
        if not means.of_the_place:
            self.note_inconclusive(place)
        if counts:
            self.failed(place, moment)
        return counts

    def note_inconclusive(self, place: K) -> None:
        """Note an answer that does not tell whether the place is at fault."""
        if len(self.inconclusive) > FAILING_KEPT:
            self.inconclusive.clear()
        self.inconclusive[place] = self.inconclusive.get(place, 0) + 1

    def is_suspect(self, place: K) -> bool:
        """Whether the next such answer counts as a failure of the place."""
        return self.inconclusive.get(place, 0) + 1 >= MOST_INCONCLUSIVE

    def server_back(self) -> None:
        """Forget the failures of places where writes may have failed only because the server was away."""
        for place in self.inconclusive:
            self.failing.pop(place, None)
        self.inconclusive.clear()

    def went_well(self, place: K) -> None:
        """Forget the failures of a place where a write succeeded."""
        self.failing.pop(place, None)
        self.inconclusive.pop(place, None)

    def leave_alone(self, place: K, seconds: float, moment: float) -> None:
        """Try nothing there for this time, however often writes failed before."""
        self.failing[place] = Failing(until=moment + seconds, delay=seconds)

    def held_back(self, moment: float) -> dict[K, float]:
        """Places that are left alone now, and until when."""
        return {place: one.until for place, one in self.failing.items() if one.until > moment}

    def due_again(self, moment: float) -> dict[K, float]:
        """Places where writes failed that may be tried again now, and since when."""
        return {place: one.until for place, one in self.failing.items() if one.until <= moment}

    def keep(self, is_there: Callable[[K], bool]) -> None:
        """Forget the places of what is gone."""
        self.failing = {place: one for place, one in self.failing.items() if is_there(place)}
        self.inconclusive = {place: number for place, number in self.inconclusive.items() if is_there(place)}

    def clear(self) -> None:
        """Forget all failures, because the spec was edited, which may have removed their cause."""
        self.failing.clear()
        self.inconclusive.clear()
