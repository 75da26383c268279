"""How a rollout ended, how long it took, and that it is told once."""

from __future__ import annotations

import pytest

from controller.api.daemonset import DaemonSetStatus, Rollout
from controller.api.meta import rfc3339
from controller.telemetry.rollout_end import RolloutCourse, follow


def status(
    revision: str, phase: str, start: float, *, since: float = 0.0, completed: float | None = None, target: int = 3
) -> DaemonSetStatus:
    """Of three nodes."""
    return DaemonSetStatus(
        desired_number_scheduled=3,
        update_revision=revision,
        rollout=Rollout(
            phase=phase,
            target=target,
            start_time=rfc3339(start),
            last_transition_time=rfc3339(since or start),
            completion_time=None if completed is None else rfc3339(completed),
        ),
    )


HEALTHY = status("b", "Healthy", 100, completed=160)
AGAIN = status("a", "Progressing", 500)


@pytest.mark.parametrize(
    ("before", "after", "is_new", "told"),
    [
        (None, status("b", "Progressing", 100), True, None),
        (None, HEALTHY, True, ("completed", 400)),
        (status("b", "Progressing", 100), HEALTHY, True, ("completed", 400)),
        (status("b", "Progressing", 100), AGAIN, True, ("superseded", 400)),
        (status("b", "Progressing", 100), AGAIN, False, ("rolled_back", 400)),
        (status("b", "Held", 100, completed=160), AGAIN, True, ("completed", 60)),
        (status("b", "Held", 100, completed=160), AGAIN, False, ("rolled_back", 400)),
        (status("b", "Progressing", 100), status("b", "Held", 100, completed=160), True, None),
        (HEALTHY, AGAIN, False, None),
        (status("b", "Degraded", 100, completed=160), HEALTHY, True, None),
        (status("b", "Degraded", 100, completed=160, target=1), HEALTHY, True, ("completed", 400)),
    ],
    ids=[
        "begun",
        "healthy at the first look",
        "healthy",
        "replaced",
        "back",
        "held then replaced",
        "held then back",
        "held",
        "over",
        "well again",
        "ill while held by a partition, under another leader",
    ],
)
def test_how_a_rollout_ends(
    before: DaemonSetStatus | None, after: DaemonSetStatus, is_new: bool, told: tuple[str, float] | None
) -> None:
    _, end, _ = follow(RolloutCourse(), before, after, is_new=is_new, now=500)
    assert (end and (end.result, end.seconds)) == told


def test_rest_counts_and_each_end_is_told_once() -> None:
    steps = [
        (status("b", "Progressing", 100), 100.0),
        (status("b", "Paused", 100, since=200), 200.0),
        (status("b", "Progressing", 100, since=260), 260.0),
        (status("b", "Held", 100, since=300, completed=300), 300.0),
        (status("b", "Progressing", 100, since=340), 340.0),
        (status("b", "Healthy", 100, since=400, completed=400), 400.0),
        (status("b", "Degraded", 100, since=450, completed=400), 450.0),
        (status("b", "Healthy", 100, since=460, completed=400), 460.0),
    ]
    course, before, told = RolloutCourse(), None, []
    for after, now in steps:
        course, end, rest = follow(course, before, after, is_new=True, now=now)
        before = after
        if end is not None:
            told.append((end.result, end.seconds, rest))
    assert told == [("completed", 300, 100)]


def test_a_pause_is_counted_once_when_it_ends_and_told_with_the_end() -> None:
    paused, course, rests = status("b", "Paused", 100, since=200), RolloutCourse(), []
    for after, now in ((paused, 250.0), (paused, 280.0), (status("b", "Progressing", 100, since=300), 300.0)):
        course, end, rest = follow(course, paused, after, is_new=False, now=now)
        rests.append(rest)
        assert end is None
    course, end, rest = follow(course, status("b", "Progressing", 100), HEALTHY, is_new=False, now=400.0)
    assert end is not None
    assert ([*rests, rest], end.seconds) == ([0.0, 0.0, 0.0, 100.0], 300.0)
