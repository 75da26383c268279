"""Pods and DaemonSets of the agent, what one of its pods answers, and what events warn of."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from tests.beds.api import DAEMONSETS, EVENTS, Api, Object, Resource
from tests.beds.real_node.images import HOST

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


def cannot_pull(pod: Object) -> bool:
    """Whether a container of it waits for an image that cannot be had. The two reasons take turns."""
    states = [one.get("state") or {} for one in pod["status"].get("containerStatuses") or []]
    reasons = {(state.get("waiting") or {}).get("reason") for state in states}
    return not reasons.isdisjoint(("ErrImagePull", "ImagePullBackOff"))


async def warnings(api: Api) -> list[str]:
    """What events of the namespace warn of, but for probes that fail while a program starts or ends, and for time."""
    told = [one for one in await api.list(EVENTS) if one["type"] == "Warning" and one["reason"] != "Unhealthy"]
    words = [f"{one['reason']}: {one['message']}" for one in told]
    return [one for one in words if not any(slow in one for slow in TOO_SLOW)]
