"""Back-off of writes that fail or are reverted, and of nodes whose pods do not last. All times are by
`runtime.clock.elapsed`. The reasons are in docs/design/decisions.md#writes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Set
from math import inf
from typing import Any, Generic, TypeVar

import msgspec

from controller.api.objects import Value
from controller.api.pod import Pod

K = TypeVar("K", bound=Hashable)

FIRST_DELAY = 1.0
LONGEST_DELAY = 300.0
"""Seconds of back-off after the second failure in a row, and the maximum; it doubles in between."""
MOST_INCONCLUSIVE = 3
"""Inconclusive errors in a row (conflict, busy server, no answer) that count as a failure, because a webhook or a
proxy can cause any of them."""
MOST_REPEATS = 2
"""Times in a row the same write may be accepted before it counts as reverted."""
REPEAT_SECONDS = 600.0
"""Seconds after which a write is not a repetition; at least four times its back-off, for cycles of several writes."""

LONGEST_NODE_DELAY = 900.0
"""The most seconds between two creates on a node, as in the native controller. The first replacement is immediate."""
LASTING_SECONDS = 60.0
"""A pod that lasts this many seconds, and longer than its node had to wait, ends the back-off."""
MOST_NAMES = 4
QUIET_SECONDS = 2 * LONGEST_NODE_DELAY
"""Seconds without a create after which a node is forgotten."""
REPORTED_FROM_SECONDS = 8.0
"""Seconds of waiting from which a node is reported; a few deletions by users may cause shorter waits."""


def forget_keys(known: dict[str, Any], names: Set[str]) -> None:
    """Takes time in proportion to the smaller of the two: of many nodes that go at once, a DaemonSet knows few."""
    for name in known.keys() & names:
        del known[name]


class Delay(Value):
    """The back-off of one key in seconds: its end and its length."""

    until: float
    delay: float


class WriteBackoff(msgspec.Struct, Generic[K]):
    """The back-off of the writes of one object. Writes with the same key are expected to fail together."""

    failing: dict[K, Delay] = msgspec.field(default_factory=dict)
    inconclusive: dict[K, int] = msgspec.field(default_factory=dict)
    """Errors in a row, by key, that do not show whether the key is at fault."""

    def record_failure(self, key: K, moment: float, *, first: float = 0.0, at_most: float = LONGEST_DELAY) -> None:
        """Records a failed write. The back-off after the first failure is `first` seconds."""
        known = self.failing.get(key)
        if known is None:
            self.failing[key] = Delay(until=moment + first, delay=first)
        else:
            delay = min(max(known.delay * 2, FIRST_DELAY), at_most)
            self.failing[key] = Delay(until=moment + delay, delay=delay)

    def record_error(
        self, key: K, moment: float, *, counts: bool, hold: float = 0.0, is_failure: bool | None = None
    ) -> bool:
        """Records an error; returns whether it counts as a failure of the key, which the caller may know already.
        `counts`, `hold`: as in `WriteOutcome`."""
        if is_failure is None:
            is_failure = self.is_failure(key, counts=counts)
        if not counts:
            self.record_inconclusive(key)
        if is_failure and hold:
            self.hold(key, hold, moment)
        elif is_failure:
            self.record_failure(key, moment)
        return is_failure

    def is_failure(self, key: K, *, counts: bool) -> bool:
        return counts or self.is_suspect(key)

    def record_inconclusive(self, key: K) -> None:
        self.inconclusive[key] = self.inconclusive.get(key, 0) + 1

    def is_suspect(self, key: K) -> bool:
        """Whether the next inconclusive error counts as a failure of the key."""
        return self.inconclusive.get(key, 0) + 1 >= MOST_INCONCLUSIVE

    def record_success(self, key: K) -> None:
        self.failing.pop(key, None)
        self.inconclusive.pop(key, None)

    def server_back(self) -> None:
        """Forgets failures that the server's absence may have caused."""
        for key in self.inconclusive:
            self.failing.pop(key, None)
        self.inconclusive.clear()

    def hold(self, key: K, seconds: float, moment: float) -> None:
        """Keeps the key in back-off for `seconds`, regardless of earlier failures."""
        self.failing[key] = Delay(until=moment + seconds, delay=seconds)

    def delay_of(self, key: K) -> float:
        """Length in seconds of the key's last back-off, or 0."""
        return self.failing[key].delay if key in self.failing else 0.0

    def in_backoff(self, moment: float) -> dict[K, float]:
        return {key: delay.until for key, delay in self.failing.items() if delay.until > moment}

    def due_again(self, moment: float) -> dict[K, float]:
        """The failed keys that are not in back-off any more, and since when."""
        return {key: delay.until for key, delay in self.failing.items() if delay.until <= moment}

    def keep(self, exists: Callable[[K], bool]) -> None:
        self.failing = {key: delay for key, delay in self.failing.items() if exists(key)}
        self.inconclusive = {key: number for key, number in self.inconclusive.items() if exists(key)}

    def clear(self) -> None:
        """Forgets all failures, because an edit of the spec may have removed their cause."""
        self.failing.clear()
        self.inconclusive.clear()


