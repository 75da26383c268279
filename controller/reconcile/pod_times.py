"""Timestamps that pods have by the clock of their node, and when the controller saw them by its own."""

from __future__ import annotations

from collections.abc import Container, Iterable
from math import inf

import msgspec

from controller.api.objects import Value
from controller.api.pod import Pod


class NodeTimestamp(Value):
    reported: float
    """Seconds since 1970 by the clock of the node."""
    seen: float | None
    """When it was first seen (`elapsed`); None if it was there before the first pass."""


class ReadyTimes(msgspec.Struct):
    """When pods were first seen ready whose Ready time is in the future, because their node's clock is ahead or the
    controller's was set back. Otherwise they would be unavailable until then."""

    known: dict[str, NodeTimestamp] | None = None
    """By pod uid. None before the first pass."""
    epoch: float = 0.0
    """`elapsed` at the start of 1970 by the wall clock of the last pass."""

    def look(self, pods: Iterable[Pod], current: Container[str], now: float, moment: float) -> None:
        """Records the pods of a pass. `current`: hashes of the current revision; `now`: seconds since 1970."""
        known, ahead = self.known, {}
        for pod in pods:
            reported = pod.ready_since
            if reported is None or (reported <= now and not known):
                continue
            before = known.get(pod.uid) if known else None
            if before is not None and before.reported == reported:
                ahead[pod.uid] = before
            elif reported > now:
                ahead[pod.uid] = NodeTimestamp(
                    reported=reported, seen=self._seen(pod, reported, current, now, moment)
                )
        self.known, self.epoch = ahead, moment - now

    def since(self, now: float, moment: float) -> dict[str, float]:
        """When each such pod was first seen ready (seconds since 1970), by uid."""
        return _since(self.known, now, moment)

    def _seen(self, pod: Pod, reported: float, current: Container[str], now: float, moment: float) -> float:
        """Since when a pod counts as ready (`elapsed`) whose Ready time is after `now`. Old pods must not all be
        unavailable, or all would be deleted at once. If the clock was set back, its earlier time is used; after a
        restart, the pod's creation. If that is in the future too, an old pod was always ready and a current one is so
        from `moment` on."""
        if self.known is not None:
            return min(reported + self.epoch, moment)
        if pod.created <= now:
            return pod.created + moment - now
        return moment if pod.hash in current else -inf


class RestartTimes(msgspec.Struct):
    """When restarts of containers were seen; by a clock that is behind, they would seem to have run for long."""

    known: dict[str, NodeTimestamp] | None = None

    def look(self, pods: Iterable[Pod], moment: float) -> None:
        """Records all pods of a pass, or an old restart would look new at the pod's first update in place."""
        seen = None if self.known is None else moment
        known, self.known = self.known or {}, {}
        for pod in pods:
            if pod.restarted_at is not None:
                before = known.get(pod.uid)
                same = before is not None and before.reported == pod.restarted_at
                self.known[pod.uid] = (
                    before if before and same else NodeTimestamp(reported=pod.restarted_at, seen=seen)
                )

    def since(self, now: float, moment: float) -> dict[str, float]:
        """When restarts of each pod were seen (seconds since 1970), by uid."""
        return _since(self.known, now, moment)


def _since(known: dict[str, NodeTimestamp] | None, now: float, moment: float) -> dict[str, float]:
    return {uid: now + one.seen - moment for uid, one in (known or {}).items() if one.seen is not None}
