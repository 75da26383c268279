"""The Lease of a leader election: its record, how it changes hands, and its requests. As in client-go, the clock of
another holder is never trusted: a record expires by how long this process has seen it unchanged, by its own monotonic
clock; the times in the record are informational."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime

from controller.api.objects import JSONObject, Key, ObjectMeta, Part, Value, View, as_json
from controller.api.patch import add, guarded_by_version
from controller.kube.client import Client, Events
from controller.kube.decode import Malformed, Seen
from controller.kube.errors import AlreadyExists, Conflict, NotFound, Unreadable
from controller.kube.requests import Refresh, Resource, Transport
from controller.kube.sender import Sender

RELEASED_SECONDS = 1
"""leaseDurationSeconds of a released Lease, as in client-go; the API does not allow 0."""
CALL_SECONDS = 2.0
"""Timeout of one request in seconds, including all waits."""


class LeadershipLost(Exception):
    """Another process may lead, so this one must not write."""


class LeaseSpec(Part, omit_defaults=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Value):
    spec: LeaseSpec
    version: str
    """The resourceVersion, the precondition of the next write."""


class Timing(Value):
    """Seconds, as in client-go. `lease_duration` > `renew_deadline` > `retry_period` prevents two leaders at once."""

    lease_duration: float = 15.0
    """How long other candidates leave an unchanged record alone."""
    renew_deadline: float = 10.0
    """How long after its last renewal a leader may write."""
    retry_period: float = 2.0
    """Time between two renewals or attempts, and the timeout of one request."""

    @property
    def watchdog(self) -> float:
        """Seconds from the last renewal until the watchdog ends the process: before others take over."""
        return (self.renew_deadline + self.lease_duration) / 2

    @property
    def missing(self) -> float:
        """Seconds for which candidates leave a missing record to its former holder, who creates it again."""
        return self.lease_duration - self.renew_deadline


def seconds_until_free(lease: Lease | None, observed_at: float, identity: str, now: float, timing: Timing) -> float:
    """Seconds for which a candidate must leave the record alone; 0.0 if it may create or take it. `now` and
    `observed_at`, when the record was first seen unchanged, are monotonic seconds of this process."""
    if lease is None:
        return max(0.0, observed_at + timing.missing - now)
    spec = lease.spec
    if not spec.holder_identity or spec.holder_identity == identity:
        return 0.0
    duration = timing.lease_duration if spec.lease_duration_seconds is None else spec.lease_duration_seconds
    return max(0.0, observed_at + duration - now)


def held(previous: LeaseSpec | None, identity: str, timing: Timing, wall: float) -> LeaseSpec:
    """The record with `identity` as holder, renewed at `wall` (seconds since 1970)."""
    now, before = micro_time(wall), previous or LeaseSpec()
    mine = before.holder_identity == identity
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=int(timing.lease_duration),
        acquire_time=before.acquire_time if mine else now,
        renew_time=now,
        lease_transitions=(before.lease_transitions or 0) + (previous is not None and not mine),
    )


def released(previous: LeaseSpec, wall: float) -> LeaseSpec:
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


class LeaseView(View):
    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


LEASES: Resource[LeaseView, Lease] = Resource(
    group="coordination.k8s.io",
    plural="leases",
    wire=LeaseView,
    project=lambda view: Lease(spec=view.spec, version=view.metadata.resource_version),
)


class LeaseLock:
    """The record of an election. Its client has neither fence nor throttle, as an election precedes all writes. For
    any answer not described here, methods raise `ApiError` or `OSError`."""

    def __init__(self, transport: Transport, namespace: str, name: str, *, refresh: Refresh | None = None) -> None:
        self._client = Client(Sender(transport, refresh=refresh, call_seconds=CALL_SECONDS))
        self._key = Key(namespace, name)

    async def get(self) -> Lease | None:
        """None if the Lease does not exist."""
        try:
            return await self._client.get(LEASES, self._key)
        except NotFound:
            return None

    async def create(self, spec: LeaseSpec) -> Lease | None:
        """None if one exists already."""
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

    async def update(self, spec: LeaseSpec, version: str) -> Lease | None:
        """None if it is gone or not at `version` any more."""
        patch = guarded_by_version(version, add(as_json(spec), "spec"))
        try:
            written = await self._client.patch(LEASES, self._key, patch)
        except (Conflict, NotFound):
            return None
        return Lease(spec=spec, version=written.version)

    @asynccontextmanager
    async def watch(self, version: str) -> AsyncIterator[AsyncIterator[Lease | None]]:
        """Yields every change after `version`, None for a deletion. Ends when the server ends the watch."""
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
