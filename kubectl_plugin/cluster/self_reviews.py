"""Asks the API server who we are and what we may do. Such reviews are posted, but not stored."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

from controller.api.objects import JSONObject, View, as_bytes
from controller.kube.errors import ApiError
from controller.kube.requests import Request
from controller.kube.sender import Call
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.installation import answer_or_reason
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.report.installation.facts import NoAnswer, Right

T = TypeVar("T")

REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class _User(View):
    username: str = ""


class _ReviewedUser(View):
    user_info: _User = _User()


class _UserReview(View):
    status: _ReviewedUser = _ReviewedUser()


class _Permission(View):
    allowed: bool = False


class _AccessReview(View):
    status: _Permission = _Permission()


async def who_am_i(session: Session) -> str:
    """The user name that the server knows us by. Empty if it does not say so within a few seconds (not allowed,
    slow, older than 1.28): a pause must not wait for it."""
    body: JSONObject = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        async with asyncio.timeout(reads.HURRY):
            answer = await _review(session, REVIEWS, "selfsubjectreviews.authentication.k8s.io", body, _UserReview)
    except (ApiError, TimeoutError):
        return ""
    return answer.status.user_info.username


async def review_right(session: Session, verb: str, group: str, resource: str, namespace: str) -> Right:
    """Whether we have the right, by the server's answer. `namespace`: "" for kinds without namespaces."""
    named = f"{resource}.{group}" if group else resource
    attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace}
    body: JSONObject = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = await answer_or_reason(_review(session, path, "selfsubjectaccessreviews", body, _AccessReview))
    allowed = answer if isinstance(answer, NoAnswer) else answer.status.allowed
    return Right(verb=verb, resource=named, allowed=allowed)


async def _review(session: Session, path: str, what: str, body: JSONObject, answer: type[T]) -> T:
    """Post a review, which the server answers and does not store. Raises ApiError."""
    call = Call(verb="create", what=what)
    return await session.sender.answer(call, Request(method="POST", path=path, body=as_bytes(body)), answer)
