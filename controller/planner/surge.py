"""While surging: the nodes that use up maxSurge, and those that lose an old pod they could keep."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from controller.planner.eligibility import Fit
from controller.planner.slot import Slot


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
