"""What tests of updates in place ask of pods and of what was written; and a DaemonSet that is resized."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.settings import FeatureGates
from tests.beds.api import PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, condition, daemonset, node_of, stays

GATE = "InPlaceUpdateReady"
STATE = "apps.kruise.io/inplace-update-state"
SLOW = Behaviour(notice=0.1, pull=20.0, terminate=0.2, gate=0.1)
ONE_BY_ONE = {"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 1}


def in_place(*, most: int | str = 1, **options: Any) -> Object:
    """A DaemonSet whose pods are updated in place, `most` at a time."""
    return daemonset(rolling={**ONE_BY_ONE, "maxUnavailable": most}, **options)


def with_grace(seconds: int, **options: Any) -> Object:
    """The same; each node has so many seconds between its traffic and its update."""
    new = in_place(**options)
    new["metadata"]["annotations"] = {"kruise-ds/in-place-grace-seconds": str(seconds)}
    return new


def by_priority(image: str, **keys: str) -> list[Object]:
    """Containers by name, each with the key of its launch priority."""
    sources = {name: {"configMapKeyRef": {"name": "barrier", "key": key}} for name, key in keys.items()}
    env = {name: [{"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": one}] for name, one in sources.items()}
    return [{"name": name, "image": image, "env": env[name]} for name in keys]


def identity(pod: Object) -> tuple[str, ...]:
    """What an update in place never changes."""
    status = pod["status"]
    return (pod["metadata"]["name"], pod["metadata"]["uid"], node_of(pod), str(status.get("podIP")))


def identities(pods: dict[str, Object]) -> dict[str, tuple[str, ...]]:
    return {node: identity(pod) for node, pod in pods.items()}


def container_of(pod: Object, name: str = "agent") -> Object:
    found: list[Object] = pod["status"].get("containerStatuses") or []
    return next((one for one in found if one["name"] == name), {})


def restarts(pod: Object, name: str = "agent") -> int:
    return int(container_of(pod, name)["restartCount"])


def runs(pod: Object, image: str, name: str = "agent") -> bool:
    """Whether the node runs that image for this container, by its own account."""
    found = container_of(pod, name)
    return "running" in (found.get("state") or {}) and found["image"] == image


async def serving(bed: Bed, image: str) -> set[str]:
    """Nodes whose pod really runs this image."""
    return {node_of(pod) for pod in await bed.api.list(PODS) if stays(pod, "agent") and runs(pod, image)}


def is_open(pod: Object) -> bool:
    return bool(condition(pod, GATE).get("status") == "True")


def told(bed: Bed) -> list[str]:
    """What was written to pods, in order: "node-1 pods/status"."""
    return [f"{write.node} {write.resource}" for write in bed.journal.work if write.resource.startswith("pods")]


def small(cpu: str = "100m", memory: str = "64Mi") -> Object:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": "1", "memory": "1Gi"}}


def container(image: str = V1, resources: Object | None = None, **fields: Any) -> Object:
    return {"name": "agent", "image": image, "resources": resources or small(), **fields}


async def deployed(bed: Bed, count: int, *, annotations: Object | None = None, **fields: Any) -> None:
    await bed.controller.stop()
    bed.controller.start(msgspec.structs.replace(bed.controller.settings, gates=FeatureGates(resize=True)))
    await bed.add_nodes(count)
    new = in_place(pod={"containers": [container(**fields)]})
    new["metadata"]["annotations"] = annotations or {}
    await bed.deploy(new)


async def edit(bed: Bed, **fields: Any) -> None:
    await bed.edit({"template": {"spec": {"containers": [container(**fields)]}}})


def cpu_of(pod: Object) -> str:
    return str(container_of(pod)["resources"]["requests"]["cpu"])
