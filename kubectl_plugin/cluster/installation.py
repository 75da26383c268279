"""The API server and controllers of the cluster, and the user's rights in it.

Few users may read everything, so a question without an answer yields `NoAnswer` instead of an error.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Coroutine
from types import ModuleType
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from controller.api.containers import ContainerView
from controller.api.names import GROUP, LEASE_NAME
from controller.api.objects import JSONObject, Key, View, items_of, value_at
from controller.api.pod import PodView
from controller.kube.errors import ApiError, Forbidden, NotFound, Unreachable
from controller.kube.requests import DAEMONSETS, PODS, GroupVersionResource
from controller.kube.sender import Call
from controller.kube.typed import typed
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.documents import (
    ask,
    for_each,
    get,
    list_objects,
    read_items,
    right_is_missing,
    side_by_side,
)
from kubectl_plugin.cluster.reads import read_as
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.errors import NoAnswer
from kubectl_plugin.rollout.doctor_checks import (
    ControllerPod,
    Leader,
    OurDaemonSet,
    Right,
    Rival,
    network_sign,
    silence_of,
)

T = TypeVar("T")
VERSION_LABEL: Final = "app.kubernetes.io/version"
RIVAL_NAMESPACE: Final = "kruise-system"
RIVAL_LEASE: Final = "kruise-manager"
RIVAL_DEPLOYMENT: Final = "kruise-controller-manager"
CONTROLLER_SECONDS: Final = 60.0
"""Seconds that a wait gives a controller to handle an object before it ends."""
LEADING_SECONDS: Final = 10.0
"""Seconds that `coming_leader` waits for a holder of the Lease."""
_RELEASE = re.compile(r"v?\d+\.\d+\.\d+(?:[-+][\w.+-]+)?")


async def controller_leader(session: Session) -> Leader | None:
    """The holder of the controller's Lease; None if there is no Lease. Raises ApiError."""
    return await lease_holder(session, Key(session.controller_namespace, LEASE_NAME))


async def lease_holder(session: Session, lease: Key) -> Leader | None:
    """The holder of the Lease; None if there is no Lease. Raises ApiError."""
    call = Call(verb="get", what=f"leases.coordination.k8s.io {lease}")
    found = await _if_there(
        typed(
            session.sender,
            call,
            lambda k8s, api: k8s.CoordinationV1Api(api).read_namespaced_lease(lease.name, lease.namespace),
        )
    )
    if found is None:
        return None
    spec = found.spec
    renewed = spec.renew_time.timestamp() if spec and spec.renew_time else 0.0
    return Leader(holder=(spec.holder_identity or "") if spec else "", renewed=renewed)


async def why_no_controller(session: Session, now: float) -> str | None:
    """Why no controller seems to be active; None if one is or the Lease is unreadable. `now`: the server's time."""
    try:
        found = await controller_leader(session)
    except ApiError:
        return None
    silence = silence_of(found, session.controller_namespace, now)
    unless = "" if found is not None else ", unless one runs with --no-leader-elect"
    return f"no controller is active{unless}: {silence}" if silence else None


class _GroupVersion(View):
    version: str


class _Group(View):
    versions: tuple[_GroupVersion, ...] | None = None


async def server_version(session: Session) -> str:
    """Such as `v1.34.1`; empty if the server does not report it. Raises ApiError."""
    call = Call(verb="get", what="version")
    answer = await typed(session.sender, call, lambda k8s, api: k8s.VersionApi(api).get_code())
    return str(answer.git_version)


async def served_versions(session: Session) -> tuple[str, ...]:
    """The served versions of Advanced DaemonSets; the group may serve only other kinds in one. Raises ApiError."""
    group = await _if_there(ask(session, f"/apis/{GROUP}", GROUP, _Group))
    names = [one.version for one in (group.versions if group is not None else None) or ()]
    kinds = await for_each(
        names, lambda name: _if_there(ask(session, f"/apis/{GROUP}/{name}", f"{GROUP}/{name}", JSONObject))
    )
    served = [[resource.get("name") for resource in items_of((found or {}).get("resources"))] for found in kinds]
    return tuple(sorted(name for name, plurals in zip(names, served, strict=True) if DAEMONSETS.plural in plurals))


