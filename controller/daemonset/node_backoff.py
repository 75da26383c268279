"""Back-off by node for pods that do not last: they fail, succeed, are evicted, or somebody deletes them.

The first replacement is immediate. After that a node waits 1 s between two creates, twice as long each time while its
pods last shorter than that, up to 15 minutes: the constants of the native controller for failed pods. All moments are
by `runtime.clock.elapsed`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from controller.api.pod import Pod

FIRST_SECONDS = 1.0
MOST_SECONDS = 900.0
LASTING_SECONDS = 60.0
"""A pod that lasts for so long, and for longer than its node had to wait, ends the back-off."""
QUIET_SECONDS = 2 * MOST_SECONDS
"""After so long without a create, a node is forgotten."""
TOLD_FROM_SECONDS = 8.0
"""The wait from which on a node is reported: below, a pod may just have been deleted a few times."""


class _Created(msgspec.Struct):
    """The last pod that we created on a node."""

    name: str
    at: float
    wait: float
    """Seconds from this create to the next one, at least."""
    lasted: float | None = None
    """Seconds until it ended, or left us; None: it has not."""

    def lasts(self, moment: float) -> bool:
        seconds = moment - self.at if self.lasted is None else self.lasted
        return seconds >= max(LASTING_SECONDS, self.wait)

    @property
    def until(self) -> float:
        """When it will have been forgotten, unless there is another one before."""
        return self.at + 1 + (max(LASTING_SECONDS, self.wait) if self.lasted is None else QUIET_SECONDS)


class NodeBackoff(msgspec.Struct):
    """The back-off of one DaemonSet, of one generation: a new template deserves a new try."""

    created_on: dict[str, _Created] = msgspec.field(default_factory=dict)

    def created(self, node: str, name: str, moment: float) -> None:
        """Note that a pod was created, or may have been."""
        before = self.created_on.get(node)
        if before is not None and before.name == name:
            return  # the answer to the first request was lost
        wait = 0.0
        if before is not None and not before.lasts(moment):
            wait = min(max(before.wait * 2, FIRST_SECONDS), MOST_SECONDS)
        self.created_on[node] = _Created(name=name, at=moment, wait=wait)

    def ended(self, pod: Pod, moment: float) -> None:
        """Note that a pod has ended, or is no longer ours."""
        known = self.created_on.get(pod.node)
        if known is not None and known.name == pod.name and known.lasted is None:
            known.lasted = moment - known.at

    def known(self, moment: float) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """When each node that waits may have its next pod; and the nodes to report, and until when. Nodes whose pods
        last are forgotten here."""
        over = [n for n, one in self.created_on.items() if one.lasts(moment) or moment - one.at >= QUIET_SECONDS]
        for node in over:
            del self.created_on[node]
        ends = {node: one.at + one.wait for node, one in self.created_on.items()}
        told = {node: one.until for node, one in self.created_on.items() if one.wait >= TOLD_FROM_SECONDS}
        return {node: end for node, end in ends.items() if end > moment}, told

    def forget_node(self, name: str) -> None:
        self.created_on.pop(name, None)

    def clear(self) -> None:
        self.created_on.clear()
