"""The Budget: the limits of one pass as numbers.

While surging: the nodes that use up maxSurge, and those that lose an old pod they could keep.

Chooses the nodes that may hold the current revision.

Partition, selector and pause are one promise: docs/design/decisions.md#rollouts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from controller.api import formats
from controller.api.daemonset import DaemonSet, RollingUpdate
from controller.api.objects import Value
from controller.planner.node_fit import Fit
from controller.planner.slot import Slot

DEFAULT_BURST = 250
"""Pods that one pass creates or deletes at most; the native controller's BurstReplicas."""


class Budget(Value):
    """All limits of a pass, in nodes or pods. Percentages are of the desired number counted in this pass."""

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
        """Which limit the strategy uses, by its name in the spec."""
        return "maxSurge" if self.surging else "maxUnavailable"

    @property
    def most(self) -> int:
        """How many nodes this limit allows at a time."""
        return self.max_surge if self.surging else self.max_unavailable


def budget_of(daemonset: DaemonSet, desired: int) -> Budget:
    """The limits in the spec as numbers: maxUnavailable and maxSurge round up, partition and burst round down, and
    burst is at least 1.

    If neither limit is set, maxUnavailable is 1; with type `Surging`, maxSurge is 1. If both come to 0,
    maxUnavailable is 1, so that a rollout can always go on. Even with no desired node, a percentage of maxSurge
    decides whether the strategy surges.
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


def mid_surge_of(slots: Sequence[Slot], current: str, coming: Collection[str], leaving: Collection[str]) -> list[str]:
    """The nodes that use up maxSurge: those with two live pods, as far as we know, or with an old pod while a failed
    new one waits for its back-off.

    `current` is the hash of the current revision. On nodes in `coming` a pod is created, on nodes in `leaving` one is
    deleted, and the caches do not show it yet.
    """
    return [
        slot.node
        for slot in slots
        if slot.fit is not None
        and (
            slot.paired
            or awaits_retry(slot, current)
            or (slot.only_old and slot.node in coming)
            or (slot.current is not None and slot.node in leaving)
        )
    ]


def awaits_retry(slot: Slot, current: str) -> bool:
    """Whether the new pod beside a live old one has failed and is kept until its back-off is over."""
    if slot.old is None or not slot.had_current:
        return False
    return any(pod.ended and pod.hash == current for pod in slot.pods)


def surplus_of(slots: Sequence[Slot], desired: int) -> tuple[Slot, ...]:
    """While surging: nodes that may only keep their old pod, and now lose it, in update order.

    Such a node gets no new pod. Its old pod goes if it serves nobody, or if more pods are available than desired: an
    application that moves to other nodes always has enough pods. Without surge such pods stay. A pod that is already
    prepared for its deletion goes first, but stays if the available pods have become too few.
    """
    tainted = [slot for slot in reversed(slots) if slot.fit is Fit.STAY and not slot.unreachable]
    leaving = [slot for slot in tainted if slot.only_old and slot.selected]
    if not leaving:
        return ()
    spare = [slot for slot in leaving if slot.old_available]
    begun = [slot for slot in leaving if not slot.old_available and only_held(slot)]
    useless = [slot for slot in leaving if not slot.old_available and not only_held(slot)]
    available = sum(1 for slot in slots if slot.fit in (Fit.STAY, Fit.RUN) and slot.serves) + len(begun)
    return (*useless, *[*begun, *spare][: max(available - desired, 0)])


def only_held(slot: Slot) -> bool:
    """Whether the old pod would serve if it were not prepared for its deletion."""
    return slot.old is not None and slot.old.able and (slot.old.held_by_hook or slot.old.marked)


def nodes_for_current(
    eligible: Sequence[Slot], rolling: RollingUpdate | None, quota: int, coming: Collection[str]
) -> tuple[Slot, ...]:
    """Those of the `eligible` nodes (ascending) that may hold the current revision, in update order: by node name,
    descending.

    `quota` is the desired number less the partition, in nodes. First come nodes that have the current revision, then
    those whose last pod had it, so that a lost pod comes back as it was and moves no other node. Selected nodes fill
    the rest, unless an incomplete rollout is paused. Other empty nodes get what `Fallback` says. With OnDelete
    (`rolling` is None) all eligible nodes may. Nodes in `coming` may have the current revision already.
    """
    in_order = eligible[::-1]
    if rolling is None:
        return tuple(in_order)
    having = [slot for slot in in_order if slot.current is not None or slot.node in coming]
    lacking = [slot for slot in in_order if slot.current is None and slot.node not in coming]
    had = [slot for slot in lacking if _lost_current(slot)]
    rest = [slot for slot in lacking if slot.selected and not _lost_current(slot)]
    if is_frozen(lacking, rolling):
        rest = []
    return tuple((having + had + rest)[:quota])


def is_frozen(eligible: Iterable[Slot], rolling: RollingUpdate) -> bool:
    """Whether the rollout is paused while an eligible node has only a pod of an older revision, or had one last."""
    if not rolling.paused:
        return False
    return any(slot.current is None and slot.had_old for slot in eligible)


def _lost_current(slot: Slot) -> bool:
    return slot.had_current and slot.old is None
