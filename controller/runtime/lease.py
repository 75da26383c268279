"""The Lease on the API server: four calls, and nothing of the client that the controllers use.

The election must go on while everything else is throttled, so it has no queue and no budget in front of it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from typing import Protocol, TypeVar

import msgspec

from controller.api.base import JSONObject, View, as_bytes, as_json
from controller.api.meta import ObjectMeta
from controller.api.patch import add, encode, guarded_by_version
from controller.kube.errors import (
    AlreadyExists,
    ApiError,
    ConfigError,
    Conflict,
    NotFound,
    Unreadable,
    refused,
    unanswered,
)
from controller.kube.meaning import Resend, meaning_of
from controller.kube.ndjson import Lines
from controller.kube.request import JSON_PATCH, Refresh, Request, Response, Transport
from controller.runtime.leader import Lease, LeaseSpec

T = TypeVar("T")

WATCH_SILENCE = 60.0
"""Seconds. A standby hears a renewal every 2 s; one that hears nothing asks again long before this."""


class LeaseAPI(Protocol):
    """One Lease. Every method raises `ApiError` or `OSError` where the server's answer is not one of these."""

    async def get_lease(self) -> Lease | None:
        """None: there is none."""
        ...

    async def create_lease(self, spec: LeaseSpec) -> Lease | None:
        """None: somebody else was quicker."""
        ...

    async def update_lease(self, spec: LeaseSpec, version: str) -> Lease | None:
        """None: it is not at `version` any more, or gone."""
        ...

    def watch_lease(self, version: str) -> AbstractAsyncContextManager[AsyncIterator[Lease | None]]:
        """Every change after `version`, None for a deletion; ends when the server ends it."""
        ...


class _Document(View):
    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


class _LeaseChange(View):
    type: str
    object: msgspec.Raw


_document = msgspec.json.Decoder(_Document)
_change = msgspec.json.Decoder(_LeaseChange)


class ServerLease:
    """`LeaseAPI` over a transport. `timeout`: seconds for one call.

    A 401 is raised, like every refusal, but `refresh` has been asked for credentials then: the next call has them.
    """

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        name: str,
        timeout: float = 2.0,
        *,
        refresh: Refresh | None = None,
    ) -> None:
        self._refresh = refresh
        self._transport, self._namespace, self._name, self._timeout = transport, namespace, name, timeout
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._what = f"lease {namespace}/{name}"

    async def get_lease(self) -> Lease | None:
        try:
            return await self._ask("get", Request(method="GET", path=f"{self._collection}/{self._name}"))
        except NotFound:
            return None

    async def create_lease(self, spec: LeaseSpec) -> Lease | None:
        body: JSONObject = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": as_json(spec),
        }
        try:
            return await self._ask("create", Request(method="POST", path=self._collection, body=as_bytes(body)))
        except AlreadyExists:
            return None

    async def update_lease(self, spec: LeaseSpec, version: str) -> Lease | None:
        patch = guarded_by_version(version, add(as_json(spec), "spec"))
        request = Request(
            method="PATCH",
            path=f"{self._collection}/{self._name}",
            body=encode(patch),
            content_type=JSON_PATCH,
        )
        try:
            return await self._ask("patch", request)
        except (Conflict, NotFound):
            return None

    @asynccontextmanager
    async def watch_lease(self, version: str) -> AsyncIterator[AsyncIterator[Lease | None]]:
        query = (
            ("watch", "1"),
            ("fieldSelector", f"metadata.name={self._name}"),
            ("resourceVersion", version),
            ("timeoutSeconds", "300"),  # so that no connection outlives a rotated certificate by much
        )
        request = Request(method="GET", path=self._collection, query=query, timeout=WATCH_SILENCE)
        async with aclosing(self._changes(request)) as changes:
            yield changes

    async def _changes(self, request: Request) -> AsyncGenerator[Lease | None, None]:
        try:
            async with self._transport.stream(request) as stream:
                if stream.status != 200:
                    body = b"".join([chunk async for chunk in stream.chunks()])
                    raise await self._refused("watch", Response(status=stream.status, body=body))
                lines = Lines()
                async for chunk in stream.chunks():
                    for line in lines.feed(chunk):
                        change = self._read(_change, line)
                        if change.type not in ("ADDED", "MODIFIED", "DELETED"):
                            return
                        yield None if change.type == "DELETED" else self._lease(bytes(change.object))
        except OSError as error:
            raise unanswered("watch", self._what, error) from error

    async def _ask(self, verb: str, request: Request) -> Lease:
        try:
            response = await self._transport.exchange(msgspec.structs.replace(request, timeout=self._timeout))
        except OSError as error:
            raise unanswered(verb, self._what, error) from error
        if not 200 <= response.status < 300:
            raise await self._refused(verb, response)
        return self._lease(response.body)

    async def _refused(self, verb: str, response: Response) -> ApiError:
        error = refused(verb, self._what, response)
        if meaning_of(error).resend is Resend.RENEWED and self._refresh is not None:
            with suppress(ConfigError):  # the controller's own calls are refused as well, and tell why
                await self._refresh()
        return error

    def _lease(self, body: bytes) -> Lease:
        document = self._read(_document, body)
        return Lease(spec=document.spec, version=document.metadata.resource_version)

    def _read(self, decoder: msgspec.json.Decoder[T], body: bytes) -> T:
        try:
            return decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise Unreadable("read", self._what, str(error)) from error
