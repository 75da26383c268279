"""The record of a rollout: what counts as progress, when it is late, and that it never moves by itself."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus, Phase, Rollout
from controller.api.meta import rfc3339
from controller.planner.phase import Standing
from controller.planner.progress import advance, halted
from tests.beds.worlds import NOW

DEADLINE = 600.0
GOING = Standing(desired=5, target=5, updated=2, done=1, available=4, outdated=3)


class Story:
    """One record, advanced pass by pass; the clock moves only when told."""

    def __init__(self, standing: Standing = GOING, before: DaemonSetStatus | None = None) -> None:
        self.now, self.standing, self.status = NOW, standing, before
        self.hash = "v2"

    def after(self, seconds: float = 0.0, **changes: Any) -> Rollout:
        """Time passes, then the standing changes and a pass looks at it."""
        self.now += seconds
        self.standing = replace(self.standing, **changes)
        record = advance(self.status, self.standing, revision_hash=self.hash, deadline=DEADLINE, now=self.now)
        self.status = DaemonSetStatus(update_revision=self.hash, rollout=record)
        return record

    def moves(self, seconds: float, **changes: Any) -> bool:
        """Whether that counts as progress."""
        return self.after(seconds, **changes).last_progress_time == rfc3339(self.now)


def test_a_rollout_starts_with_its_revision() -> None:
    story = Story()
    assert story.after() == Rollout(
        phase="Progressing",
        last_transition_time=rfc3339(NOW),
        start_time=rfc3339(NOW),
        last_progress_time=rfc3339(NOW),
        target=5,
        done=1,
        most_done=1,
        most_updated=2,
    )
    story.after(10, updated=5, done=5, available=5, outdated=0)
    story.hash = "v3"
    begun = story.after(100, updated=0, done=0, outdated=5)
    assert begun.start_time == begun.last_progress_time == rfc3339(NOW + 110)
    assert (begun.most_done, begun.most_updated, begun.completion_time) == (0, 0, None)


def test_time_alone_changes_nothing() -> None:
    story = Story()
    first = story.after()
    assert story.after(599) == first
    late = story.after(1)
    assert late.phase == Phase.STALLED
    assert story.after(86400) == late


@pytest.mark.parametrize("changes", [{"done": 2}, {"updated": 3}, {"target": 4}, {"target": 6}])
def test_this_is_progress(changes: dict[str, int]) -> None:
    story = Story()
    story.after()
    assert story.moves(300, **changes)
    assert story.after(599).phase == Phase.PROGRESSING
    assert story.after(1).phase == Phase.STALLED


@pytest.mark.parametrize("changes", [{"available": 5}, {"done": 0}, {"updated": 1}, {"outdated": 2}, {"kept": 1}])
def test_this_is_none(changes: dict[str, int]) -> None:
    story = Story()
    story.after()
    assert not story.moves(300, **changes)


def test_a_pod_that_gets_ready_again_and_again_is_no_progress() -> None:
    story = Story()
    story.after()
    assert story.moves(100, done=2)
    for _ in range(3):
        assert not story.moves(50, done=1)
        assert not story.moves(50, done=2)
    assert story.after(300).phase == Phase.STALLED


def test_a_pod_that_is_made_again_and_again_is_no_progress() -> None:
    story = Story()
    story.after()
    assert not story.moves(300, updated=1)
    assert not story.moves(10, updated=2)


def test_a_stalled_rollout_that_gets_on_is_progressing_again() -> None:
    story = Story()
    story.after()
    assert story.after(600).phase == Phase.STALLED
    again = story.after(1000, done=2)
    assert (again.phase, again.last_transition_time) == (Phase.PROGRESSING, rfc3339(NOW + 1600))


@pytest.mark.parametrize(
    ("there", "back"),
    [
        ({"paused": True}, {"paused": False}),
        ({"on_delete": True}, {"on_delete": False}),
        ({"observed": False}, {"observed": True}),
    ],
)
def test_the_clock_stands_in_any_other_phase(there: dict[str, bool], back: dict[str, bool]) -> None:
    story = Story()
    story.after()
    story.after(599, **there)
    story.after(86400)
    assert story.moves(1, **back)
    assert story.after(599).phase == Phase.PROGRESSING


def test_after_a_refusal_that_is_taken_back_the_clock_starts_anew() -> None:
    story = Story()
    story.after()
    refused = story.after(10, refused="no such field")
    assert (refused.phase, refused.last_progress_time) == (Phase.STALLED, rfc3339(NOW))
    assert story.after(86400) == refused
    assert story.moves(1, refused="")
    assert story.after(599).phase == Phase.PROGRESSING


def test_a_refusal_that_follows_a_long_pause_does_not_make_it_late() -> None:
    story = Story()
    story.after(paused=True)
    story.after(86400, paused=False, refused="no such field")
    assert story.after(86400, refused="").phase == Phase.PROGRESSING


def test_an_unusable_spec_stalls_and_keeps_the_rest() -> None:
    story = Story()
    first = story.after()
    stopped = halted(story.status, NOW + 10)
    assert stopped == replace(first, phase="Stalled", last_transition_time=rfc3339(NOW + 10))
    assert halted(DaemonSetStatus(rollout=stopped), NOW + 99) == stopped
    assert halted(None, NOW).phase == Phase.STALLED


def test_a_spec_unusable_after_a_long_pause_is_not_late_once_mended() -> None:
    story = Story()
    story.after(paused=True)
    story.now += 86400
    story.status = DaemonSetStatus(update_revision="v2", rollout=halted(story.status, story.now))
    assert story.after(86400, paused=False).phase == Phase.PROGRESSING


def test_completion_is_the_first_time_that_all_are_available() -> None:
    story = Story()
    story.after()
    assert story.after(10, outdated=0, updated=5).completion_time is None
    complete = story.after(10, done=5, available=5)
    assert (complete.phase, complete.completion_time) == (Phase.HEALTHY, rfc3339(NOW + 20))
    worse = story.after(10, done=4, available=4)
    assert (worse.phase, worse.completion_time) == (Phase.DEGRADED, rfc3339(NOW + 20))
    assert story.after(86400).phase == Phase.DEGRADED, "the deadline is for rollouts"


def test_a_lower_partition_takes_the_completion_back_and_starts_the_clock() -> None:
    story = Story(Standing(desired=5, target=2, updated=2, done=2, available=5, kept=3))
    assert story.after().phase == Phase.HELD
    on = story.after(86400, target=4, outdated=2, kept=1)
    assert (on.phase, on.completion_time, on.start_time) == (Phase.PROGRESSING, None, rfc3339(NOW))
    assert on.last_progress_time == rfc3339(NOW + 86400)


def test_the_phase_remembers_since_when_across_revisions() -> None:
    story = Story(replace(GOING, paused=True))
    story.after()
    story.hash = "v3"
    assert story.after(50).last_transition_time == rfc3339(NOW)


def test_a_status_of_an_older_controller_begins_a_record() -> None:
    known = DaemonSetStatus(update_revision="v2", observed_generation=1)
    done = Standing(desired=5, target=5, updated=5, done=5, available=5)
    record = Story(done, known).after()
    assert (record.phase, record.start_time, record.completion_time) == ("Healthy", rfc3339(NOW), rfc3339(NOW))
