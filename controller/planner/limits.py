"""The limits of a rollout as numbers: maxUnavailable, maxSurge, partition and burst."""

from __future__ import annotations

from controller.api import formats
from controller.api.daemonset import DaemonSet, RollingUpdate
from controller.api.objects import Value

DEFAULT_BURST = 250
"""Pods that one pass creates or deletes at most; the native controller's BurstReplicas."""


class Budget(Value):
    """The limits of a pass, in nodes or pods. Percentages are of `desired`."""

    desired: int
    max_unavailable: int
    max_surge: int
    partition: int
    burst: int

    @property
    def surging(self) -> bool:
        return self.max_surge > 0

    @property
    def limit(self) -> str:
        """The limit that the strategy uses, by its name in the spec."""
        return "maxSurge" if self.surging else "maxUnavailable"

    @property
    def most(self) -> int:
        """How many nodes this limit allows at a time."""
        return self.max_surge if self.surging else self.max_unavailable


def budget_of(daemonset: DaemonSet, desired: int) -> Budget:
    """The limits of the spec as numbers. maxUnavailable and maxSurge round up, partition and burst round down.

    maxUnavailable is 1 if both limits are unset or come to 0, so that a rollout can go on; maxSurge is 1 if it is
    unset and the type is `Surging`. burst is at least 1. With no desired node, a percentage of maxSurge still means
    that the strategy surges.
    """
    rolling = daemonset.rolling_update or RollingUpdate()
    surge, unavailable = rolling.max_surge, rolling.max_unavailable
    if rolling.rolling_update_type == "Surging" and surge is None:
        surge = 1
    max_surge = formats.scaled(surge, max(desired, 1), round_up=True)
    max_unavailable = formats.scaled(unavailable, desired, round_up=True)
    if daemonset.rolling_update is None:
        max_surge = 0
    if desired and not max_surge and not max_unavailable:
        max_unavailable = 1
    burst = DEFAULT_BURST if daemonset.spec.burst_replicas is None else daemonset.spec.burst_replicas
    return Budget(
        desired=desired,
        max_unavailable=max_unavailable,
        max_surge=max_surge,
        partition=max(formats.scaled(rolling.partition, desired, round_up=False), 0),
        burst=max(formats.scaled(burst, desired, round_up=False), 1),
    )
