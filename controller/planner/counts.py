"""What the nodes come to in the status."""

from __future__ import annotations

from controller.api.daemonset import Counts
from controller.planner.board import Board
from controller.planner.eligibility import Fit


def count(board: Board) -> Counts:
    """One pod stands for a node: a live one before a dying one; while surging the old one, or its successor once that
    serves and the old one is only held before its deletion.

    A dying pod still counts as scheduled.
    """
    hash_, run = board.revision.hash, Fit.RUN
    current = misscheduled = ready = updated = available = 0
    for slot in board.slots:
        if not slot.pods or slot.fit is None:
            continue
        if slot.fit is not run:
            misscheduled += 1
            continue
        current += 1
        if slot.old is not None:
            stands = slot.current if slot.current_available and slot.old.held_by_hook else None
            ready += (stands or slot.old).ready
            available += stands is not None or slot.old_available
        elif slot.current is not None:
            updated += 1
            ready += slot.current.ready
            available += slot.current_available
        else:
            first = slot.pods[0]
            updated += first.hash == hash_
            ready += first.ready and not first.ended
    desired = board.budget.desired
    return Counts(
        desired_number_scheduled=desired,
        current_number_scheduled=current,
        number_misscheduled=misscheduled,
        number_ready=ready,
        updated_number_scheduled=updated,
        number_available=available,
        number_unavailable=desired - available,
    )
