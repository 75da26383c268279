"""A DaemonSet of one container whose cpu and memory are changed, with the gate open."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.settings import FeatureGates
from tests.beds.api import Object
from tests.beds.controller.bed import Bed
from tests.beds.objects import V1
from tests.system.in_place import container_of, in_place


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
