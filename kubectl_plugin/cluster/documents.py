"""Whole objects, as the server has them: for commands that print what they change. Fields are not checked."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from controller.api import patch as json_patch
from controller.api.base import JSONObject
from controller.api.meta import Key
from controller.api.patch import JsonPatch
from controller.kube import errors
from controller.kube.client import DRY_RUN, Query
from controller.kube.errors import Forbidden, Invalid, NotFound, Unreadable
from controller.kube.request import JSON_PATCH, Request, Response
from controller.kube.resource import Resource
from controller.kube.sender import Call
from kubectl_plugin.cluster.session import Session

AnyResource: TypeAlias = Resource[Any, Any]

PAGE = 500
"""Objects per answer: what kubectl asks for, too."""
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

_decoder = msgspec.json.Decoder(dict[str, Any])
_encoder = msgspec.json.Encoder()


async def get(session: Session, resource: AnyResource, key: Key) -> JSONObject:
    """The object as it is now. Raises ApiError; NotFound with an empty `name` for a kind that is not served."""
    call = Call(verb="get", resource=resource.name, what=resource.describe(key))
    return await _document(session, call, Request(method="GET", path=resource.path(key)))


async def items(session: Session, resource: AnyResource, namespace: str = "", query: Query = ()) -> list[JSONObject]:
    """All objects, or those in one namespace, read page by page. `query` for selectors."""
    found: list[JSONObject] = []
    token = ""
    while True:
        more = (*query, ("limit", str(PAGE)), *((("continue", token),) if token else ()))
        call = Call(verb="list", resource=resource.name, what=resource.name)
        page: Any = await _document(
            session, call, Request(method="GET", path=resource.collection(namespace), query=more)
        )
        found += page.get("items") or []
        token = page.get("metadata", {}).get("continue") or ""
        if not token:
            return found


async def patch(
    session: Session, resource: AnyResource, key: Key, patch: JsonPatch, *, dry_run: bool, field_manager: str
) -> JSONObject:
    """What the server has made of the object, or with `dry_run` would make of it. `patch` carries its own guard.

    Raises ApiError: Conflict for a stale version or a foreign uid, Unknown when there was no readable answer.
    """
    call = Call(verb="patch", resource=resource.name, what=resource.describe(key))
    request = Request(
        method="PATCH",
        path=resource.path(key),
        query=_query(dry_run, field_manager),
        body=json_patch.encode(patch),
        content_type=JSON_PATCH,
    )
    return await _document(session, call, request)


async def create(
    session: Session,
    resource: AnyResource,
    namespace: str,
    body: JSONObject,
    *,
    dry_run: bool,
    field_manager: str,
) -> JSONObject:
    """The new object as the server has it, defaults and all; with `dry_run` it is checked but not kept."""
    what = f"{resource.name} in {namespace}" if resource.namespaced else resource.name
    call = Call(verb="create", resource=resource.name, what=what)
    path, query = resource.collection(namespace), _query(dry_run, field_manager)
    return await _document(session, call, Request(method="POST", path=path, query=query, body=_encoder.encode(body)))


async def who_am_i(session: Session) -> str:
    """The user as whom the server takes us; empty where it does not say (not allowed, or older than 1.28)."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    call = Call(verb="create", resource="selfsubjectreviews", what="selfsubjectreviews.authentication.k8s.io")
    request = Request(method="POST", path=REVIEWS, body=_encoder.encode(body))
    try:
        answer: Any = await _document(session, call, request)
    except (Forbidden, NotFound, Invalid):
        return ""
    user = (answer.get("status") or {}).get("userInfo") or {}
    return str(user.get("username") or "")


def _query(dry_run: bool, field_manager: str) -> Query:
    manager = (("fieldManager", field_manager),) if field_manager else ()
    return (DRY_RUN, *manager) if dry_run else manager


async def _document(session: Session, call: Call, request: Request) -> JSONObject:
    response: Response = await session.sender.send(call, request)
    try:
        return _decoder.decode(response.body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        if call.verb in errors.WRITES:
            words = ConnectionError(f"unreadable answer: {error}")
            raise errors.unanswered(call.verb, call.what, words) from error
        raise Unreadable(call.verb, call.what, str(error)) from error
