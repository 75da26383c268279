"""The Lease on the API server.

The election must go on while everything else is throttled, and before anything may be written. So it has a client of
its own, which no fence and no throttle delays.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Protocol

from controller.api.base import JSONObject, View, as_json
from controller.api.meta import Key, ObjectMeta
from controller.api.patch import add, guarded_by_version
from controller.kube.client import Client, Events
from controller.kube.decode import Malformed, Seen
from controller.kube.errors import AlreadyExists, Conflict, NotFound, Unreadable
from controller.kube.request import Refresh, Transport
from controller.kube.resource import Resource
from controller.kube.sender import Sender
from controller.runtime.lease_rules import Lease, LeaseSpec

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
