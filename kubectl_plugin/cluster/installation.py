"""Reads facts about the controllers in the cluster.

Few users may read everything: a question without an answer yields `NoAnswer`, with the reason, instead of an error.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from typing import Final, TypeVar

from msgspec.structs import replace

from controller.api.containers import ContainerView
from controller.api.objects import Key, ObjectMeta, View
from controller.api.pod import PodView
from controller.kube.errors import ApiError, Forbidden, NotFound, Unreachable
from controller.kube.requests import DAEMONSETS, PODS, Resource
from kubectl_plugin.cluster.controller_lease import controller_leader, lease_holder
from kubectl_plugin.cluster.documents import list_objects, read_items
from kubectl_plugin.cluster.kinds import read_as
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.cluster.side_by_side import side_by_side
from kubectl_plugin.report.installation.facts import (
    ControllerPod,
    Leader,
    NoAnswer,
    OurDaemonSet,
    Rival,
)
from kubectl_plugin.report.network_plugin import network_sign

T = TypeVar("T")

VERSION_LABEL: Final = "app.kubernetes.io/version"
RIVAL_NAMESPACE: Final = "kruise-system"
RIVAL_LEASE: Final = "kruise-manager"
RIVAL_DEPLOYMENT: Final = "kruise-controller-manager"
LEADING_SECONDS: Final = 10.0
"""How long `coming_leader` waits for a holder of the Lease."""
_RELEASE = re.compile(r"v?\d+\.\d+\.\d+(?:[-+][\w.+-]+)?")


class _DeploymentStatus(View):
    ready_replicas: int = 0


class _DeploymentView(View):
    metadata: ObjectMeta
    status: _DeploymentStatus = _DeploymentStatus()


async def answer_or_reason(answer: Awaitable[T]) -> T | NoAnswer:
    """The answer, or why there is none. Raises Unreachable, because then no other question has an answer either."""
    try:
        return await answer
    except Unreachable:
        raise
    except Forbidden as error:
        return NoAnswer(f"no right to {error.verb} {error.what}")
    except ApiError as error:
        return NoAnswer(" ".join(error.message.split()))


async def coming_leader(session: Session) -> Leader | None:
    """The controller's Lease and its holder; None if there is no Lease. Raises ApiError.

    While nobody holds it, it is read again for up to `LEADING_SECONDS`: replicas are ready, and `kubectl rollout
    status` is done, shortly before one of them becomes the leader.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LEADING_SECONDS
    while True:
        found = await controller_leader(session)
        if (found is not None and found.holder) or loop.time() >= deadline:
            return found
        await asyncio.sleep(LEADING_SECONDS / 20)  # not watched: who may read this one Lease may seldom watch it


async def controller_pods(session: Session) -> tuple[ControllerPod, ...]:
    """The controller's pods in its namespace. Raises ApiError."""
    return tuple(await list_objects(session.client, CONTROLLER_PODS, session.controller_namespace))


async def our_daemonsets(session: Session) -> tuple[OurDaemonSet, ...]:
    """The Advanced DaemonSets of all namespaces, but those that nest too deeply to be decoded. Raises ApiError."""
    found = await read_items(session, DAEMONSETS)
    return tuple(
        OurDaemonSet(name=str(key), network=network_sign(one)) for key, one in found.items() if one is not None
    )


async def rival(session: Session) -> Rival:
    """What the user may read of OpenKruise's own manager: its Lease, its Deployment, or both.

    Raises Forbidden where neither can be read; Unreachable.
    """
    found, replicas = await side_by_side(
        answer_or_reason(lease_holder(session, Key(RIVAL_NAMESPACE, RIVAL_LEASE))),
        answer_or_reason(_ready_replicas(session, Key(RIVAL_NAMESPACE, RIVAL_DEPLOYMENT))),
    )
    if isinstance(found, NoAnswer) and isinstance(replicas, NoAnswer):
        raise Forbidden("get", f"leases and deployments in {RIVAL_NAMESPACE}", found.why)
    return Rival(
        leader=None if isinstance(found, NoAnswer) else found,
        replicas=None if isinstance(replicas, NoAnswer) else replicas,
    )


def version_of_leader(
    session: Session, found: Leader | NoAnswer | None, pods: tuple[ControllerPod, ...] | NoAnswer
) -> str | NoAnswer:
    """The version of the pod that holds the Lease; where that is not among `pods`, the one that all of them have."""
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


async def _ready_replicas(session: Session, deployment: Key) -> int | None:
    """The number of ready replicas; None if there is no such Deployment. Raises ApiError."""
    try:
        return await session.client.get(DEPLOYMENTS, deployment)
    except NotFound:
        return None


def _controller_pod(pod: PodView) -> ControllerPod:
    conditions = pod.status.conditions or ()
    return ControllerPod(
        name=pod.metadata.name,
        ready=any(one.type == "Ready" and one.status == "True" for one in conditions),
        version=_version(pod),
        host_network=pod.spec.host_network,
    )


def _version(pod: PodView) -> str | NoAnswer:
    """The version in the pod's label, else in its image's tag; no answer where the tag is no version, as `latest`."""
    if label := (pod.metadata.labels or {}).get(VERSION_LABEL):
        return label.removeprefix("v")
    image = (pod.spec.containers or (ContainerView(),))[0].image
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    return tag.removeprefix("v") if _RELEASE.fullmatch(tag) else NoAnswer(f"image {image} names no version")


CONTROLLER_PODS = replace(
    read_as(PODS, PodView, _controller_pod),
    only="app.kubernetes.io/name=kruise-ds,app.kubernetes.io/component=controller",
)
DEPLOYMENTS: Resource[_DeploymentView, int] = Resource(
    group="apps",
    plural="deployments",
    wire=_DeploymentView,
    project=lambda deployment: deployment.status.ready_replicas,
)
"""Deployments, each read as its number of ready replicas."""
