"""The verbs of the API, one method each. Only the fields that are read are decoded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from copy import copy
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from controller.api.objects import JSON, JSONObject, Ref, View, as_bytes
from controller.kube.decode import UNREADABLE, Decoder, ErrorEvent, Page, WatchEvent
from controller.kube.errors import Unreadable, response_error
from controller.kube.requests import (
    JSON_PATCH,
    ONLY_METADATA,
    PAGE_SIZE,
    GroupVersionResource,
    Query,
    Request,
    Resource,
    Response,
    Target,
    W,
)
from controller.kube.sender import Call, Sender

T = TypeVar("T")

STREAM_SILENCE = 150.0
"""Seconds without a byte after which a watch counts as broken; API servers send a bookmark about once a minute."""

Body: TypeAlias = bytes | JSONObject | tuple[JSON, ...]
Events: TypeAlias = Iterator[WatchEvent[T]]


class Written(View):
    """Metadata of an object after a write. Caches must reach `version` before plans are made from them."""

    uid: str = ""
    version: str = msgspec.field(default="", name="resourceVersion")
    labels: dict[str, str] | None = None


class _WrittenView(View):
    metadata: Written = Written()


DRY_RUN: Final = ("dryRun", "All")
STRICT: Final = ("fieldValidation", "Strict")


class Client:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._decoders: dict[Resource[Any, Any], Decoder[Any, Any]] = {}

    def with_reserved_permit(self, on_warning: Callable[[str], None] | None = None) -> Client:
        """A client with a permit of its own besides the shared ones, and optionally another listener for warnings."""
        other = copy(self)
        other._sender = self._sender.with_reserved_permit(on_warning)
        return other

    def decoder(self, resource: Resource[W, T]) -> Decoder[W, T]:
        decoder = self._decoders.get(resource)
        if decoder is None:
            decoder = self._decoders[resource] = Decoder(resource)
        return decoder

    async def get(self, resource: Resource[W, T], target: Target) -> T | None:
        """The object from the server, not a cache; None if it is not ours (`Resource.project`)."""
        call = Call(verb="get", what=resource.describe(target))
        return await self._single(call, Request(method="GET", path=resource.path(target)), resource)

    async def page(
        self, resource: Resource[W, T], namespace: str = "", *, limit: int = 0, token: str = "", query: Query = ()
    ) -> Page[T]:
        """One page of a list, or with `limit=0` all of it, in a consistent read. `query` is for selectors."""
        call = Call(verb="list", what=_collection(resource, namespace))
        query = (*resource.query, *query)
        if limit:
            query = (*query, ("limit", str(limit)))
        if token:
            query = (*query, ("continue", token))
        request = Request(method="GET", path=resource.collection(namespace), query=query)
        response = await self._sender.send(call, request)
        try:
            return self.decoder(resource).page(response.body)
        except UNREADABLE as error:
            raise Unreadable(call.verb, call.what, str(error)) from error

    async def pages(
        self, resource: Resource[W, T], namespace: str = "", *, query: Query = ()
    ) -> AsyncGenerator[Page[T]]:
        """The pages of a list, with one in memory at a time. Raises ApiError: Gone if the list expires meanwhile."""
        token = ""
        while True:
            page = await self.page(resource, namespace, limit=PAGE_SIZE, token=token, query=query)
            yield page
            if not (token := page.token):
                return

    async def create(
        self,
        resource: GroupVersionResource,
        namespace: str,
        body: Body,
        *,
        name: str = "",
        dry_run: bool = False,
        strict: bool = False,
    ) -> Written:
        """Creates an object, or with `dry_run` only validates it. With `strict`, unknown fields raise UnknownFields
        instead of being dropped. `name` is only for error messages."""
        what = f"{_collection(resource, namespace)} {name}".rstrip()
        call = Call(verb="create", what=what)
        request = Request(
            method="POST",
            path=resource.collection(namespace),
            query=((DRY_RUN,) if dry_run else ()) + ((STRICT,) if strict else ()),
            body=_bytes(body),
        )
        return await self._written(call, request)

    async def patch(
        self,
        resource: GroupVersionResource,
        target: Target,
        patch: Body,
        *,
        sub: str = "",
        dry_run: bool = False,
    ) -> Written:
        """Sends a JSON Patch with its own guard (`api.patch`). Raises Conflict for an old version or another uid."""
        call, request = _patch(resource, target, patch, sub, dry_run=dry_run)
        return await self._written(call, request)

    async def preview(self, resource: Resource[W, T], target: Target, patch: Body, *, sub: str = "") -> T | None:
        """The object as a patch would leave it after admission; nothing is stored. Raises as `patch` does."""
        call, request = _patch(resource, target, patch, sub, dry_run=True)
        return await self._single(call, request, resource)

    async def delete(
        self, resource: GroupVersionResource, ref: Ref, *, version: str = "", propagation: str = ""
    ) -> str | None:
        """Deletes an object; returns the resourceVersion that it then has, or None if it is gone. Raises Conflict
        unless it has `ref.uid` (empty matches any) and, if given, `version`; `ref.version` is ignored, as a status
        update must not prevent a delete. `propagation` is Background, Foreground, Orphan or the server's default."""
        call = Call(verb="delete", what=resource.describe(ref))
        guards = _given(uid=ref.uid, resourceVersion=version)
        options = _given(kind="DeleteOptions", apiVersion="v1", preconditions=guards, propagationPolicy=propagation)
        request = Request(method="DELETE", path=resource.path(ref), body=as_bytes(options))
        return (await self._written(call, request)).version or None  # a Status has no version

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource[W, T],
        namespace: str = "",
        *,
        query: Query = (),
    ) -> AsyncIterator[AsyncIterator[Events[T]]]:
        """An open watch: an iterator over batches of events, decoded one by one, until the server closes the watch.
        Raises ApiError on entering if the server refuses, between batches if the connection breaks or is silent for
        `STREAM_SILENCE` seconds, and within a batch for an ERROR event or malformed line."""
        call = Call(verb="watch", what=_collection(resource, namespace))
        query = (("watch", "1"), *resource.query, *query)
        path = resource.collection(namespace)
        request = Request(method="GET", path=path, query=query, timeout=STREAM_SILENCE)
        async with self._sender.stream(call, request) as lines:
            events = (self._decoded(call, bunch, self.decoder(resource)) async for bunch in lines)
            async with aclosing(events):
                yield events

    async def _written(self, call: Call, request: Request) -> Written:
        """The metadata alone: it is less than half of the answer."""
        request = replace(request, accept=ONLY_METADATA)
        return (await self._sender.answer(call, request, _WrittenView, stores=True)).metadata

    async def _single(self, call: Call, request: Request, resource: Resource[W, T]) -> T | None:
        response = await self._sender.send(call, request)
        try:
            return self.decoder(resource).single(response.body)
        except UNREADABLE as error:
            raise Unreadable(call.verb, call.what, str(error)) from error

    def _decoded(self, call: Call, lines: list[bytes], decoder: Decoder[W, T]) -> Events[T]:
        for line in lines:
            try:
                event = decoder.line(line)
            except UNREADABLE as error:
                raise Unreadable(call.verb, call.what, str(error)) from error
            if isinstance(event, ErrorEvent):
                raise response_error(call.verb, call.what, Response(status=event.status, body=event.body))
            yield event


def _patch(
    resource: GroupVersionResource, target: Target, patch: Body, sub: str, *, dry_run: bool
) -> tuple[Call, Request]:
    call = Call(verb="patch", what=resource.describe(target, sub))
    request = Request(
        method="PATCH",
        path=resource.path(target, sub),
        query=(DRY_RUN,) if dry_run else (),
        body=_bytes(patch),
        content_type=JSON_PATCH,
    )
    return call, request


def _given(**fields: JSON) -> JSONObject:
    return {name: value for name, value in fields.items() if value}


def _bytes(body: Body) -> bytes:
    return body if isinstance(body, bytes) else as_bytes(body)


def _collection(resource: GroupVersionResource, namespace: str) -> str:
    return f"{resource.name} in {namespace}" if namespace and resource.namespaced else resource.name
