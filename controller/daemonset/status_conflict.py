"""Another controller writes the status of our DaemonSet too: how long the object is left to it. Pure.

Never for ever: the other one may be gone, and then nobody would look after the nodes.
"""

from __future__ import annotations

from controller.api.base import Value
from controller.planner.step import Note

FOREIGN_STATUS = "ForeignStatusWrite"
STAND_BACK_FIRST = 60.0
STAND_BACK_AT_MOST = 900.0


class StatusConflict(Value):
    """For how long a DaemonSet is left to the other controller."""

    until: float
    """By `runtime.clock.elapsed`: we do nothing before."""
    pause: float
    """Seconds from the other controller's last write until we act again."""


def foreign_note(manager: str) -> Note:
    text = (
        f"{manager!r} wrote this status too. This DaemonSet is left to that controller until it has not written for "
        "a minute, later for up to 15. Stop one of the two, for example OpenKruise's kruise-controller-manager"
    )
    return Note(warning=True, reason=FOREIGN_STATUS, message=text)


def conflict_after(known: StatusConflict | None, now: float) -> StatusConflict:
    """The other controller has written the status at `now`: for how long the DaemonSet is left to it.

    A write during our pause starts the pause again. A write soon after it doubles the pause; once we have acted for
    as long as the pause was and nobody interfered, the next one has its first length again.
    """
    if known is None or now > known.until + known.pause:
        pause = STAND_BACK_FIRST
    elif now < known.until:
        pause = known.pause
    else:
        pause = min(known.pause * 2, STAND_BACK_AT_MOST)
    return StatusConflict(until=now + pause, pause=pause)


def conflict_found(ago: float, now: float) -> StatusConflict | None:
    """The same decision in a process that has just started and finds a write of the other controller that is `ago`
    seconds old; None where it is too old to matter. `ago` is negative where the writer's clock is ahead of ours.
    """
    left = STAND_BACK_FIRST - max(ago, 0.0)
    return StatusConflict(until=now + left, pause=STAND_BACK_FIRST) if left > 0 else None
