"""The typed APIs of kubernetes_asyncio for single requests, sent through a Sender, so that its credentials, throttle,
deadlines, warnings and errors apply: the controller's reviews, the plugin's version and Lease. Importing the package
takes 0.3 s and 37 MiB, so the first such request does it, in a thread. Watches, writes and the election do not."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, Final, TypeAlias

from controller.api.objects import JSON, Value, as_bytes
from controller.kube.errors import Unreadable
from controller.kube.requests import Query, Request, Response
from controller.kube.sender import Call, Sender

CLIENT: Final = "kubernetes_asyncio.client"

TypedRequest: TypeAlias = Callable[[ModuleType, Any], Awaitable[Any]]
"""Takes `kubernetes_asyncio.client` and an ApiClient, and awaits one method of a typed API."""


async def typed(sender: Sender, call: Call, request: TypedRequest) -> Any:
    """The model that `request` returns. Raises ApiError: Unreadable if the generated models refuse the answer."""
    package = sys.modules.get(CLIENT)
    if package is None:  # a thread imports it, so that the event loop goes on
        package = await asyncio.to_thread(import_module, CLIENT)
    try:
        return await request(package, _api_client(package, sender, call))
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise Unreadable(call.verb, call.what, str(error)) from error


def _api_client(package: ModuleType, sender: Sender, call: Call) -> Any:
    client = package.ApiClient.__new__(package.ApiClient)  # its __init__ opens a session of its own
    client.configuration = package.Configuration(host="")
    client.default_headers, client.cookie, client.client_side_validation = {}, None, True
    client.rest_client = _RestClient(sender, call)
    return client


class Reviewed(Value):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = {}


class Reviews:
    """TokenReview and SubjectAccessReview, each needing the right to create it. The methods raise ApiError."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def user_of(self, token: str) -> Reviewed | None:
        """The user of a bearer token; None if the server does not accept it."""
        answer = await typed(
            self._sender,
            Call(verb="create", what="a TokenReview"),
            lambda k8s, api: k8s.AuthenticationV1Api(api).create_token_review(
                k8s.V1TokenReview("authentication.k8s.io/v1", "TokenReview", spec=k8s.V1TokenReviewSpec(token=token))
            ),
        )
        if not (answer.status and answer.status.authenticated):
            return None
        user = answer.status.user
        return Reviewed(
            username=user.username or "", uid=user.uid or "", groups=tuple(user.groups or ()), extra=user.extra or {}
        )

    async def may_get(self, user: Reviewed, path: str) -> bool:
        """Whether `user` may get `path`, a non-resource URL (`nonResourceURLs` of a ClusterRole)."""

        async def review(k8s: ModuleType, api: Any) -> Any:
            spec = k8s.V1SubjectAccessReviewSpec(
                user=user.username,
                uid=user.uid,
                groups=list(user.groups),
                extra=dict(user.extra),
                non_resource_attributes=k8s.V1NonResourceAttributes(verb="get", path=path),
            )
            body = k8s.V1SubjectAccessReview("authorization.k8s.io/v1", "SubjectAccessReview", spec=spec)
            return await k8s.AuthorizationV1Api(api).create_subject_access_review(body)

        answer = await typed(self._sender, Call(verb="create", what="a SubjectAccessReview"), review)
        return bool(answer.status and answer.status.allowed)


class _Answer:
    """The part of a RESTResponse that ApiClient reads; it replaces `data` by its text."""

    def __init__(self, response: Response) -> None:
        self.status, self.data = response.status, response.body

    def getheader(self, name: str, default: str | None = None) -> str | None:
        return default  # a JSON document is UTF-8


class _RestClient:
    """The part of a RESTClientObject that typed gets and creates use."""

    def __init__(self, sender: Sender, call: Call) -> None:
        self._sender, self._call = sender, call
        self.GET, self.POST = partial(self._send, "GET"), partial(self._send, "POST")

    async def _send(
        self, method: str, path: str, *, query_params: Query | None = None, body: JSON = None, **_: Any
    ) -> _Answer:
        data = b"" if body is None else as_bytes(body)
        query = tuple((name, str(value)) for name, value in query_params or ())
        request = Request(method=method, path=path, query=query, body=data)
        return _Answer(await self._sender.send(self._call, request))
