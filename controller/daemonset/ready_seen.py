"""Since when pods are ready that say that they will be so only later: the clock of their node is ahead of ours, or
ours was set back."""

from __future__ import annotations

from collections.abc import Container, Iterable
from math import inf

import msgspec

from controller.api.base import Value
from controller.api.pod import Pod


class FutureReady(Value):
    """A pod that said it would become ready later than it was seen so."""

    said: float
    """In seconds since 1970."""
    seen: float
    """By `elapsed`."""


class ReadySeen(msgspec.Struct):
    """Of one DaemonSet's pods. Without it such a pod would be available only when our clock has caught up."""

    known: dict[str, FutureReady] | None = None
    """By uid. None: nobody has looked yet."""
    epoch: float = 0.0
    """The `elapsed` of 1970, by our clock when pods were last looked at."""

    def look(self, pods: Iterable[Pod], current: Container[str], now: float, moment: float) -> None:
        """In every pass; `current` are the hashes of the current revision, `now` is in seconds since 1970, `moment`
        is `elapsed`."""
        known, ahead = self.known, {}
        for pod in pods:
            said = pod.ready_since
            if said is None or (said <= now and not known):
                continue
            before = known.get(pod.uid) if known else None
            if before is not None and before.said == said:
                ahead[pod.uid] = before
            elif said > now:
                ahead[pod.uid] = FutureReady(said=said, seen=self._seen(pod, said, current, now, moment))
        self.known, self.epoch = ahead, moment - now

    def since(self, now: float, moment: float) -> dict[str, float]:
        """Uid to the moment (seconds since 1970) at which such a pod was first seen ready."""
        return {uid: now + one.seen - moment for uid, one in (self.known or {}).items()}

    def _seen(self, pod: Pod, said: float, current: Container[str], now: float, moment: float) -> float:
        """By `elapsed`, of a pod that says it will be ready after `now`.

        Old pods must not all count as unavailable, which would let them all go at once: neither because our clock was
        set back, so what it said before counts; nor because the controller has restarted, when nobody knows since
        when. Then its age is taken; where even its birth lies in the future an old pod was always ready, and a
        current one has just become so.
        """
        if self.known is not None:
            return min(said + self.epoch, moment)
        if pod.created <= now:
            return pod.created + moment - now
        return moment if pod.hash in current else -inf
