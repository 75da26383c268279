"""A native DaemonSet on six nodes, both controllers, and what is asked of its pods while it changes sides."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.beds.api import Object
from tests.beds.installed.witness import Witness
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.native import native_status
from tests.beds.pods import controller_of, image_of, is_live, node_of

NODES = tuple(f"node-{number}" for number in range(6))
IMAGE = "registry.example.com/demo"
OURS, THEIRS = "apps.kruise.io/v1beta1", "apps/v1"


def written(version: str, api_version: str = THEIRS, rolling: dict[str, int] | None = None) -> Object:
    """As somebody keeps it in a file."""
    document = sample("ds.demo.yaml")
    document["apiVersion"] = api_version
    document["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling or {"maxUnavailable": 1}}
    document["spec"]["template"]["spec"]["containers"][0]["image"] = f"{IMAGE}:{version}"
    return document


async def native_settled(bed: Workspace) -> Object:
    return await native_status(bed.api, "demo", numberAvailable=len(NODES), updatedNumberScheduled=len(NODES))


@asynccontextmanager
async def untouched(bed: Workspace, witness: Witness) -> AsyncIterator[None]:
    """In the block no pod goes, is changed in more than its owner, or gets a second one beside it."""
    await witness.up_to_date()
    witness.floor, witness.most_pairs = len(witness.ready), 0
    before, gone = _identities(await bed.pods()), len(witness.retired)
    yield
    await witness.up_to_date()
    assert len(witness.retired) == gone, "no pod went"
    assert _identities(await bed.pods()) == before
    witness.floor = len(NODES) - 1


def _identities(pods: list[Object]) -> dict[str, tuple[str, Object, str]]:
    """By node."""
    metas = {node_of(pod): pod["metadata"] for pod in pods if is_live(pod)}
    return {node: (meta["uid"], meta["labels"], image_of(pod)) for pod in pods for node, meta in metas.items()}


async def owners(bed: Workspace) -> set[str]:
    return {controller_of(pod)["apiVersion"] for pod in await bed.pods()}


async def images(bed: Workspace) -> dict[str, str]:
    return {node_of(pod): image_of(pod).rpartition(":")[2] for pod in await bed.pods() if is_live(pod)}


async def goes_on(bed: Workspace, told: str) -> None:
    """As `migrate` has said it: the native one updates the nodes that kept an older revision."""
    command = next(line.partition("To go on: kubectl ")[2] for line in told.splitlines() if "To go on: " in line)
    await bed.kubectl(*shlex.split(command))
    await native_settled(bed)
    assert {*(await images(bed)).values()} == {"v2"}
