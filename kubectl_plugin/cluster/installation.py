"""What can be found out about the cluster, the controller in it, and our rights there.

Most people may not look at everything: what cannot be known is `NoAnswer`, with the reason, and no error.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

from controller.api.base import fields_of
from controller.api.meta import Key
from controller.api.wellknown import GROUP
from controller.kube.errors import ApiError, Forbidden, Unreachable
from controller.kube.kinds import DAEMONSETS, PODS
from kubectl_plugin.cluster.controller import holder, leader
from kubectl_plugin.cluster.documents import ask, ask_whether_there, items, review
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.report.installation.facts import (
    ControllerPod,
    Leader,
    NoAnswer,
    OurDaemonSet,
    Right,
    Rival,
)
from kubectl_plugin.report.network_plugin import network_sign

T = TypeVar("T")

PODS_OF_CONTROLLER: Final = "app.kubernetes.io/name=kruise-ds,app.kubernetes.io/component=controller"
VERSION_LABEL: Final = "app.kubernetes.io/version"
RIVAL_NAMESPACE: Final = "kruise-system"
RIVAL_LEASE: Final = "kruise-manager"
RIVAL_DEPLOYMENT: Final = "kruise-controller-manager"
LEADING_SECONDS: Final = 10.0
_RELEASE = re.compile(r"v?\d+\.\d+\.\d+(?:[-+][\w.+-]+)?")


async def known(answer: Awaitable[T]) -> T | NoAnswer:
    """The answer, or why there is none. Raises Unreachable: then nothing at all can be known."""
    try:
        return await answer
    except Unreachable:
        raise
    except Forbidden as error:
        return NoAnswer(f"no right to {error.verb} {error.what}")
    except ApiError as error:
        return NoAnswer(" ".join(error.message.split()))


async def server_version(session: Session) -> str:
    document: Any = await ask(session, "/version", "version")
    return str(document.get("gitVersion") or "")


async def served_versions(session: Session) -> tuple[str, ...]:
    """Versions in which the server has Advanced DaemonSets; the group alone may be there for other kinds."""
    group: Any = await ask_whether_there(session, f"/apis/{GROUP}", GROUP)
    names = [str(entry["version"]) for entry in (group or {}).get("versions") or ()]
    lists: list[Any] = await asyncio.gather(
        *(ask_whether_there(session, f"/apis/{GROUP}/{name}", f"{GROUP}/{name}") for name in names)
    )
    return tuple(sorted(name for name, one in zip(names, lists, strict=True) if one and _serves(one)))


async def stored_version(session: Session) -> str:
    """The version that etcd holds. Raises NotFound where the kind does not come from a CRD."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{DAEMONSETS.name}"
    document: Any = await ask(session, path, f"customresourcedefinitions {DAEMONSETS.name}")
    return next(str(one["name"]) for one in document["spec"]["versions"] if one.get("storage"))


async def coming_leader(session: Session) -> Leader | None:
    """The same, of replicas that are ready: they are so just before one of them leads, for which it gets
    `LEADING_SECONDS`. `kubectl rollout status` waits only for the first."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LEADING_SECONDS
    while True:
        found = await leader(session)
        if (found is not None and found.holder) or loop.time() >= deadline:
            return found
        await asyncio.sleep(LEADING_SECONDS / 20)  # not watched: who may read this one Lease may seldom watch it


async def controller_pods(session: Session) -> tuple[ControllerPod, ...]:
    """Those in the namespace of the controller, with the version that the image says."""
    namespace = session.controller_namespace
    query = (("labelSelector", PODS_OF_CONTROLLER),)
    document: Any = await ask(session, PODS.collection(namespace), f"pods in {namespace}", query=query, verb="list")
    return tuple(_controller_pod(item) for item in document.get("items") or ())


async def daemons(session: Session) -> tuple[OurDaemonSet, ...]:
    """Of all namespaces."""
    found = await items(session, DAEMONSETS)
    return tuple(
        OurDaemonSet(name=str(key), network=network_sign(one)) for key, one in found.items() if one is not None
    )


async def rival(session: Session) -> Rival:
    """What may be seen of it. A lease is enough to know that it runs."""
    path = f"/apis/apps/v1/namespaces/{RIVAL_NAMESPACE}/deployments/{RIVAL_DEPLOYMENT}"
    found, deployment = await asyncio.gather(
        known(holder(session, Key(RIVAL_NAMESPACE, RIVAL_LEASE))),
        known(ask_whether_there(session, path, f"deployments.apps {RIVAL_NAMESPACE}/{RIVAL_DEPLOYMENT}")),
    )
    if isinstance(found, NoAnswer) and isinstance(deployment, NoAnswer):
        raise Forbidden("get", f"leases and deployments in {RIVAL_NAMESPACE}", found.why)
    replicas: int | None = None
    if isinstance(deployment, dict):
        status: Any = deployment.get("status") or {}
        replicas = int(status.get("readyReplicas") or 0)
    return Rival(leader=None if isinstance(found, NoAnswer) else found, replicas=replicas)


async def right(session: Session, verb: str, group: str, resource: str, namespace: str) -> Right:
    """Whether we have it, as the server says. `namespace`: "" for kinds without one."""
    named = f"{resource}.{group}" if group else resource
    attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace}
    body: Any = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = await known(review(session, path, "selfsubjectaccessreviews", body))
    allowed = answer if isinstance(answer, NoAnswer) else bool(fields_of(answer.get("status")).get("allowed"))
    return Right(verb=verb, resource=named, allowed=allowed)


def version_of_leader(
    session: Session, found: Leader | NoAnswer | None, pods: tuple[ControllerPod, ...] | NoAnswer
) -> str | NoAnswer:
    """Of the pod that holds the lease; where that one is not among `pods`, what all of these agree on."""
    if isinstance(pods, NoAnswer):
        return pods
    if not pods:
        return NoAnswer(f"no controller pods in {session.controller_namespace}")
    name = found.holder.rpartition("_")[0] if isinstance(found, Leader) else ""
    leading = next((pod for pod in pods if pod.name == name), None)
    if leading is not None:
        return leading.version
    versions = {pod.version for pod in pods}
    return versions.pop() if len(versions) == 1 else NoAnswer("its pods have several versions")


def _serves(document: Any) -> bool:
    return any(entry.get("name") == DAEMONSETS.plural for entry in document.get("resources") or ())


def _controller_pod(item: Any) -> ControllerPod:
    conditions = (item.get("status") or {}).get("conditions") or ()
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    host = item["spec"].get("hostNetwork") is True
    return ControllerPod(name=item["metadata"]["name"], ready=ready, version=_version(item), host_network=host)


def _version(item: Any) -> str | NoAnswer:
    """The label's, else the image's tag. A tag such as `latest` says nothing."""
    label = (item["metadata"].get("labels") or {}).get(VERSION_LABEL)
    if label:
        return str(label).removeprefix("v")
    image = str(item["spec"]["containers"][0]["image"])
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    return tag.removeprefix("v") if _RELEASE.fullmatch(tag) else NoAnswer(f"image {image} names no version")
