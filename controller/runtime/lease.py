"""The rules of the Lease, as functions of values: who may lead, and what a candidate does next.

The clock of another holder is never trusted. What counts is how long *we* have seen the record unchanged, by our own
monotonic clock; the times inside the record are for people (`kubectl get lease`). client-go does the same.

The Lease on the API server.

The election must go on while everything else is throttled, and before anything may be written. So it has a client of
its own, which no fence and no throttle delays.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from datetime import UTC, datetime
from typing import Protocol, TypeAlias

import msgspec

from controller.api.objects import JSONObject, Key, ObjectMeta, Part, Value, View, as_json
from controller.api.patch import add, guarded_by_version
from controller.kube.client import Client, Events
from controller.kube.decode import Malformed, Seen
from controller.kube.errors import AlreadyExists, Conflict, NotFound, Unreadable
from controller.kube.requests import Refresh, Resource, Transport
from controller.kube.sender import Sender

RELEASED_SECONDS = 1
"""leaseDurationSeconds of a released Lease, as client-go writes it; the API does not allow 0."""


class LeadershipLost(Exception):
    """Raised when somebody else may be leading: stop at once, write nothing more."""


class LeaseSpec(Part, omit_defaults=True):
    """The spec of a Lease: all fields that an election reads and writes."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Value):
    """The record, and its resourceVersion, which guards the next write."""

    spec: LeaseSpec
    version: str


class Timing(Value):
    """The times of the election, in seconds. The defaults are client-go's. Two could lead at once unless `duration` >
    `renew_deadline` > `retry`."""

    duration: float = 15.0
    """For how long others leave an unchanged record alone."""
    renew_deadline: float = 10.0
    """For how long after its last renewal a leader may still write."""
    retry: float = 2.0
    """Time between two renewals and between two attempts; also the longest that one call may take."""

    @property
    def fence(self) -> float:
        """Seconds after the last renewal at which the watchdog ends a process that has not stopped by itself: after
        its own deadline, and before others take over."""
        return (self.renew_deadline + self.duration) / 2

    @property
    def missing(self) -> float:
        """Seconds for which candidates leave a missing record to its former holder, who creates it again."""
        return self.duration - self.renew_deadline


class Create(msgspec.Struct, frozen=True):
    """There is no record: create one, and lead by it later (`leads_from`)."""


class Take(msgspec.Struct, frozen=True):
    """Nobody holds the record, its holder counts as dead, or we hold it already: write ourselves into it."""


class Wait(msgspec.Struct, frozen=True):
    """Somebody holds the record, or held it until it was deleted, and counts as dead after `seconds` without a
    change."""

    seconds: float


LeaseMove: TypeAlias = Create | Take | Wait


def next_move(lease: Lease | None, observed_at: float, identity: str, now: float, timing: Timing) -> LeaseMove:
    """The next move of a candidate. `now` and `observed_at`, when the record was first seen as it is, are monotonic
    seconds of this process.
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
    """The time from which whoever has created a missing record leads, in monotonic seconds.

    A record may have been deleted a moment ago, without its holder knowing. That holder may write until its deadline;
    afterwards whoever is in the new record leads.
    """
    return made_at + timing.renew_deadline


def held(previous: LeaseSpec | None, identity: str, timing: Timing, wall: float) -> LeaseSpec:
    """The record by which `identity` holds the Lease, renewed at `wall` (seconds since 1970)."""
    now, before = micro_time(wall), previous or LeaseSpec()
    mine = before.holder_identity == identity
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=int(timing.duration),
        acquire_time=before.acquire_time if mine else now,
        renew_time=now,
        lease_transitions=(before.lease_transitions or 0) + (previous is not None and not mine),
    )


def released(previous: LeaseSpec, wall: float) -> LeaseSpec:
    """The record of a Lease that is given back: anybody may take it at once."""
    now = micro_time(wall)
    return LeaseSpec(
        holder_identity="",
        lease_duration_seconds=RELEASED_SECONDS,
        acquire_time=now,
        renew_time=now,
        lease_transitions=previous.lease_transitions,
    )


def micro_time(wall: float) -> str:
    """`wall` (seconds since 1970) in the form of metav1.MicroTime: UTC, six digits."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


CALL_SECONDS = 2.0
"""Seconds for one call, with all that it waits for."""


class LeaseAPI(Protocol):
    """One Lease. Every method raises `ApiError` or `OSError` for any answer of the server that is not described
    here."""

    async def get_lease(self) -> Lease | None:
        """The Lease as it is; None if it does not exist."""
        ...

    async def create_lease(self, spec: LeaseSpec) -> Lease | None:
        """The Lease that was created; None if it exists already."""
        ...

    async def update_lease(self, spec: LeaseSpec, version: str) -> Lease | None:
        """The Lease as it was written; None if it is not at `version` any more, or gone."""
        ...

    def watch_lease(self, version: str) -> AbstractAsyncContextManager[AsyncIterator[Lease | None]]:
        """Every change after `version`, None for a deletion. Ends when the server ends the watch."""
        ...


class LeaseView(View):
    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


LEASES: Resource[LeaseView, Lease] = Resource(
    group="coordination.k8s.io",
    plural="leases",
    wire=LeaseView,
    project=lambda view: Lease(spec=view.spec, version=view.metadata.resource_version),
)


class ServerLease:
    """`LeaseAPI` over a transport."""

    def __init__(self, transport: Transport, namespace: str, name: str, *, refresh: Refresh | None = None) -> None:
        self._client = Client(Sender(transport, refresh=refresh, call_seconds=CALL_SECONDS))
        self._key = Key(namespace, name)

    async def get_lease(self) -> Lease | None:
        try:
            return await self._client.get(LEASES, self._key)
        except NotFound:
            return None

    async def create_lease(self, spec: LeaseSpec) -> Lease | None:
        namespace, name = self._key.namespace, self._key.name
        body: JSONObject = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
            "spec": as_json(spec),
        }
        try:
            written = await self._client.create(LEASES, namespace, body, name=name)
        except AlreadyExists:
            return None
        return Lease(spec=spec, version=written.version)

    async def update_lease(self, spec: LeaseSpec, version: str) -> Lease | None:
        patch = guarded_by_version(version, add(as_json(spec), "spec"))
        try:
            written = await self._client.patch(LEASES, self._key, patch)
        except (Conflict, NotFound):
            return None
        return Lease(spec=spec, version=written.version)

    @asynccontextmanager
    async def watch_lease(self, version: str) -> AsyncIterator[AsyncIterator[Lease | None]]:
        query = (
            ("fieldSelector", f"metadata.name={self._key.name}"),
            ("resourceVersion", version),
            ("timeoutSeconds", "300"),  # five minutes: a connection must not outlive a rotated certificate by much
        )
        async with (
            self._client.watch(LEASES, self._key.namespace, query=query) as bunches,
            aclosing(_changes(bunches)) as changes,
        ):
            yield changes


async def _changes(bunches: AsyncIterator[Events[Lease]]) -> AsyncGenerator[Lease | None, None]:
    async for events in bunches:
        for event in events:
            if isinstance(event, Malformed):
                raise Unreadable("watch", LEASES.describe(event.key), event.reason)
            if isinstance(event, Seen):
                yield event.obj
