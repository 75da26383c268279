"""How long is waited: after failures, between two passes, and between two writes of a status."""

from __future__ import annotations

import asyncio

import pytest

from controller.runtime.pacing import Backoff, PacedPass, PacedQueue, Pacer, StatusPacer
from tests.beds.stores import taken_from
from tests.beds.virtual_time import now, virtual_time_from


def test_delays_double_up_to_the_cap_and_start_again_after_reset() -> None:
    backoff = Backoff(0.8, 30.0)
    assert [backoff.next() for _ in range(7)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0]
    backoff.reset()
    assert backoff.next() == 0.8


@pytest.mark.parametrize(("chance", "delays"), [(0.0, [1, 2]), (0.5, [1.5, 3]), (1.0, [2, 4])])
def test_jitter_only_adds(chance: float, delays: list[float]) -> None:
    backoff = Backoff(1.0, 30.0, jitter=1.0, chance=lambda: chance)
    assert [backoff.next(), backoff.next()] == delays


@pytest.mark.parametrize(
    ("cost", "urgent", "lazy"),
    [(0.0, 0.0, 0.05), (0.0004, 0.0012, 0.05), (0.004, 0.012, 0.1), (0.015, 0.045, 0.375), (0.1, 0.3, 0.5)],
)
def test_a_pass_earns_a_rest_by_its_cost(cost: float, urgent: float, lazy: float) -> None:
    pacer: Pacer[str] = Pacer()
    pacer.passed("a", 1.0, 5.0)
    pacer.passed("a", cost, 10.0)  # only the last pass counts
    assert pacer.delay("a", "urgent", 10.0) == pytest.approx(urgent)
    assert pacer.delay("a", "lazy", 10.0) == pytest.approx(lazy)
    assert pacer.delay("a", "lazy", 10.01) == pytest.approx(max(lazy - 0.01, 0.05)), "from the end of the pass"
    pacer.began("a")
    assert pacer.delay("a", "lazy", 50.0) == pytest.approx(lazy), "during a pass, the whole rest"


def test_a_key_without_a_pass_waits_only_for_what_follows() -> None:
    pacer: Pacer[str] = Pacer()
    pacer.passed("another", 1.0, 5.0)
    pacer.passed("a", 1.0, 5.0)
    pacer.forget("a")
    assert (pacer.delay("a", "urgent", 5.0), pacer.delay("a", "lazy", 5.0)) == (0.0, 0.05)
    pacer.began("a")
    assert (pacer.delay("a", "urgent", 5.0), pacer.delay("a", "lazy", 5.0)) == (0.0, 0.05)


def status_writes(wanted_until: float, start: float = 0.0) -> list[float]:
    """When status is written if it differs all the time."""
    pacer = StatusPacer()
    moment, written = start, []
    while moment < wanted_until:
        written.append(round(moment, 3))
        assert len(written) < 100, "it never waits"
        pacer.wrote(moment)
        moment += pacer.delay(moment)
    return written


def test_status_writes_of_a_busy_object_move_apart() -> None:
    assert status_writes(13.0) == [0.0, 0.2, 0.8, 2.6, 5.6, 8.6, 11.6]


def test_a_quiet_object_or_an_urgent_status_is_written_at_once() -> None:
    pacer = StatusPacer()
    for moment in (0.0, 0.2, 0.8):
        assert pacer.delay(moment) == pytest.approx(0.0)
        pacer.wrote(moment)
    assert pacer.delay(0.8) == pytest.approx(1.8)
    assert pacer.delay(0.8, urgent=True) == 0.0
    assert pacer.delay(4.4) == 0.0
    pacer.wrote(4.4)
    assert pacer.delay(4.4) == pytest.approx(0.2), "quiet for twice the interval: the row starts again"


@virtual_time_from(1000.0)
async def test_a_pass_that_returns_its_key_early_is_over() -> None:
    pacer, delays = Pacer[str](), list[float]()

    def note_delay(_: str = "") -> None:
        delays.append(pacer.delay("a", "urgent", now()))

    pacer.passed("a", 2.0, now())
    with PacedPass(pacer, "a", note_delay) as paced:
        paced.end_deciding()
        paced.requeue("not answered yet")
    assert delays == [0.0], "it has cost nothing; the one before it does not count"
    with PacedPass(pacer, "a", note_delay) as paced:
        await asyncio.sleep(2)
        assert paced.end_deciding() == 2.0
        await asyncio.sleep(3)
        paced.requeue("not answered yet")
        await asyncio.sleep(4)
    note_delay()
    assert delays[1:] == [6.0, 2.0], "three times the seconds of deciding, from the early end on"
    with PacedPass(pacer, "a", note_delay):
        await asyncio.sleep(2.5)
        note_delay()
    note_delay()
    assert delays[3:] == [6.0, 7.5], "as before while it goes on; all of it was deciding"


@virtual_time_from(1000.0)
async def test_a_key_rests_in_the_queue_after_a_pass_that_cost_something() -> None:
    queue = PacedQueue[str]()
    queue.pacer.passed("a", 0.5, now())
    queue.enqueue("b", "urgent", "pod gone")
    queue.enqueue("a", "urgent", "pod gone")
    async with taken_from(queue) as taken:
        assert (now(), taken.key) == (1000.0, "b")
    async with taken_from(queue) as taken:
        assert (now(), taken.key, taken.reasons) == (1001.5, "a", ("pod gone",))
