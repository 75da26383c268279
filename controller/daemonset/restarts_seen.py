"""When we saw that containers were started again, by our own clock: that of their node may be behind, which sounds as
if they had run for long."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from controller.api.base import Value
from controller.api.pod import Pod


class Restart(Value):
    said: float
    """By the node's clock, in seconds since 1970."""
    seen: float | None
    """By `elapsed`. None: it was there when we looked first."""


class RestartsSeen(msgspec.Struct):
    """Of one DaemonSet's pods."""

    known: dict[str, Restart] | None = None
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
                self.known[pod.uid] = before if before and same else Restart(said=pod.restarted_at, seen=seen)

    def since(self, now: float, moment: float) -> dict[str, float]:
        """Uid to seconds since 1970."""
        return {uid: now + one.seen - moment for uid, one in (self.known or {}).items() if one.seen is not None}
