"""Chooses the nodes that may hold the current revision.

Partition, selector and pause are one promise: docs/design/decisions.md#rollouts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from controller.api.daemonset import RollingUpdate
from controller.planner.slot import Slot


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
