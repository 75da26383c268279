"""When we saw, by our own clock, what pods tell by the clock of their node."""

from __future__ import annotations

from collections.abc import Container, Iterable
from math import inf

import msgspec

from controller.api.base import Value
from controller.api.pod import Pod


class NodeTimestamp(Value):
    """A moment that a pod tells by the clock of its node, and when we noticed it by our own."""

    said: float
    """By the node's clock, in seconds since 1970."""
    seen: float | None
    """By `elapsed`. None: it was there when we looked first."""


class ReadySeen(msgspec.Struct):
    """Since when pods are ready that say they will be so only later: their node's clock is ahead of ours, or ours was
    set back. Without it such a pod would be available only when our clock has caught up."""

    known: dict[str, NodeTimestamp] | None = None
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
                ahead[pod.uid] = NodeTimestamp(said=said, seen=self._seen(pod, said, current, now, moment))
        self.known, self.epoch = ahead, moment - now

    def since(self, now: float, moment: float) -> dict[str, float]:
        """Uid to the moment (seconds since 1970) at which such a pod was first seen ready."""
        return _since(self.known, now, moment)

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


class RestartsSeen(msgspec.Struct):
    """When containers were started again: a clock that is behind sounds as if they had run for long."""

    known: dict[str, NodeTimestamp] | None = None
    """By uid. None: nobody has looked yet."""

    def look(self, pods: Iterable[Pod], moment: float) -> None:
        """In every pass, also at pods that were never updated in place: who is for the first time has not been
        restarted just now."""
        seen = None if self.known is None else moment
        known, self.known = self.known or {}, {}
        for pod in pods:
            if pod.restarted_at is not None:
                before = known.get(pod.uid)
                same = before is not None and before.said == pod.restarted_at
                self.known[pod.uid] = before if before and same else NodeTimestamp(said=pod.restarted_at, seen=seen)

    def since(self, now: float, moment: float) -> dict[str, float]:
        """Uid to seconds since 1970."""
        return _since(self.known, now, moment)


def _since(known: dict[str, NodeTimestamp] | None, now: float, moment: float) -> dict[str, float]:
    return {uid: now + one.seen - moment for uid, one in (known or {}).items() if one.seen is not None}
