"""How long a DaemonSet is left to another controller that writes its status."""

from __future__ import annotations

from controller.daemonset.rivalry import Rivalry, rivalry_after, rivalry_found


def test_the_first_write_is_answered_by_standing_back_for_a_minute() -> None:
    assert rivalry_after(None, 1000.0) == Rivalry(until=1060.0, pause=60.0)


def test_each_write_while_we_stand_back_begins_the_minute_anew() -> None:
    assert rivalry_after(Rivalry(until=1060.0, pause=60.0), 1030.0) == Rivalry(until=1090.0, pause=60.0)


def test_who_writes_whenever_we_act_is_left_alone_for_twice_as_long_each_time_up_to_15_minutes() -> None:
    rivalry, pauses = None, []
    now = 0.0
    for _ in range(7):
        rivalry = rivalry_after(rivalry, now)
        pauses.append(rivalry.until - now)
        now = rivalry.until + 1
    assert pauses == [60.0, 120.0, 240.0, 480.0, 900.0, 900.0, 900.0]


def test_after_as_long_in_peace_as_we_stood_back_it_begins_from_the_start() -> None:
    before = Rivalry(until=1240.0, pause=240.0)
    assert rivalry_after(before, 1480.0).pause == 480.0
    assert rivalry_after(before, 1480.1).pause == 60.0


def test_a_process_that_has_just_begun_waits_for_the_rest_of_the_minute() -> None:
    assert rivalry_found(ago=20.0, now=1020.0) == Rivalry(until=1060.0, pause=60.0)


def test_a_write_of_more_than_a_minute_ago_is_taken_over_at_once() -> None:
    assert rivalry_found(ago=60.0, now=1060.0) is None


def test_where_the_servers_clock_is_ahead_it_is_a_minute_all_the_same() -> None:
    assert rivalry_found(ago=-4000.0, now=1000.0) == Rivalry(until=1060.0, pause=60.0)
