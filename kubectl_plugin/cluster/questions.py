"""Questions to the server that are about no kind of ours: discovery, leases, rights. Plain documents come back."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.api.base import JSONObject
from controller.kube.errors import NotFound, Unreadable
from controller.kube.request import Request
from controller.kube.sender import Call
from kubectl_plugin.cluster.session import Session

_decoder = msgspec.json.Decoder(dict[str, Any])
_encoder = msgspec.json.Encoder()


async def ask(
    session: Session, path: str, what: str, *, query: tuple[tuple[str, str], ...] = (), verb: str = "get"
) -> JSONObject:
    """The document at `path`. Raises ApiError, which speaks of `what`."""
    call = Call(verb=verb, resource=what.split()[0], what=what)
    return await _answer(session, call, Request(method="GET", path=path, query=query))


async def ask_whether_there(session: Session, path: str, what: str) -> JSONObject | None:
    """The same; None where there is no such thing."""
    try:
        return await ask(session, path, what)
    except NotFound:
        return None


async def review(session: Session, path: str, what: str, body: JSONObject) -> JSONObject:
    """What the server makes of a question that is posted: nothing is kept there. Raises ApiError."""
    request = Request(method="POST", path=path, body=_encoder.encode(body))
    return await _answer(session, Call(verb="create", resource=what, what=what), request)


async def _answer(session: Session, call: Call, request: Request) -> JSONObject:
    response = await session.sender.send(call, request)
    try:
        return _decoder.decode(response.body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unreadable(call.verb, call.what, str(error)) from error
