"""Back-off of writes, by key: of those that fail, and of those that are accepted and then reverted. And back-off of
nodes whose pods do not last.

All moments are by `runtime.clock.elapsed`. Why: docs/design/decisions.md#writes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from math import inf
from typing import Generic, TypeVar

import msgspec

from controller.api.objects import Value
from controller.api.pod import Pod
from controller.kube.errors import WriteVerdict

K = TypeVar("K", bound=Hashable)

FIRST_DELAY = 1.0
LONGEST_DELAY = 300.0
"""Seconds of back-off after the second failure in a row, and at most; they double in between."""
MOST_INCONCLUSIVE = 3
"""This many inconclusive errors in a row (a conflict, a busy server, no answer) count as a failure of the key,
because a webhook or a proxy can cause any of them."""
MOST_REPEATS = 2
"""How often the same write may be accepted in a row before it counts as reverted."""
REPEAT_SECONDS = 600.0
"""Writes that are this many seconds apart do not count as repeated; four times the back-off of their key, if that is
longer: in a cycle, each of its writes may be in back-off in turn."""


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

    def times(self, write: K, moment: float, delay: float) -> int:
        """How often the write was accepted in a row so far. `delay`: the last back-off of its key."""
        known = self.accepted.get(write)
        if known is None or moment - known.at > max(REPEAT_SECONDS, 4 * delay):
            return 0
        return known.times

    def record(self, write: K, moment: float, delay: float) -> int:
        """Record an accepted write; returns how often it was accepted in a row."""
        times = self.times(write, moment, delay) + 1
        self.accepted[write] = _Accepted(times=times, at=moment)
        return times

    def keep(self, wanted: Callable[[K], bool]) -> None:
        """Forget all other writes."""
        self.accepted = {write: one for write, one in self.accepted.items() if wanted(write)}


LONGEST_NODE_DELAY = 900.0
"""Seconds between two creates on a node, at most, as in the native controller. The first replacement is immediate;
then the node waits `FIRST_DELAY` seconds, twice as long each time while its pods last shorter than that."""
LASTING_SECONDS = 60.0
"""A pod that lasts for so long, and for longer than its node had to wait, ends the back-off."""
MOST_NAMES = 4
QUIET_SECONDS = 2 * LONGEST_NODE_DELAY
"""After so long without a create, a node is forgotten."""
REPORTED_FROM_SECONDS = 8.0
"""The wait from which on a node is reported: below, a pod may just have been deleted a few times."""


class _Created(msgspec.Struct):
    """The last pod that we created on a node."""

    names: tuple[str, ...]
    """Its name, and before it those of the former ones, which may still be going."""
    at: float
    wait: float
    """Seconds from this create to the next one, at least."""
    lasted: float | None = None
    """Seconds until it ended, or left us; None: it has not."""
    restored: bool = False
    """Whether another controller created it."""

    @property
    def name(self) -> str:
        return self.names[-1]

    def lasts(self, moment: float) -> bool:
        seconds = moment - self.at if self.lasted is None else self.lasted
        return seconds >= max(LASTING_SECONDS, self.wait)

    @property
    def until(self) -> float:
        """When it will have been forgotten, unless there is another one before."""
        return self.at + 1 + (max(LASTING_SECONDS, self.wait) if self.lasted is None else QUIET_SECONDS)


def _wait_after(before: _Created | None, moment: float) -> float:
    """Seconds from a create to the next one on its node, after this one."""
    if before is None or before.lasts(moment):
        return 0.0
    return min(max(before.wait * 2, FIRST_DELAY), LONGEST_NODE_DELAY)


class NodeBackoff(msgspec.Struct):
    """The back-off of one DaemonSet, of one generation: a new template deserves a new try."""

    created_on: dict[str, _Created] = msgspec.field(default_factory=dict)
    ended_on: dict[str, float] = msgspec.field(default_factory=dict)
    """The creation time of the youngest pod that has ended, by node (seconds since 1970)."""

    def created(self, node: str, name: str, moment: float) -> None:
        """Note that a pod was created, or may have been."""
        before = self.created_on.get(node)
        if before is not None and before.name == name:  # the answer to the first request was lost
            if before.lasted is None:
                before.at = moment  # it may have been made only now
            return
        names = (*(before.names if before is not None else ()), name)[-MOST_NAMES:]
        self.created_on[node] = _Created(names=names, at=moment, wait=_wait_after(before, moment))

    def deleted(self, node: str, name: str) -> None:
        """Note that we deleted a pod that had not ended. That is no failure of its node, even if the pod was seen
        to end before the answer came."""
        known = self.created_on.get(node)
        if known is not None and known.name == name:
            del self.created_on[node]

    def ended(self, pod: Pod, moment: float) -> None:
        """Note that a pod has ended, or is no longer ours.

        A pod that we did not create, and that is younger than the last one that ended there, was created by another
        controller in its place, and does not last either.
        """
        known = self.created_on.get(pod.node)
        if known is not None and pod.name in known.names:
            if known.name == pod.name and known.lasted is None:
                known.lasted = moment - known.at
        elif pod.created > self.ended_on.get(pod.node, inf):
            wait = _wait_after(known, moment)
            self.created_on[pod.node] = _Created(names=("",), at=moment, wait=wait, lasted=0.0, restored=True)
        self.ended_on[pod.node] = max(pod.created, self.ended_on.get(pod.node, 0.0))

    def forget_lasting(self, moment: float) -> None:
        """Forget the nodes whose pods last."""
        over = [n for n, one in self.created_on.items() if one.lasts(moment) or moment - one.at >= QUIET_SECONDS]
        for node in over:
            del self.created_on[node]

    def not_before(self, moment: float) -> Mapping[str, float]:
        """When each node that waits now may have its next pod."""
        ends = {node: one.at + one.wait for node, one in self.created_on.items()}
        return {node: end for node, end in ends.items() if end > moment}

    @property
    def short_lived(self) -> Mapping[str, float]:
        """The nodes to report, and until when."""
        return {node: one.until for node, one in self.created_on.items() if one.wait >= REPORTED_FROM_SECONDS}

    @property
    def restored(self) -> frozenset[str]:
        """The nodes where another controller creates pods, which do not last."""
        return frozenset([node for node, one in self.created_on.items() if one.restored])

    def forget_node(self, name: str) -> None:
        self.created_on.pop(name, None)
        self.ended_on.pop(name, None)

    def clear(self) -> None:
        self.created_on.clear()
        self.ended_on.clear()
