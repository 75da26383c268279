"""Who may act: the rules of the Lease, as functions of values.

Another holder's clock is never trusted. What counts is how long *we* have seen the record unchanged, on our own
monotonic clock; the times inside the record are for people (`kubectl get lease`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeAlias

import msgspec

from controller.api.base import Part, Value

RELEASED_SECONDS = 1


class LeadershipLost(Exception):
    """Somebody else may be leading: stop at once, write nothing more."""


class LeaseSpec(Part, omit_defaults=True):
    """The election record. No view: these are all the fields of an elected Lease, read and written."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Value):
    """The record and the version that guards the next write to it."""

    spec: LeaseSpec
    version: str


class Timing(Value):
    """Seconds. The defaults are client-go's; `duration` > `renew_deadline` > `retry` or nothing is safe."""

    duration: float = 15.0
    """How long others leave an unchanged record alone."""
    renew_deadline: float = 10.0
    """How long after its last renewal a leader may still write."""
    retry: float = 2.0
    """Between renewals, between attempts, and the most that one call may take."""

    @property
    def fence(self) -> float:
        """When the process of a leader that has not stopped by itself is ended: after its deadline, before others
        take over."""
        return (self.renew_deadline + self.duration) / 2

    @property
    def missing(self) -> float:
        """How long a missing record is left to its former holder, who creates it again at the next renewal."""
        return self.duration - self.renew_deadline


class Create(msgspec.Struct, frozen=True):
    """There is no record, and nobody has created it again: create one, and lead by it later (`leads_from`)."""


class Take(msgspec.Struct, frozen=True):
    """Nobody holds it, its holder is dead, or it is ours already: write ourselves into it."""


class Wait(msgspec.Struct, frozen=True):
    """Somebody holds it, or held it until it was deleted. In `seconds`, if nothing changes, they count as dead."""

    seconds: float


LeaseMove: TypeAlias = Create | Take | Wait


def next_move(lease: Lease | None, observed_at: float, identity: str, now: float, timing: Timing) -> LeaseMove:
    """What a candidate does next. `observed_at` and `now` are monotonic seconds of this process;
    `observed_at` is when the record was first seen as it is.
    """
    if lease is None:
        left = observed_at + timing.missing - now
        return Wait(left) if left > 0 else Create()
    spec = lease.spec
    if not spec.holder_identity or spec.holder_identity == identity:
        return Take()
    duration = timing.duration if spec.lease_duration_seconds is None else spec.lease_duration_seconds
    left = observed_at + duration - now
    return Wait(left) if left > 0 else Take()


def leads_from(made_at: float, timing: Timing) -> float:
    """From when on somebody leads who has created a record where there was none.

    Nothing tells whether one was deleted a moment ago, whose holder does not know it. They may write until their
    deadline; from then on all that counts is that the new record is still there.
    """
    return made_at + timing.renew_deadline


def held(previous: LeaseSpec | None, identity: str, timing: Timing, wall: float) -> LeaseSpec:
    """The record that says: `identity` holds it and renewed at `wall` (epoch seconds)."""
    now = micro_time(wall)
    mine = previous is not None and previous.holder_identity == identity
    transitions = (previous.lease_transitions or 0) if previous is not None else 0
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=int(timing.duration),
        acquire_time=previous.acquire_time if mine and previous is not None else now,
        renew_time=now,
        lease_transitions=transitions if mine or previous is None else transitions + 1,
    )


def released(previous: LeaseSpec, wall: float) -> LeaseSpec:
    """The record that says: nobody holds it; take it at once."""
    now = micro_time(wall)
    return LeaseSpec(
        holder_identity="",
        lease_duration_seconds=RELEASED_SECONDS,
        acquire_time=now,
        renew_time=now,
        lease_transitions=previous.lease_transitions,
    )


def micro_time(wall: float) -> str:
    """`wall` (epoch seconds) the way metav1.MicroTime is written: UTC, six digits."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
