"""While surging: which nodes give up the old pod that they may keep (U42)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.planner.eligibility import Fit
from controller.planner.slot import Slot

KEEPING = (Fit.STAY, Fit.RUN)
"""Nodes on which a pod that is there may go on."""


def surplus_of(slots: Sequence[Slot], desired: int) -> tuple[Slot, ...]:
    """Nodes with an old pod that may only keep it, as far as others serve in their place, in update order.

    Such a node gets no new pod. Its old one goes when it serves nobody, or when more pods are available than desired:
    an application that moves from one set of nodes to another is never without. Without surge it stays.
    """
    leaving = [slot for slot in reversed(slots) if slot.fit is Fit.STAY and slot.only_old and slot.selected]
    if not leaving:
        return ()
    available = sum(1 for slot in slots if slot.fit in KEEPING and slot.serves)
    at_once, spare = by_urgency(leaving)
    return (*at_once, *spare[: max(available - desired, 0)])


def by_urgency(candidates: Iterable[Slot]) -> tuple[list[Slot], list[Slot]]:
    """Nodes whose old pod serves nobody, and nodes whose old pod does; without the unreachable ones (D23)."""
    reachable = [slot for slot in candidates if not slot.unreachable]
    return (
        [slot for slot in reachable if not slot.old_available],
        [slot for slot in reachable if slot.old_available],
    )