class _Accepted(msgspec.Struct):
    times: int
    at: float


class RepeatedWrites(msgspec.Struct, Generic[K]):
    """Counts how often the same write was accepted: webhooks, controllers or other writes may revert it endlessly."""

    accepted: dict[K, _Accepted] = msgspec.field(default_factory=dict)

    def times(self, write: K, moment: float, delay: float) -> int:
        """How often in a row the write was accepted. `delay`: the last back-off of its key."""
        known = self.accepted.get(write)
        if known is None or moment - known.at > max(REPEAT_SECONDS, 4 * delay):
            return 0
        return known.times

    def record(self, write: K, moment: float, delay: float) -> int:
        times = self.times(write, moment, delay) + 1
        self.accepted[write] = _Accepted(times=times, at=moment)
        return times

    def keep(self, wanted: Callable[[K], bool]) -> None:
        self.accepted = {write: known for write, known in self.accepted.items() if wanted(write)}


class _Created(msgspec.Struct):
    names: tuple[str, ...]
    """Its name, preceded by those of earlier pods, which may still be terminating."""
    at: float
    wait: float
    """The least seconds until the next create."""
    lasted: float | None = None
    """Seconds until it ended or lost its owner; None before that."""
    recreated_externally: bool = False
    """Whether another controller created it."""

    @property
    def name(self) -> str:
        return self.names[-1]

    def lasts(self, moment: float) -> bool:
        seconds = moment - self.at if self.lasted is None else self.lasted
        return seconds >= max(LASTING_SECONDS, self.wait)

    @property
    def until(self) -> float:
        """When the record is dropped unless another pod is created."""
        return self.at + 1 + (max(LASTING_SECONDS, self.wait) if self.lasted is None else QUIET_SECONDS)


def _wait_after(before: _Created | None, moment: float) -> float:
    """Seconds from the create after `before` to the next one on the node."""
    if before is None or before.lasts(moment):
        return 0.0
    return min(max(before.wait * 2, FIRST_DELAY), LONGEST_NODE_DELAY)


class NodeBackoff(msgspec.Struct):
    """The node back-off of one DaemonSet generation: a new template deserves a new try."""

    created_on: dict[str, _Created] = msgspec.field(default_factory=dict)
    ended_on: dict[str, float] = msgspec.field(default_factory=dict)
    """The creation time of the youngest ended pod (seconds since 1970), by node."""

    def created(self, node: str, name: str, moment: float) -> None:
        """Records that a pod was created, or may have been."""
        before = self.created_on.get(node)
        if before is not None and before.name == name:  # the answer to the first request was lost
            if before.lasted is None:
                before.at = moment  # it may have been made only now
            return
        names = (*(before.names if before is not None else ()), name)[-MOST_NAMES:]
        self.created_on[node] = _Created(names=names, at=moment, wait=_wait_after(before, moment))

    def deleted(self, node: str, name: str) -> None:
        """Records the deletion of a pod that had not ended, which is not a failure of the node."""
        known = self.created_on.get(node)
        if known is not None and known.name == name:
            del self.created_on[node]

    def ended(self, pod: Pod, moment: float) -> None:
        """Records that a pod has ended or lost its owner. One that is unknown and younger than the last that ended on
        its node was created by another controller, and counts as short-lived."""
        known = self.created_on.get(pod.node)
        if known is not None and pod.name in known.names:
            if known.name == pod.name and known.lasted is None:
                known.lasted = moment - known.at
        elif pod.created > self.ended_on.get(pod.node, inf):
            wait = _wait_after(known, moment)
            self.created_on[pod.node] = _Created(
                names=("",), at=moment, wait=wait, lasted=0.0, recreated_externally=True
            )
        self.ended_on[pod.node] = max(pod.created, self.ended_on.get(pod.node, 0.0))

    def forget_lasting(self, moment: float) -> None:
        over = [
            node
            for node, created in self.created_on.items()
            if created.lasts(moment) or moment - created.at >= QUIET_SECONDS
        ]
        for node in over:
            del self.created_on[node]

    def not_before(self, moment: float) -> Mapping[str, float]:
        """When each waiting node may have its next pod."""
        ends = {node: created.at + created.wait for node, created in self.created_on.items()}
        return {node: end for node, end in ends.items() if end > moment}

    @property
    def short_lived(self) -> Mapping[str, float]:
        """The nodes to report, and until when."""
        return {
            node: created.until for node, created in self.created_on.items() if created.wait >= REPORTED_FROM_SECONDS
        }

    @property
    def recreated_externally(self) -> frozenset[str]:
        """The nodes where another controller creates pods that do not last."""
        return frozenset([node for node, created in self.created_on.items() if created.recreated_externally])

    def forget_nodes(self, names: Set[str]) -> None:
        forget_keys(self.created_on, names)
        forget_keys(self.ended_on, names)

    def clear(self) -> None:
        self.created_on.clear()
        self.ended_on.clear()
