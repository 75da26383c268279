"""Asks the API server who a caller is and what it may do, by TokenReview and SubjectAccessReview.

Neither is stored. They need the right to create `tokenreviews` and `subjectaccessreviews`.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from controller.api.base import JSONObject, View, as_bytes
from controller.kube.request import Request
from controller.kube.sender import Call, Sender

T = TypeVar("T")


class Reviewed(View):
    """A user as the API server describes it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class _TokenStatus(View):
    authenticated: bool = False
    user: Reviewed = Reviewed()


class _TokenReview(View):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(View):
    allowed: bool = False


class _AccessReview(View):
    status: _AccessStatus = _AccessStatus()


class Reviews:
    """Sends the two kinds of reviews. Both methods raise `ApiError`."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def user_of(self, token: str) -> Reviewed | None:
        """The user of a bearer token; None if the server does not accept the token."""
        status = (await self._ask("authentication", "TokenReview", {"token": token}, _TokenReview)).status
        return status.user if status.authenticated else None

    async def may_get(self, user: Reviewed, path: str) -> bool:
        """Whether `user` may `get` a path that belongs to no resource (`nonResourceURLs` of a ClusterRole)."""
        spec: JSONObject = {
            "user": user.username,
            "uid": user.uid,
            "groups": [*user.groups],
            "extra": {key: [*values] for key, values in user.extra.items()},
            "nonResourceAttributes": {"verb": "get", "path": path},
        }
        return (await self._ask("authorization", "SubjectAccessReview", spec, _AccessReview)).status.allowed

    async def _ask(self, group: str, kind: str, spec: JSONObject, answer: type[T]) -> T:
        group, plural = f"{group}.k8s.io", f"{kind.lower()}s"
        call = Call(verb="create", what=f"a {kind}")
        body = as_bytes({"apiVersion": f"{group}/v1", "kind": kind, "spec": spec})
        request = Request(method="POST", path=f"/apis/{group}/v1/{plural}", body=body)
        return await self._sender.answer(call, request, answer)
