"""Finds out from two successive statuses when a rollout ends, and how. Pure.

Each rollout ends once: `completed` when every node has the revision (Healthy), or when a new revision follows after
all nodes that partition and selector allow had it; `superseded` when a new revision comes before that; `rolled_back`
when an earlier revision comes back before it was Healthy, held or not.
"""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from controller.api.base import Value
from controller.api.daemonset import DaemonSetStatus, Phase, Rollout
from controller.api.meta import epoch

RolloutResult = Literal["completed", "rolled_back", "superseded"]
ROLLOUT_RESULTS: tuple[RolloutResult, ...] = ("completed", "rolled_back", "superseded")
RESTING = (Phase.PAUSED, Phase.HELD)
"""Phases in which the rollout waits for a person."""


class End(Value):
    result: RolloutResult
    seconds: float
    """Seconds from the start, pauses included."""


class RolloutCourse(Value):
    """Remembers one rollout from status to status."""

    start: str = ""
    ended: bool = False
    rested: float = 0.0
    """Seconds in `RESTING` so far, as far as this process saw those phases end."""


def follow(
    course: RolloutCourse, before: DaemonSetStatus | None, after: DaemonSetStatus, *, is_new: bool, now: float
) -> tuple[RolloutCourse, End | None, float]:
    """The course to remember after this write of the status; the end of a rollout, or None if none has ended; and how
    many seconds that rollout was in `RESTING` phases. `is_new`: the revision of `after` did not exist before."""
    last = (before.rollout if before is not None else None) or Rollout()
    this = after.rollout or Rollout()
    if course.start != last.start_time:
        course = RolloutCourse(start=last.start_time or "", ended=_is_over(before, last))
    if last.phase in RESTING and last.phase != this.phase:
        course = replace(course, rested=course.rested + _since(last.last_transition_time, now))
    replaced = before is not None and (before.update_revision, last.start_time) != (
        after.update_revision,
        this.start_time,
    )
    if replaced:
        end = None if course.ended or not last.start_time else _replaced(last, is_new=is_new, now=now)
        successor = RolloutCourse(start=this.start_time or "")
        return successor, end, _share(course, end)
    if this.phase == Phase.HEALTHY and not course.ended and this.start_time:
        end = End(result="completed", seconds=_since(this.start_time, now))
        return RolloutCourse(start=this.start_time, ended=True), end, _share(course, end)
    return (course if course.start else RolloutCourse(start=this.start_time or "")), None, 0.0


def _is_over(status: DaemonSetStatus | None, record: Rollout) -> bool:
    """Whether a former leader has counted the end of this rollout already. A complete rollout that is Degraded now
    was counted only if its target was every node; otherwise it was held."""
    if status is None or record.completion_time is None:
        return False
    everywhere = record.target == status.desired_number_scheduled
    return record.phase == Phase.HEALTHY or (record.phase == Phase.DEGRADED and everywhere)


def _replaced(last: Rollout, *, is_new: bool, now: float) -> End:
    if not is_new:
        return End(result="rolled_back", seconds=_since(last.start_time, now))
    if last.completion_time is not None:
        return End(result="completed", seconds=_since(last.start_time, epoch(last.completion_time) or now))
    return End(result="superseded", seconds=_since(last.start_time, now))


def _share(course: RolloutCourse, end: End | None) -> float:
    return 0.0 if end is None else min(course.rested, end.seconds)


def _since(stamp: str | None, now: float) -> float:
    began = epoch(stamp)
    return 0.0 if began is None else max(now - began, 0.0)
