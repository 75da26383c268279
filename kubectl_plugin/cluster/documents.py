"""Requests for whole objects as unchecked JSON, for lists, and for several of these at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias, TypeVar, overload

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from controller.api import patch as json_patch
from controller.api import revision
from controller.api.objects import JSONObject, Key, ObjectMeta, View, as_bytes, fields_of
from controller.api.patch import JsonPatch
from controller.kube import errors
from controller.kube.client import DRY_RUN, STRICT, Client
from controller.kube.decode import Seen
from controller.kube.errors import ApiError, Forbidden
from controller.kube.requests import (
    APPLY_PATCH,
    DAEMONSETS,
    JSON_PATCH,
    PODS,
    GroupVersionResource,
    Query,
    Request,
    Resource,
    W,
)
from controller.kube.sender import Call
from kubectl_plugin.changes.edit import Application
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.wording import CLIENT

T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")
CONCURRENT_READS: Final = 20
"""Concurrent reads of `for_each`: fewer than the server handles at once, so that none times out in its queue."""
Read: TypeAlias = Coroutine[object, None, T]
AnyResource: TypeAlias = Resource[Any, Any]


@asynccontextmanager
async def scope() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group that raises a plain exception: the block's own, or the first of a task, with notes of others."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as several:
        first, *others = several.exceptions
        for other in others:
            first.add_note(f"at the same time: {other!r}")
        raise first from None


@overload
async def side_by_side(one: Read[T1], two: Read[T2], /) -> tuple[T1, T2]: ...
@overload
async def side_by_side(one: Read[T1], two: Read[T2], three: Read[T3], /) -> tuple[T1, T2, T3]: ...
@overload
async def side_by_side(
    one: Read[T1], two: Read[T2], three: Read[T3], four: Read[T4], five: Read[T5], /
) -> tuple[T1, T2, T3, T4, T5]: ...
@overload
async def side_by_side(*reads: Read[T]) -> tuple[T, ...]: ...
async def side_by_side(*reads: Read[object]) -> tuple[object, ...]:
    """The results in the order of the arguments. Raises the first error, once the other reads are cancelled."""
    async with scope() as group:
        tasks = [group.create_task(read) for read in reads]
    return tuple(task.result() for task in tasks)


async def for_each(items: Iterable[T1], read: Callable[[T1], Read[T]]) -> tuple[T, ...]:
    """The results of `read` in the order of `items`, `CONCURRENT_READS` at a time. Raises as `side_by_side`."""
    turns = asyncio.Semaphore(CONCURRENT_READS)

    async def one(item: T1) -> T:
        async with turns:
            return await read(item)

    return await side_by_side(*map(one, items))


def is_from_proxy(error: ApiError) -> bool:
    """Whether a load balancer or proxy answered: the API server always gives a reason."""
    return error.status != 0 and not error.reason


def right_is_missing(error: ApiError) -> bool:
    """Whether the API server refused because the user lacks the right. An admission policy refuses writes with the
    same code, in other words."""
    in_words = error.verb in ("get", "list", "watch") or " cannot " in error.message
    return isinstance(error, Forbidden) and in_words and not is_from_proxy(error)


async def unless_forbidden(request: Awaitable[T]) -> T | None:
    """The answer; None without the right to it. Raises every other ApiError, also a proxy's 403."""
    try:
        return await request
    except Forbidden as error:
        if not right_is_missing(error):
            raise
        return None


class DocumentView(View):
    """All fields that a DaemonSet has, of either kind."""

    meta: JSONObject = msgspec.field(name="metadata")
    api_version: str | UnsetType = UNSET
    """Items of a list of a built-in kind have neither this nor `kind`."""
    kind: str | UnsetType = UNSET
    spec: JSONObject | UnsetType = UNSET
    status: JSONObject | UnsetType = UNSET

    @property
    def metadata(self) -> ObjectMeta:
        return msgspec.convert(self.meta, ObjectMeta)


def _document_of(view: DocumentView) -> JSONObject:
    fields = zip(view.__struct_encode_fields__, view.__struct_fields__, strict=True)
    return {name: value for name, field in fields if (value := getattr(view, field)) is not UNSET}


def whole(resource: AnyResource) -> Resource[DocumentView, JSONObject]:
    """`resource`, a DaemonSet of either kind, read as JSON."""
    return replace(resource, wire=DocumentView, project=_document_of)


async def get(session: Session, resource: GroupVersionResource, key: Key) -> JSONObject:
    """Raises ApiError; NotFound has an empty `name` if the kind is not served."""
    return await ask(session, resource.path(key), resource.describe(key), JSONObject)


