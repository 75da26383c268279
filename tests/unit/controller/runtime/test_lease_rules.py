"""The rules of the Lease, as tables."""

from __future__ import annotations

import pytest

from controller.runtime.lease_rules import (
    Create,
    Lease,
    LeaseMove,
    LeaseSpec,
    Take,
    Timing,
    Wait,
    held,
    micro_time,
    next_move,
    released,
)

TIMING = Timing()
WALL = 1795255200.25


def lease(holder: str | None, seconds: int | None = 15) -> Lease:
    return Lease(spec=LeaseSpec(holder_identity=holder, lease_duration_seconds=seconds), version="7")


@pytest.mark.parametrize(
    ("seen", "now", "move"),
    [
        (None, 100.0, Wait(5.0)),
        (None, 105.0, Create()),
        (lease("other"), 100.0, Wait(15.0)),
        (lease("other"), 114.0, Wait(1.0)),
        (lease("other"), 115.0, Take()),
        (lease("other", 40), 115.0, Wait(25.0)),
        (lease("other", None), 114.0, Wait(1.0)),
        (lease("", 1), 100.0, Take()),
        (lease(None), 100.0, Take()),
        (lease("me"), 100.0, Take()),
    ],
)
def test_what_a_candidate_does(seen: Lease | None, now: float, move: LeaseMove) -> None:
    assert next_move(seen, 100.0, "me", now, TIMING) == move


def test_taking_over_counts_a_transition_and_starts_a_new_reign() -> None:
    other = LeaseSpec(
        holder_identity="other",
        lease_duration_seconds=15,
        acquire_time="2026-01-01T00:00:00.000000Z",
        renew_time="2099-01-01T00:00:00.000000Z",
        lease_transitions=4,
    )
    mine = held(other, "me", TIMING, WALL)
    assert mine == LeaseSpec(
        holder_identity="me",
        lease_duration_seconds=15,
        acquire_time=micro_time(WALL),
        renew_time=micro_time(WALL),
        lease_transitions=5,
    )
    renewed = held(mine, "me", TIMING, WALL + 2)
    assert renewed.acquire_time == micro_time(WALL)
    assert renewed.renew_time == micro_time(WALL + 2)
    assert renewed.lease_transitions == 5


def test_the_first_reign_has_no_transition() -> None:
    assert held(None, "me", TIMING, WALL).lease_transitions == 0


def test_released_keeps_the_count_and_lasts_a_second() -> None:
    spec = released(held(None, "me", TIMING, WALL), WALL + 2)
    assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("", 1, 0)


def test_the_fence_stands_between_our_deadline_and_the_next_holder() -> None:
    assert TIMING.renew_deadline < TIMING.fence < TIMING.duration
