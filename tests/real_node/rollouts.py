"""Rollouts of the agent over all nodes."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.beds.api import Object, Resource
from tests.beds.installed.witness import Witness, witnessing
from tests.beds.objects import image_of, node_of, serves
from tests.beds.real_node.node import LONG
from tests.beds.real_node.registry import HOST
from tests.beds.real_node.workloads import agent_set
from tests.real_node.bed import Bed

SECRETS = Resource("/api/v1", "secrets", "Secret")
LOGIN = "reader:sesame"
"""Name and password of who may pull."""


@asynccontextmanager
async def deployed(bed: Bed, **rolling: Any) -> AsyncIterator[Witness]:
    """Version v1 on all nodes, and a witness who has seen it."""
    async with deployed_as(bed, agent_set("agent:v1", **rolling)) as witness:
        yield witness


@asynccontextmanager
async def deployed_as(bed: Bed, manifest: Object) -> AsyncIterator[Witness]:
    """The same for a DaemonSet `agent` of that version that somebody else made."""
    async with witnessing(bed.api) as witness:
        await bed.apply(manifest)
        await settled(bed)
        await witness.until(lambda: witness.ready == {*bed.workers}, "all first pods seen", LONG)
        assert await bed.versions() == bed.everywhere("v1")
        yield witness


async def settled(bed: Bed) -> None:
    """Wait until the status says that the newest version serves all nodes."""
    await bed.settled(len(bed.workers), "agent", LONG)


async def update(bed: Bed, image: str) -> None:
    path = "/spec/template/spec/containers/0/image"
    patch = [{"op": "replace", "path": path, "value": f"registry.test/{image}"}]
    await bed.kubectl("patch", "ads", "agent", "--type=json", f"-p={json.dumps(patch)}")


async def opens(bed: Bed, login: str, name: str) -> None:
    """Make a Secret with which images of the registry can be pulled."""
    user, password = login.split(":")
    auths = {"auths": {HOST: {"username": user, "password": password}}}
    data = {".dockerconfigjson": base64.b64encode(json.dumps(auths).encode()).decode()}
    await bed.api.create(
        SECRETS, {"metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson", "data": data}
    )


async def goes_node_by_node(bed: Bed) -> None:
    """A whole rollout, in which never more than one node is without a pod that is ready."""
    async with deployed(bed, maxUnavailable=1) as witness:
        witness.floor = len(bed.workers) - 1
        await update(bed, "agent:v2")
        await settled(bed)
        assert await bed.versions() == bed.everywhere("v2")
    assert await bed.warnings() == []


def served_by(pods: list[Object], version: str) -> set[str]:
    """The nodes whose pods have this version and are ready."""
    return {node_of(pod) for pod in pods if serves(pod) and image_of(pod).endswith(f":{version}")}
