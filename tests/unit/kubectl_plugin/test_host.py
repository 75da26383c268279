"""The clock, put right by what the server says."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from kubectl_plugin.host import ServerClock

NOW = 1_763_640_250.4


class Local:
    """A machine whose clock was `off` by so many seconds at first; it counts none while it is `asleep`."""

    def __init__(self, off: float) -> None:
        self.off, self.true, self.asleep = off, NOW, 0.0

    def ticks(self) -> float:
        return self.true - NOW - self.asleep

    def clock(self) -> ServerClock:
        return ServerClock(self.ticks, NOW + self.off)


def heard(clock: ServerClock, local: Local, took: float = 0.0) -> None:
    """One exchange that took so long; the server answers at its very end."""
    asked = clock.local()
    local.true += took
    clock.learn(formatdate(local.true, usegmt=True), asked)


@pytest.mark.parametrize("off", [0.0, 0.3, -0.3])
def test_whole_seconds_do_not_speak_against_a_clock_that_is_right(off: float) -> None:
    local = Local(off)
    clock = local.clock()
    heard(clock, local)
    assert clock.now() == NOW + off


@pytest.mark.parametrize("off", [720.0, -720.0, 86_400.0])
def test_a_wrong_one_is_put_right_to_a_second(off: float) -> None:
    local = Local(off)
    clock = local.clock()
    heard(clock, local)
    assert clock.now() == pytest.approx(local.true, abs=1.0)


def test_an_answer_that_takes_long_says_little_and_does_no_harm() -> None:
    local = Local(720.0)
    clock = local.clock()
    heard(clock, local)
    heard(clock, local, took=30.0)
    assert clock.now() == pytest.approx(local.true, abs=1.0)


def test_a_machine_that_slept_is_put_right_again() -> None:
    local = Local(0.0)
    clock = local.clock()
    heard(clock, local)
    local.true, local.asleep = NOW + 3600.0, 3600.0
    heard(clock, local)
    assert clock.now() == pytest.approx(local.true, abs=1.0)


@pytest.mark.parametrize("date", ["", "yesterday", "Mon, 99 Foo 2026"])
def test_who_says_no_time_is_not_heard(date: str) -> None:
    clock = ServerClock(lambda: 0.0, NOW)
    clock.learn(date, NOW)
    assert clock.now() == NOW
