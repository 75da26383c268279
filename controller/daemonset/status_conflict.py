"""Another controller writes the status of our DaemonSet too: how long the object is left to it. Pure.

Never for ever: the other one may be gone, and then nobody would look after the nodes.
"""

from __future__ import annotations

from controller.api.base import Value
from controller.planner.actions import Note

FOREIGN_STATUS = "ForeignStatusWrite"
STAND_BACK_FIRST = 60.0
STAND_BACK_AT_MOST = 900.0


class StatusConflict(Value):
    """Both in seconds; `until` by `runtime.clock.elapsed`."""

    until: float
    """We do nothing before."""
    pause: float
    """So long after the other's last write."""


def foreign_note(manager: str) -> Note:
    text = (
        f"{manager!r} wrote this status too. This DaemonSet is left to that controller until it has not written for "
        "a minute, later for up to 15. Stop one of the two, for example OpenKruise's kruise-controller-manager"
    )
    return Note(warning=True, reason=FOREIGN_STATUS, message=text)


def conflict_after(known: StatusConflict | None, now: float) -> StatusConflict:
    """What follows from the other's write at `now`.

    While we stand back each one only begins the pause anew. Who writes again as soon as we act is left alone for
    twice as long; once we have acted undisturbed for as long as we stood back, it begins from the start.
    """
    if known is None or now > known.until + known.pause:
        pause = STAND_BACK_FIRST
    elif now < known.until:
        pause = known.pause
    else:
        pause = min(known.pause * 2, STAND_BACK_AT_MOST)
    return StatusConflict(until=now + pause, pause=pause)


def conflict_found(ago: float, now: float) -> StatusConflict | None:
    """For a process that has just begun and finds the other's write of so many seconds ago; None: it was long ago.

    By the clock of whoever wrote it that may be yet to come.
    """
    left = STAND_BACK_FIRST - max(ago, 0.0)
    return StatusConflict(until=now + left, pause=STAND_BACK_FIRST) if left > 0 else None
