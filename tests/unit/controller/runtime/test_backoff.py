"""Delays that double, and what makes them begin again."""

from __future__ import annotations

import pytest

from controller.runtime.backoff import SWEEP_EVERY, Backoff, BackoffTable, failed_pod_backoff


def test_delays_double_up_to_the_cap_and_start_again_after_reset() -> None:
    backoff = Backoff(0.8, 30.0)
    assert [backoff.next() for _ in range(7)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0]
    backoff.reset()
    assert backoff.next() == 0.8


@pytest.mark.parametrize(("chance", "delays"), [(0.0, [1, 2]), (0.5, [1.5, 3]), (1.0, [2, 4])])
def test_jitter_only_adds(chance: float, delays: list[float]) -> None:
    backoff = Backoff(1.0, 30.0, jitter=1.0, chance=lambda: chance)
    assert [backoff.next(), backoff.next()] == delays


def test_a_key_waits_five_milliseconds_doubling_to_a_thousand_seconds() -> None:
    table: BackoffTable[str] = BackoffTable()
    delays = [table.strike("a", 0.0) for _ in range(20)]
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[-1] == 1000.0
    assert table.strike("b", 0.0) == 0.005, "keys do not share their failures"
    table.forget("a")
    assert table.strike("a", 0.0) == 0.005


def test_a_call_within_the_delay_does_not_raise_it() -> None:
    table = failed_pod_backoff()
    key = ("uid-1", 1, "node-a")
    assert table.remaining(key, 100.0) == 0.0, "the first Failed pod goes at once"
    assert table.strike(key, 100.0) == 1.0
    assert [table.remaining(key, at) for at in (100.0, 100.25, 100.5)] == [1.0, 0.75, 0.5]
    assert table.remaining(key, 101.0) == 0.0
    assert table.strike(key, 101.0) == 2.0
    assert table.remaining(("uid-1", 2, "node-a"), 101.0) == 0.0, "a new generation is a new try"
    assert table.remaining(("uid-1", 1, "node-b"), 101.0) == 0.0


def test_failed_pods_wait_up_to_15_minutes_and_30_quiet_ones_forget() -> None:
    table = failed_pod_backoff()
    key = ("uid-1", 1, "node-a")
    moment = 0.0
    for _ in range(12):
        moment += table.strike(key, moment)
    assert table.strike(key, moment) == 900.0
    assert table.strike(key, moment + 1800.0) == 900.0, "quiet for exactly 30 min is not yet forgotten"
    assert table.strike(key, moment + 3600.1) == 1.0


def test_quiet_keys_leave_the_table_by_themselves() -> None:
    table: BackoffTable[int] = BackoffTable(quiet=10.0)
    for key in range(SWEEP_EVERY - 1):
        table.strike(key, 0.0)
    assert len(table) == SWEEP_EVERY - 1
    table.strike(-1, 20.0)
    assert len(table) == 1
