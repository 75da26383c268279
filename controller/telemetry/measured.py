"""What metrics tell of one DaemonSet: the object, and what only a pass over it knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from controller.api.base import Value
from controller.api.daemonset import DaemonSet, DaemonSetStatus, Rollout

_NO_STATUS = DaemonSetStatus()
_NO_ROLLOUT = Rollout()


class Limits(Protocol):
    """Numbers of nodes."""

    @property
    def partition(self) -> int: ...
    @property
    def max_surge(self) -> int: ...
    @property
    def max_unavailable(self) -> int: ...


class PassSummary(Protocol):
    """What a pass saw; `planner.summary` says what the numbers mean."""

    @property
    def budget(self) -> Limits: ...
    @property
    def zones(self) -> Mapping[str, Mapping[str, int]]: ...
    @property
    def failed(self) -> Mapping[str, int]: ...
    @property
    def blocks(self) -> Mapping[str, bool]: ...
    @property
    def unplanned(self) -> int: ...
    @property
    def updating(self) -> int: ...
    @property
    def leaving(self) -> int: ...
    @property
    def preparing(self) -> int | None: ...
    @property
    def overdue(self) -> int: ...


class MeasuredDaemonSet(Value):
    """One DaemonSet at the moment of a scrape."""

    daemonset: DaemonSet
    summary: PassSummary | None = None
    """None: no pass has seen it yet, or none can."""
    paused_since: float = 0.0
    """Seconds since 1970; 0 = it is not paused."""

    @property
    def status(self) -> DaemonSetStatus:
        return self.daemonset.status or _NO_STATUS

    @property
    def rollout(self) -> Rollout:
        return self.status.rollout or _NO_ROLLOUT
