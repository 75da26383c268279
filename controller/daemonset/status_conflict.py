"""Decides for how long a DaemonSet is left alone whose status another controller writes too. Pure.

It is never left for ever: the other controller may be gone, and then nobody would look after the nodes.
"""

from __future__ import annotations

from controller.api.base import Value
from controller.planner.step import Note

FOREIGN_STATUS = "ForeignStatusWrite"
STATUS_REVERTED = "StatusReverted"
STAND_BACK_FIRST = 60.0
STAND_BACK_AT_MOST = 900.0
"""Seconds of the first pause and of the longest; the note below names both to users."""


class StatusConflict(Value):
    """For how long a DaemonSet is left to the other controller."""

    until: float
    """Until this moment (`elapsed`) we do nothing."""
    pause: float
    """Seconds from the other controller's last write until we act again."""


def foreign_note(manager: str) -> Note:
    text = (
        f"{manager!r} wrote this status too. This controller leaves the DaemonSet alone until the other one has not "
        "written for a minute, later for up to 15. Stop one of the two, for example OpenKruise's "
        "kruise-controller-manager"
    )
    return Note(warning=True, reason=FOREIGN_STATUS, message=text)


def reverted_note() -> Note:
    text = "another controller or a webhook takes this status back; it is written again ever less often"
    return Note(warning=True, reason=STATUS_REVERTED, message=text)


def conflict_after(known: StatusConflict | None, now: float) -> StatusConflict:
    """The conflict after the other controller has written the status at `now` (`elapsed`).

    A write during the pause starts the pause again. A write soon after the pause doubles it. Once we have acted
    undisturbed for as long as the pause was, the next one is short again.
    """
    if known is None or now > known.until + known.pause:
        pause = STAND_BACK_FIRST
    elif now < known.until:
        pause = known.pause
    else:
        pause = min(known.pause * 2, STAND_BACK_AT_MOST)
    return StatusConflict(until=now + pause, pause=pause)


def conflict_found(ago: float, now: float) -> StatusConflict | None:
    """The conflict that a process finds which has just started, when the last write of the other controller is `ago`
    seconds old; None if that is too long ago. `ago` is negative if the clock of the writer is ahead of ours.
    """
    left = STAND_BACK_FIRST - max(ago, 0.0)
    return StatusConflict(until=now + left, pause=STAND_BACK_FIRST) if left > 0 else None
