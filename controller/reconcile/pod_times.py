"""Timestamps that pods have by the clock of their node, and when we saw them by our own clock."""

from __future__ import annotations

from collections.abc import Container, Iterable
from math import inf

import msgspec

from controller.api.objects import Value
from controller.api.pod import Pod


class NodeTimestamp(Value):
    """A timestamp that a pod has from the clock of its node, and when we noticed it by our own clock."""

    reported: float
    """The timestamp by the clock of the node, in seconds since 1970."""
    seen: float | None
    """When we noticed it (`elapsed`); None: it was there when we looked first."""


class ReadyTimes(msgspec.Struct):
    """Remembers when we saw a pod ready whose Ready condition carries a time in our future: the clock of its node is
    ahead of ours, or ours was set back. Without this, such a pod would be available only when our clock has reached
    that time."""

    known: dict[str, NodeTimestamp] | None = None
    """Timestamps by uid of the pod. None: before the first pass."""
    epoch: float = 0.0
    """The `elapsed` at the start of 1970, by our clock in the last pass."""

    def look(self, pods: Iterable[Pod], current: Container[str], now: float, moment: float) -> None:
        """Note the pods of this pass. `current` are the hashes of the current revision; `now` is in seconds since
        1970, `moment` by `elapsed`."""
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
        """When each such pod was first seen ready, in seconds since 1970, by uid."""
        return _since(self.known, now, moment)

    def _seen(self, pod: Pod, reported: float, current: Container[str], now: float, moment: float) -> float:
        """Since when a pod counts as ready (`elapsed`) whose Ready condition names a time after `now`.

        Old pods must not all count as unavailable, or all would be deleted at once. If our clock was set back, the
        time that it showed before is used. After a restart of the controller, the age of the pod counts; if even its
        creation is in the future, an old pod counts as always ready, and a current one as ready from now on.
        """
        if self.known is not None:
            return min(reported + self.epoch, moment)
        if pod.created <= now:
            return pod.created + moment - now
        return moment if pod.hash in current else -inf


class RestartTimes(msgspec.Struct):
    """Notes when containers were restarted. With a clock that is behind, they would seem to have run for long."""

    known: dict[str, NodeTimestamp] | None = None
    """Timestamps by uid of the pod. None: before the first pass."""

    def look(self, pods: Iterable[Pod], moment: float) -> None:
        """Note all pods of this pass, also those that were never updated in place. Otherwise an old restart would
        look new when such a pod is first updated."""
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
        """When the containers of each pod were seen restarted, in seconds since 1970, by uid."""
        return _since(self.known, now, moment)


def _since(known: dict[str, NodeTimestamp] | None, now: float, moment: float) -> dict[str, float]:
    return {uid: now + one.seen - moment for uid, one in (known or {}).items() if one.seen is not None}
