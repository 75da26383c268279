"""Back-off by node for pods that do not last: they fail, succeed, are evicted, or somebody deletes them.

The first replacement is immediate. After that a node waits 1 s between two creates, twice as long each time while its
pods last shorter than that, up to 15 minutes: the constants of the native controller for failed pods. All moments are
by `runtime.clock.elapsed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import msgspec

from controller.api.pod import Pod

FIRST_SECONDS = 1.0
MOST_SECONDS = 900.0
LASTING_SECONDS = 60.0
"""A pod that lasts for so long, and for longer than its node had to wait, ends the back-off."""
MOST_NAMES = 4
QUIET_SECONDS = 2 * MOST_SECONDS
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
    return min(max(before.wait * 2, FIRST_SECONDS), MOST_SECONDS)


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
