"""What of a status is written: only the difference, conditions of others left alone, urgent where a user waits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.api.objects import JSONObject
from controller.planner.plan import plan
from controller.planner.status import Status, refused_status
from controller.reconcile.backoff import LONGEST_DELAY
from controller.reconcile.status_writer import (
    DueStatus,
    OtherController,
    OwnStatus,
    StatusBackoff,
    due_status,
)
from tests.beds.worlds import NOW, OURS, ds, everywhere, world

THEIRS: JSONObject = {"type": "example.com/Checked", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}


def status_of(*, ready: int = 5) -> Status:
    pods = [*everywhere(5)[:ready], *everywhere(5, ready=None)[ready:]]
    status = plan(world(pods=pods)).status
    assert status is not None
    return status


def shown(status: Status, *more: JSONObject) -> DaemonSet:
    """The DaemonSet with that status, and with conditions that others have added."""
    result = changed(ds(), status).result
    return replace(ds(), status=replace(result, conditions=(*more, *(result.conditions or ()))))


def changed(before: DaemonSet, wanted: Status, now: float = NOW) -> DueStatus:
    change = due_status(before, wanted, (before.version, before.status), now)
    assert change is not None
    return change


def conditions(status: DaemonSetStatus) -> dict[object, JSONObject]:
    return {one["type"]: one for one in status.conditions or ()}


def test_nothing_is_written_that_is_there_already() -> None:
    there = shown(status_of(), THEIRS)
    assert due_status(there, status_of(), (there.version, there.status), NOW + 60) is None


def test_only_what_differs_is_written_and_conditions_of_others_stay() -> None:
    status = status_of()
    assert status.counts is not None
    other = replace(status, counts=replace(status.counts, number_ready=3))
    guard, *operations = changed(shown(status), other).patch
    assert operations == [{"op": "add", "path": "/status/numberReady", "value": 3}]
    assert guard == changed(ds(), status).patch[0] == {"op": "replace", "path": "/metadata/uid", "value": OURS}
    after = changed(shown(status, THEIRS), status_of(ready=3)).result
    assert after.conditions is not None
    assert after.conditions[0] == THEIRS
    (first,) = changed(ds(), status).patch[1:]
    fields = msgspec.convert(first["value"], dict[str, Any])
    assert fields["numberMisscheduled"] == 0, "kubectl shows it"
    assert None not in fields["rollout"].values(), "the schema allows none"
    gone: JSONObject = {**THEIRS, "type": "HookUnmatched"}
    assert gone not in (changed(shown(status, gone), status).result.conditions or ())


@pytest.mark.parametrize(("cached", "guard"), [("10", "12"), ("12", "12"), ("15", "15")])
def test_conditions_are_guarded_by_the_newest_version_known(cached: str, guard: str) -> None:
    """Others write theirs, and a patch replaces the whole list: what was added since would be lost."""
    there, own, (first, *others) = shown(status_of()), OwnStatus[DaemonSetStatus](), status_of().conditions
    assert there.status is not None
    own.wrote(there.status, "12", NOW)
    before = replace(there, version=cached)
    other = replace(status_of(), conditions=(replace(first, message="told anew"), *others))
    change = due_status(before, other, own.latest(before.version, before.status), NOW)
    assert change is not None
    assert change.patch[0] == {"op": "replace", "path": "/metadata/resourceVersion", "value": guard}


def test_the_time_of_a_condition_moves_when_it_turns_and_only_then() -> None:
    before = shown(status_of())
    after = conditions(changed(before, status_of(ready=3), NOW + 60).result)
    old = conditions(before.status or DaemonSetStatus())
    moved = {kind for kind, one in after.items() if one["lastTransitionTime"] != old[kind]["lastTransitionTime"]}
    turned = {kind for kind, one in after.items() if one["status"] != old[kind]["status"]}
    assert moved == turned
    assert "Available" in turned


def test_a_refused_spec_says_nothing_about_pods_and_leaves_what_was_said() -> None:
    before = shown(status_of())
    after = changed(before, refused_status(before, "spec.selector: must not be empty", NOW)).result
    assert conditions(after)["Available"] == conditions(before.status or DaemonSetStatus())["Available"]
    assert after.number_ready == 5


@pytest.mark.parametrize(
    ("before", "after", "urgent"),
    [(5, 3, False), (3, 2, False), (3, 5, True)],
    ids=["pods that are lost are only counted", "one more", "everything is in its place"],
)
def test_good_news_is_not_kept_waiting(before: int, after: int, urgent: bool) -> None:
    known = shown(status_of(ready=before))
    assert known.status is not None
    wanted = status_of(ready=after)
    same = replace(wanted, conditions=status_of(ready=before).conditions, rollout=known.status.rollout)
    assert changed(known, same).urgent is urgent


def test_what_a_user_waits_for_is_urgent() -> None:
    status = status_of(ready=3)
    assert changed(ds(), status).urgent, "the first status"
    assert status.observed_generation is not None
    assert changed(shown(status), replace(status, observed_generation=status.observed_generation + 1)).urgent
    assert changed(shown(status), replace(status, revision_hash="v2")).urgent
    for record in ({"step": 2}, {"aborted_revision": "v2"}):
        assert changed(shown(status), replace(status, rollout=replace(status.rollout, **record))).urgent
    progressing, *others = status.conditions
    turned = replace(progressing, reason="ProgressDeadlineExceeded")
    assert changed(shown(status), replace(status, conditions=(turned, *others))).urgent
    with_pods = [replace(one, reason="Another") if one.type == "Available" else one for one in status.conditions]
    assert not changed(shown(status), replace(status, conditions=tuple(with_pods))).urgent
    told_anew = replace(progressing, message="4 of 5")
    assert not changed(shown(status), replace(status, conditions=(told_anew, *others))).urgent


def test_each_time_another_writes_we_wait_twice_as_long_up_to_15_minutes() -> None:
    other, pauses, now = OtherController(), [], 1000.0
    for _ in range(7):
        other.wrote(now)
        pauses.append(other.until - now)
        now = other.until + 1
    assert pauses == [60.0, 120.0, 240.0, 480.0, 900.0, 900.0, 900.0]


@pytest.mark.parametrize(
    ("moment", "pause"),
    [
        pytest.param(1030.0, 240.0, id="within the pause"),
        pytest.param(1480.0, 480.0, id="soon after it"),
        pytest.param(1480.1, 60.0, id="after as long in peace"),
    ],
)
def test_a_pause_begins_again_with_each_write_of_another(moment: float, pause: float) -> None:
    other = OtherController(until=1240.0, pause=240.0)
    other.wrote(moment)
    assert (other.until, other.pause) == (moment + pause, pause)


def test_a_status_that_is_taken_back_waits_ever_longer_and_at_most_so_long() -> None:
    repeated, moment, waits, too_often = StatusBackoff(), 0.0, list[float](), list[bool]()
    for _ in range(2000):
        too_often.append(repeated.wrote(status_of(), moment))
        waits.append(repeated.delay(status_of(), moment))
        moment += waits[-1]
    assert waits[:5] == [0.0, 1.0, 2.0, 4.0, 8.0]
    assert too_often[:4] == [False, False, True, True], "a person may have edited it once"
    assert waits[-1] == LONGEST_DELAY
    assert repeated.delay(status_of(ready=3), moment) == 0.0, "another status is written at once"
    for _ in range(3):
        repeated.refused(moment)
        assert repeated.delay(status_of(ready=3), moment) == 1.0
        repeated.wrote(status_of(ready=3), moment)
