"""When a pass first saw what pods and the status report. The clocks of nodes, of the API server and of this process
may differ, and be set: what is remembered is monotonic."""

from __future__ import annotations

from collections.abc import Container, Iterable
from math import inf

import msgspec

from controller.api.daemonset import DaemonSetStatus, Rollout, rollout_of
from controller.api.objects import Value, epoch
from controller.api.pod import Pod
from controller.planner.world import ClockOffset
from controller.runtime.clock import Instant


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

    def observe(self, pods: Iterable[Pod], current: Container[str], now: Instant) -> None:
        """Records the pods of a pass. `current`: hashes of the current revision."""
        known, ahead = self.known, {}
        for pod in pods:
            reported = pod.ready_since
            if reported is None or (reported <= now.wall and not known):
                continue
            before = known.get(pod.uid) if known else None
            if before is not None and before.reported == reported:
                ahead[pod.uid] = before
            elif reported > now.wall:
                ahead[pod.uid] = NodeTimestamp(reported=reported, seen=self._seen(pod, reported, current, now))
        self.known, self.epoch = ahead, now.to_elapsed(0.0)

    def since(self, now: Instant) -> dict[str, float]:
        """When each such pod was first seen ready (seconds since 1970), by uid."""
        return _since(self.known, now)

    def _seen(self, pod: Pod, reported: float, current: Container[str], now: Instant) -> float:
        """Since when a pod counts as ready (`elapsed`) whose Ready time is after `now`. Old pods must not all be
        unavailable, or all would be deleted at once. If the clock was set back, its earlier time is used; after a
        restart, the pod's creation. If that is in the future too, an old pod was always ready and a current one is so
        from `now` on."""
        if self.known is not None:
            return min(reported + self.epoch, now.elapsed)
        if pod.created <= now.wall:
            return now.to_elapsed(pod.created)
        return now.elapsed if pod.hash in current else -inf


class SoakClock(msgspec.Struct):
    """Since when a step is reached, by the monotonic clock. The time of a step that was reached before this process
    started is taken from the status in the first pass."""

    reached: tuple[object, ...] | None = None
    """Revision, step and time as recorded; None before the first pass."""
    at: float = 0.0
    """`elapsed`"""

    def observe(self, status: DaemonSetStatus | None, now: Instant, server: ClockOffset) -> None:
        """Reads the status as the pass finds it, by the earlier one of the clocks of controller and API server."""
        first, record = self.reached is None, rollout_of(status)
        if self._is_new(status.update_revision if status is not None else None, record):
            earlier = server.earlier(now.wall)
            passed = earlier - (epoch(record.step_reached_time) or earlier) if first else 0.0
            self.at = now.elapsed - max(passed, 0.0)

    def record(self, revision: str | None, record: Rollout, now: Instant, server: ClockOffset) -> None:
        """Reads the status that the pass is about to write, by the later of the two clocks. The time in it is rounded
        up, and is used rounded."""
        if self._is_new(revision, record):
            later = server.later(now.wall)
            self.at = now.elapsed + max((epoch(record.step_reached_time) or later) - later, 0.0)

    def since(self, now: Instant) -> float:
        """Seconds since 1970."""
        return now.to_wall(self.at)

    def _is_new(self, revision: str | None, record: Rollout) -> bool:
        before, self.reached = self.reached, (revision, record.step, record.step_reached_time)
        return before != self.reached


class SeenTimes(msgspec.Struct):
    """When restarts of containers were first seen. By the clock of a node that is behind, a restarted container would
    seem to have run for long."""

    known: dict[str, NodeTimestamp] | None = None

    def observe(self, pods: Iterable[Pod], moment: float) -> None:
        """Records the pods of a pass. It must see all pods, or an old restart would look new later."""
        seen = None if self.known is None else moment
        known, self.known = self.known or {}, {}
        for pod in pods:
            if (reported := pod.restarted_at) is not None:
                before = known.get(pod.uid)
                same = before is not None and before.reported == reported
                self.known[pod.uid] = before if before and same else NodeTimestamp(reported=reported, seen=seen)

    def since(self, now: Instant) -> dict[str, float]:
        """When the last restart was first seen (seconds since 1970), by uid of the pod."""
        return _since(self.known, now)


def _since(known: dict[str, NodeTimestamp] | None, now: Instant) -> dict[str, float]:
    return {uid: now.to_wall(time.seen) for uid, time in (known or {}).items() if time.seen is not None}
