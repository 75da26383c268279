"""While surging: which nodes give up the old pod that they may keep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.planner.eligibility import Fit
from controller.planner.slot import Slot

KEEPING = (Fit.STAY, Fit.RUN)
"""Nodes on which a pod that is there may go on."""


def surplus_of(slots: Sequence[Slot], desired: int) -> tuple[Slot, ...]:
    """Nodes with an old pod that may only keep it, as far as others serve in their place, in update order.

    Such a node gets no new pod. Its old one goes when it serves nobody, or when more pods are available than desired:
    an application that moves from one set of nodes to another is never without. Without surge it stays. One that is
    prepared for that goes first, and not any more when the others are needed after all.
    """
    leaving = [slot for slot in reversed(slots) if slot.fit is Fit.STAY and slot.only_old and slot.selected]
    if not leaving:
        return ()
    at_once, spare = by_urgency(leaving)
    begun = [slot for slot in at_once if only_held(slot)]
    useless = [slot for slot in at_once if not only_held(slot)]
    available = sum(1 for slot in slots if slot.fit in KEEPING and slot.serves) + len(begun)
    return (*useless, *[*begun, *spare][: max(available - desired, 0)])


def only_held(slot: Slot) -> bool:
    """Whether its old pod would serve if it were not prepared for its deletion."""
    return slot.old is not None and slot.old.able and (slot.old.held_by_hook or slot.old.marked)


def by_urgency(candidates: Iterable[Slot]) -> tuple[list[Slot], list[Slot]]:
    """Nodes whose old pod serves nobody, and nodes whose old pod does; without the unreachable ones."""
    reachable = [slot for slot in candidates if not slot.unreachable]
    return (
        [slot for slot in reachable if not slot.old_available],
        [slot for slot in reachable if slot.old_available],
    )
