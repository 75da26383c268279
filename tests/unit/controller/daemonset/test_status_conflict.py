"""How long a DaemonSet is left to another controller that writes its status."""

from __future__ import annotations

from controller.daemonset.status_conflict import StatusConflict, conflict_after, conflict_found


def test_the_first_write_is_answered_by_standing_back_for_a_minute() -> None:
    assert conflict_after(None, 1000.0) == StatusConflict(until=1060.0, pause=60.0)


def test_each_write_while_we_stand_back_begins_the_minute_anew() -> None:
    assert conflict_after(StatusConflict(until=1060.0, pause=60.0), 1030.0) == StatusConflict(
        until=1090.0, pause=60.0
    )


def test_who_writes_whenever_we_act_is_left_alone_for_twice_as_long_each_time_up_to_15_minutes() -> None:
    status_conflict, pauses = None, []
    now = 0.0
    for _ in range(7):
        status_conflict = conflict_after(status_conflict, now)
        pauses.append(status_conflict.until - now)
        now = status_conflict.until + 1
    assert pauses == [60.0, 120.0, 240.0, 480.0, 900.0, 900.0, 900.0]


def test_after_as_long_in_peace_as_we_stood_back_it_begins_from_the_start() -> None:
    before = StatusConflict(until=1240.0, pause=240.0)
    assert conflict_after(before, 1480.0).pause == 480.0
    assert conflict_after(before, 1480.1).pause == 60.0


def test_a_process_that_has_just_begun_waits_for_the_rest_of_the_minute() -> None:
    assert conflict_found(ago=20.0, now=1020.0) == StatusConflict(until=1060.0, pause=60.0)


def test_a_write_of_more_than_a_minute_ago_is_taken_over_at_once() -> None:
    assert conflict_found(ago=60.0, now=1060.0) is None


def test_where_the_servers_clock_is_ahead_it_is_a_minute_all_the_same() -> None:
    assert conflict_found(ago=-4000.0, now=1000.0) == StatusConflict(until=1060.0, pause=60.0)