async def read_items(
    session: Session, resource: AnyResource, namespace: str = "", query: Query = ()
) -> dict[Key, JSONObject | None]:
    """All DaemonSets of the namespace; None for one nested too deeply to decode here. Raises ApiError."""
    pages = session.client.pages(whole(resource), namespace, query=query)
    return {item.key: item.obj if isinstance(item, Seen) else None async for page in pages for item in page.items}


async def list_objects(client: Client, resource: Resource[W, T], namespace: str = "", query: Query = ()) -> list[T]:
    """The decodable objects of the list. Raises ApiError."""
    items = [item async for page in client.pages(resource, namespace, query=query) for item in page.items]
    return [item.obj for item in items if isinstance(item, Seen) and item.obj is not None]


async def ask(session: Session, path: str, what: str, answer: type[T], *, query: Query = (), verb: str = "get") -> T:
    """The document at `path`, decoded as `answer`; `what` names it in errors. Raises ApiError."""
    call = Call(verb=verb, what=what)
    return await session.sender.answer(call, Request(method="GET", path=path, query=query), answer)


async def patch(
    session: Session,
    resource: AnyResource,
    key: Key,
    patch: JsonPatch,
    *,
    dry_run: bool,
    field_manager: str = CLIENT,
    strict: bool = False,
) -> JSONObject:
    """The object after the patch, which carries its own precondition. `strict` rejects unknown fields, as kubectl
    does. Raises Conflict for a stale version or another uid, UnknownOutcome if it may have been applied, ApiError."""
    query = _query(dry_run, field_manager, strict)
    return await _patched(session, resource, key, json_patch.encode(patch), JSON_PATCH, query)


async def apply(session: Session, application: Application, *, dry_run: bool, force: bool) -> JSONObject:
    """The DaemonSet after server-side apply. Raises Conflict for others' fields, unless `force`; ApiError."""
    body, meta = application.body, fields_of(application.body["metadata"])
    resource = replace(DAEMONSETS, version=str(body.get("apiVersion")).rpartition("/")[2])
    key = Key(str(meta["namespace"]), str(meta["name"]))
    query = (*_query(dry_run, application.manager, strict=True), ("force", str(force).lower()))
    return await _patched(session, resource, key, as_bytes(body), APPLY_PATCH, query)


async def create(
    session: Session,
    resource: AnyResource,
    namespace: str,
    body: JSONObject,
    *,
    dry_run: bool,
    field_manager: str = CLIENT,
) -> JSONObject:
    """The new object with defaults. Encodes `body` as the server does: a ControllerRevision's data is immutable."""
    call = Call(verb="create", what=f"{resource.name} in {namespace}")
    path, query = resource.collection(namespace), _query(dry_run, field_manager)
    request = Request(method="POST", path=path, query=query, body=revision.encode(body))
    return await _stored(session, call, request)


def _query(dry_run: bool, field_manager: str, strict: bool = False) -> Query:
    manager = (("fieldManager", field_manager),) if field_manager else ()
    checked = (STRICT,) if strict else ()
    return (*((DRY_RUN,) if dry_run else ()), *checked, *manager)


async def _patched(
    session: Session, resource: AnyResource, key: Key, body: bytes, content_type: str, query: Query
) -> JSONObject:
    call = Call(verb="patch", what=resource.describe(key))
    request = Request(method="PATCH", path=resource.path(key), query=query, body=body, content_type=content_type)
    return await _stored(session, call, request)


async def _stored(session: Session, call: Call, request: Request) -> JSONObject:
    document = await session.sender.answer(call, request, JSONObject, stores=True)
    if "metadata" not in document:
        raise errors.no_response_error(call.verb, call.what, ConnectionError("unreadable answer: it is no object"))
    return document


LINE_BYTES: Final = 2000
"""Bytes read of a log line."""
LOG_SECONDS: Final = 2.0
"""Seconds to wait for a kubelet, so that one that is down does not delay the report."""


async def last_log_line(session: Session, pod: Key, container: str) -> str:
    """The last line of the container's previous run; empty if unavailable. A pod's only container may be ""."""
    named = (("container", container),) if container else ()
    query = (("previous", "true"), ("tailLines", "1"), ("limitBytes", str(LINE_BYTES)), *named)
    call, path = Call(verb="get", what=PODS.describe(pod, "log")), PODS.path(pod, "log")
    try:
        async with asyncio.timeout(LOG_SECONDS):
            answer = await session.sender.send(call, Request(method="GET", path=path, query=query))
    except (ApiError, TimeoutError):
        return ""
    lines = answer.body.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""
