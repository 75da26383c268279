"""Makes the events about a rollout as a whole: it is complete, it is held, it is stalled.

They follow from the old status and the new one, and are sent only after the new one is written. So each is sent once,
even if the controller restarts in between.
"""

from __future__ import annotations

from typing import Final

from controller.api.daemonset import DaemonSet, DaemonSetStatus, Phase
from controller.api.wellknown import (
    INVALID_ANNOTATION,
    PROGRESS_DEADLINE_EXCEEDED,
    READY,
    ROLLOUT_COMPLETE,
    ROLLOUT_HELD,
    STALLED,
)
from controller.planner.conditions import unreadable_deadline
from controller.planner.status import Status
from controller.planner.step import Note

UNDER_WAY: Final = (Phase.PENDING, Phase.PROGRESSING, Phase.PAUSED, Phase.STALLED, Phase.MANUAL)
"""Phases from which a rollout can complete. If it was Degraded, only pods have come back."""


def rollout_events(daemonset: DaemonSet, status: Status) -> tuple[Note, ...]:
    """The events for this change of the status: `daemonset` has the newest known one, `status` will be written."""
    was = daemonset.status.rollout.phase if daemonset.status and daemonset.status.rollout else ""
    now = status.rollout.phase
    said = {one.type: one for one in status.conditions}
    message = said[READY].message
    found = []
    if now == Phase.STALLED != was and said[STALLED].reason == PROGRESS_DEADLINE_EXCEEDED:
        found.append(_note(PROGRESS_DEADLINE_EXCEEDED, f"Rollout stalled: {message}", warning=True))
    if was in UNDER_WAY and now == Phase.HEALTHY:
        found.append(_note(ROLLOUT_COMPLETE, f"Rollout complete: {message}"))
    if was in UNDER_WAY and now == Phase.HELD:
        found.append(_note(ROLLOUT_HELD, f"Rollout held: {message}"))
    problem = unreadable_deadline(daemonset)
    if problem and problem not in _stalled_message(daemonset.status):
        found.append(_note(INVALID_ANNOTATION, problem, warning=True))
    return tuple(found)


def _note(reason: str, message: str, *, warning: bool = False) -> Note:
    return Note(warning=warning, reason=reason, message=message, of_rollout=True)


def _stalled_message(status: DaemonSetStatus | None) -> str:
    conditions = (status.conditions if status else None) or ()
    return next((str(one.get("message")) for one in conditions if one.get("type") == STALLED), "")
