"""Pods and DaemonSets of the agent, what one of its pods answers, what events warn of; and the controller as a
Deployment whose pods really run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from tests.beds.api import DAEMONSETS, EVENTS, LEASES, PODS, Api, Object, Resource
from tests.beds.audit import NAME, NAMESPACE
from tests.beds.installed.workspace import Kubectl
from tests.beds.manifests import MANIFESTS
from tests.beds.objects import serves
from tests.beds.real_node.node import LONG
from tests.beds.real_node.registry import HOST

PORT = 8080
NATIVE = Resource("/apis/apps/v1", "daemonsets", "DaemonSet")
TOO_SLOW = ("timed out", "deadline exceeded")
"""How the kubelet says that the machine was busy; it tries again."""


class Asked(Protocol):
    """A cluster that can pass on a question to a pod of the agent."""

    async def ask(self, pod: Object, path: str = "/") -> tuple[int, str]: ...


def container(image: str, **environment: str) -> Object:
    """`image` is a name in the registry, such as `agent:v1`; a probe asks it for /ready each second.

    The probe is patient: a busy machine must not take a pod's readiness.
    """
    question = {"httpGet": {"path": "/ready", "port": PORT}}
    probe = {**question, "periodSeconds": 1, "timeoutSeconds": 10, "failureThreshold": 10}
    return {
        "name": "agent",
        "image": f"{HOST}/{image}",
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "readinessProbe": probe,
    }


def agent_pod(name: str, image: str, *, on: str, **environment: str) -> Object:
    """One that names its node itself."""
    spec = {"nodeName": on, "containers": [container(image, **environment)]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def agent_set(
    image: str,
    *,
    name: str = "agent",
    kind: Resource = DAEMONSETS,
    environment: Mapping[str, str] = MappingProxyType({}),
    **rolling: Any,
) -> Object:
    """A DaemonSet, ours or the native one; `rolling` are fields of rollingUpdate."""
    labels = {"app": name}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container(image, **environment)]}},
        },
    }


async def version_of(cluster: Asked, pod: Object) -> str:
    """What the program in the pod says of itself; empty when it does not answer."""
    status, body = await cluster.ask(pod)
    return str(msgspec.json.decode(body)["version"]) if status == 200 else ""


async def environment_of(cluster: Asked, pod: Object) -> dict[str, str]:
    """What the program in the pod has in its environment."""
    status, body = await cluster.ask(pod)
    assert status == 200, f"{pod['metadata']['name']} does not answer"
    return dict(one.split("=", 1) for one in msgspec.json.decode(body)["environment"])


async def warnings(api: Api) -> list[str]:
    """What events of the namespace warn of, but for probes that fail while a program starts or ends, and for time."""
    told = [one for one in await api.list(EVENTS) if one["type"] == "Warning" and one["reason"] != "Unhealthy"]
    words = [f"{one['reason']}: {one['message']}" for one in told]
    return [one for one in words if not any(slow in one for slow in TOO_SLOW)]


DEPLOYMENTS = Resource("/apis/apps/v1", "deployments", "Deployment")


class Cluster(Protocol):
    """Any that has the image on its nodes."""

    @property
    def plane(self) -> Kubectl: ...
    @property
    def api(self) -> Api: ...


class Installation:
    """What `manifests/overlays/default` has brought."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.api = Api(cluster.api.transport, NAMESPACE)

    async def replicas(self, count: int = 2) -> list[Object]:
        """Wait until so many are Ready, and no other is there."""
        return await self.api.wait_for(
            PODS, lambda pods: len(pods) == count == sum(map(serves, pods)), f"{count} replicas Ready", seconds=LONG
        )

    async def leader(self, *, but: str = "") -> Object:
        """Wait until another pod than `but` holds the Lease; returns it."""
        found = await self.api.wait_for(
            LEASES, lambda leases: _holder(leases) not in ("", but), f"another pod than {but} leads", seconds=LONG
        )
        return await self.api.get(PODS, _holder(found))

    async def kubectl(self, *words: str) -> str:
        done = await self.cluster.plane.run_kubectl("--namespace", NAMESPACE, *words, seconds=LONG)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    async def logged(self, pod: str) -> list[Object]:
        """All lines of `kubectl logs`; each is JSON."""
        return [msgspec.json.decode(line) for line in (await self.kubectl("logs", pod)).splitlines()]

    async def warnings(self) -> list[str]:
        return await warnings(self.api)


def _holder(leases: list[Object]) -> str:
    """The name of the pod; the identity has something random after it."""
    return next((str(one["spec"].get("holderIdentity") or "").partition("_")[0] for one in leases), "")


@asynccontextmanager
async def installed(cluster: Cluster) -> AsyncIterator[Installation]:
    """Apply the overlay as it is, and take the Deployment away at the end. The nodes have the image."""
    here = Installation(cluster)
    await here.kubectl("apply", "--server-side", "-k", str(MANIFESTS / "overlays" / "default"))
    try:
        yield here
    finally:
        await here.kubectl("delete", "deployment", NAME)
        await here.api.wait_for(PODS, lambda pods: not pods, "no replica is left", seconds=LONG)
