"""Back-off of nodes whose pods do not last. All times are by `runtime.clock.elapsed`."""

from __future__ import annotations

from collections.abc import Mapping, Set
from math import inf

import msgspec

from controller.api.pod import Pod
from controller.reconcile.backoff import FIRST_DELAY, forget_keys

LONGEST_NODE_DELAY = 900.0
"""The most seconds between two creates on a node, as in the native controller. The first replacement is immediate."""
LASTING_SECONDS = 60.0
"""A pod that lasts this many seconds, and longer than its node had to wait, ends the back-off."""
MOST_NAMES = 4
QUIET_SECONDS = 2 * LONGEST_NODE_DELAY
"""Seconds without a create after which a node is forgotten."""
REPORTED_FROM_SECONDS = 8.0
"""Seconds of waiting from which a node is reported; a few deletions by users may cause shorter waits."""


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
