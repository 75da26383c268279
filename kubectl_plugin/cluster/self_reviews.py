"""Asks the API server who we are and what we may do. Such reviews are posted, but not stored."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any, Final

from controller.kube.errors import ApiError
from controller.kube.sender import Call
from controller.kube.typed import typed
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.installation import answer_or_reason
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.report.installation.facts import NoAnswer, Right

REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def who_am_i(session: Session) -> str:
    """The user name that the server knows us by. Empty if it does not say so within a few seconds (not allowed,
    slow, older than 1.28): a pause must not wait for it."""
    try:
        async with asyncio.timeout(reads.HURRY):
            answer = await typed(
                session.sender,
                Call(verb="create", what="selfsubjectreviews.authentication.k8s.io"),
                lambda k8s, api: k8s.AuthenticationV1Api(api).create_self_subject_review(
                    k8s.V1SelfSubjectReview("authentication.k8s.io/v1", "SelfSubjectReview")
                ),
            )
    except (ApiError, TimeoutError):
        return ""
    user = answer.status.user_info if answer.status else None
    return str(user.username or "") if user else ""


async def review_right(session: Session, verb: str, group: str, resource: str, namespace: str) -> Right:
    """Whether we have the right, by the server's answer. `namespace`: "" for kinds without namespaces."""

    async def review(k8s: ModuleType, api: Any) -> Any:
        attributes = k8s.V1ResourceAttributes(
            verb=verb, group=group or None, resource=resource, namespace=namespace or None
        )
        spec = k8s.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes)
        body = k8s.V1SelfSubjectAccessReview("authorization.k8s.io/v1", "SelfSubjectAccessReview", spec=spec)
        return await k8s.AuthorizationV1Api(api).create_self_subject_access_review(body)

    call = Call(verb="create", what="selfsubjectaccessreviews")
    answer = await answer_or_reason(typed(session.sender, call, review))
    allowed = answer if isinstance(answer, NoAnswer) else bool(answer.status and answer.status.allowed)
    return Right(verb=verb, resource=f"{resource}.{group}" if group else resource, allowed=allowed)
