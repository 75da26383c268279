"""Rollouts of the agent over all nodes."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.beds.api import Object, Resource
from tests.beds.installed.witness import Witness, witnessing
from tests.beds.pods import image_of, node_of, serves
from tests.beds.real_node.images import HOST
from tests.beds.real_node.patience import LONG
from tests.beds.real_node.workloads import agent_set
from tests.real_node.place import Place

SECRETS = Resource("/api/v1", "secrets", "Secret")
LOGIN = "reader:sesame"
"""Name and password of who may pull."""


@asynccontextmanager
async def deployed(place: Place, **rolling: Any) -> AsyncIterator[Witness]:
    """Version v1 on all nodes, and a witness who has seen it."""
    async with deployed_as(place, agent_set("agent:v1", **rolling)) as witness:
        yield witness


@asynccontextmanager
async def deployed_as(place: Place, manifest: Object) -> AsyncIterator[Witness]:
    """The same for a DaemonSet `agent` of that version that somebody else made."""
    async with witnessing(place.api) as witness:
        await place.apply(manifest)
        await settled(place)
        await witness.until(lambda: witness.ready == {*place.workers}, "all first pods seen", LONG)
        assert await place.versions() == place.everywhere("v1")
        yield witness


async def settled(place: Place) -> None:
    """Wait until the status says that the newest version serves all nodes."""
    await place.settled(len(place.workers), "agent", LONG)


async def update(place: Place, image: str) -> None:
    path = "/spec/template/spec/containers/0/image"
    patch = [{"op": "replace", "path": path, "value": f"registry.test/{image}"}]
    await place.kubectl("patch", "ads", "agent", "--type=json", f"-p={json.dumps(patch)}")


async def opens(place: Place, login: str, name: str) -> None:
    """Make a Secret with which images of the registry can be pulled."""
    user, password = login.split(":")
    auths = {"auths": {HOST: {"username": user, "password": password}}}
    data = {".dockerconfigjson": base64.b64encode(json.dumps(auths).encode()).decode()}
    await place.api.create(
        SECRETS, {"metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson", "data": data}
    )


async def goes_node_by_node(place: Place) -> None:
    """A whole rollout, in which never more than one node is without a pod that is ready."""
    async with deployed(place, maxUnavailable=1) as witness:
        witness.floor = len(place.workers) - 1
        await update(place, "agent:v2")
        await settled(place)
        assert await place.versions() == place.everywhere("v2")
    assert await place.warnings() == []


def served_by(pods: list[Object], version: str) -> set[str]:
    """The nodes whose pods have this version and are ready."""
    return {node_of(pod) for pod in pods if serves(pod) and image_of(pod).endswith(f":{version}")}