async def stored_version(session: Session) -> str:
    """The version in which etcd stores Advanced DaemonSets. Raises NotFound if there is no CRD, ApiError."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{DAEMONSETS.name}"
    definition = await ask(session, path, f"customresourcedefinitions {DAEMONSETS.name}", JSONObject)
    versions = items_of(value_at(definition, "spec", "versions"))
    return next((str(version.get("name")) for version in versions if version.get("storage")), "")


async def _if_there(answer: Coroutine[object, None, T]) -> T | None:
    """The answer; None if the object or path does not exist."""
    try:
        return await answer
    except NotFound:
        return None


async def answer_or_reason(answer: Awaitable[T]) -> T | NoAnswer:
    """The answer, or why there is none. Raises Unreachable, as no other request would be answered either."""
    try:
        return await answer
    except Unreachable:
        raise
    except ApiError as error:
        if right_is_missing(error):
            return NoAnswer(f"no right to {error.verb} {error.what}")
        return NoAnswer(" ".join(error.message.split()))


async def coming_leader(session: Session) -> Leader | None:
    """The controller's Lease; None if there is none. Waits up to `LEADING_SECONDS` for a holder, because pods are
    ready shortly before one of them leads. Raises ApiError."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LEADING_SECONDS
    while True:
        found = await controller_leader(session)
        if (found is not None and found.holder) or loop.time() >= deadline:
            return found
        await asyncio.sleep(LEADING_SECONDS / 20)  # not watched: who may read this one Lease may seldom watch it


async def controller_pods(session: Session) -> tuple[ControllerPod, ...]:
    return tuple(await list_objects(session.client, CONTROLLER_PODS, session.controller_namespace))


async def our_daemonsets(session: Session) -> tuple[OurDaemonSet, ...]:
    """Advanced DaemonSets of all namespaces, except those nested too deeply to decode. Raises ApiError."""
    found = await read_items(session, DAEMONSETS)
    return tuple(
        OurDaemonSet(name=str(key), network=network_sign(one)) for key, one in found.items() if one is not None
    )


async def rival(session: Session) -> Rival:
    """OpenKruise's Lease and Deployment, as far as readable. Raises Forbidden if neither is; Unreachable."""
    found, deployment = await side_by_side(
        answer_or_reason(lease_holder(session, Key(RIVAL_NAMESPACE, RIVAL_LEASE))),
        answer_or_reason(_if_there(get(session, DEPLOYMENTS, Key(RIVAL_NAMESPACE, RIVAL_DEPLOYMENT)))),
    )
    if isinstance(found, NoAnswer) and isinstance(deployment, NoAnswer):
        raise Forbidden("get", f"leases and deployments in {RIVAL_NAMESPACE}", found.why)
    ready = value_at(deployment, "status", "readyReplicas") or 0 if isinstance(deployment, dict) else None
    leader = None if isinstance(found, NoAnswer) else found
    return Rival(leader=leader, replicas=ready if isinstance(ready, int) else None)


def version_of_leader(
    session: Session, found: Leader | NoAnswer | None, pods: tuple[ControllerPod, ...] | NoAnswer
) -> str | NoAnswer:
    """The version of the pod that holds the Lease; if that is not in `pods`, the version they all share."""
    if isinstance(pods, NoAnswer):
        return pods
    if not pods:
        return NoAnswer(f"no controller pods in {session.controller_namespace}")
    name = found.holder.rpartition("_")[0] if isinstance(found, Leader) else ""
    leading = next((pod for pod in pods if pod.name == name), None)
    if leading is not None:
        return leading.version
    versions = {pod.version for pod in pods}
    return versions.pop() if len(versions) == 1 else NoAnswer("its pods have different versions")


def _controller_pod(pod: PodView) -> ControllerPod:
    conditions = pod.status.conditions or ()
    return ControllerPod(
        name=pod.metadata.name,
        ready=any(condition.type == "Ready" and condition.status == "True" for condition in conditions),
        version=_version(pod),
        host_network=pod.spec.host_network,
    )


def _version(pod: PodView) -> str | NoAnswer:
    """From the pod's label, else its image tag; NoAnswer if that is not a version, as `latest`."""
    if label := (pod.metadata.labels or {}).get(VERSION_LABEL):
        return label.removeprefix("v")
    image = (pod.spec.containers or (ContainerView(),))[0].image
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    return tag.removeprefix("v") if _RELEASE.fullmatch(tag) else NoAnswer(f"image {image} names no version")


CONTROLLER_PODS = replace(
    read_as(PODS, PodView, _controller_pod),
    only="app.kubernetes.io/name=kruise-ds,app.kubernetes.io/component=controller",
)
DEPLOYMENTS = GroupVersionResource(group="apps", plural="deployments")


async def who_am_i(session: Session) -> str:
    """The caller's user name. Empty if forbidden, slow or older than 1.28: a pause must not wait for it."""
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
    """Whether the user has the right. `namespace` is empty for cluster-scoped kinds."""

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
