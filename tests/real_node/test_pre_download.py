"""Rollouts in place whose images go ahead, from a registry that fails for one node or wants a secret: a node that
cannot have the image is named, and its pod serves on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.beds.api import DAEMONSETS, EVENTS, IMAGE_PULL_JOBS, PODS, Object
from tests.beds.installed.plugin import Plugin
from tests.beds.objects import condition, image_of, node_of
from tests.beds.real_node import Manners
from tests.beds.real_node.clients import asking_pods
from tests.beds.real_node.node import LONG
from tests.beds.real_node.workloads import agent_set
from tests.real_node.bed import Bed
from tests.real_node.rollouts import LOGIN, deployed_as, opens, served_by, settled, update
from tests.system.in_place import identity, restarts

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("puller")]

IN_PLACE: dict[str, Any] = {"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 1}
EVERYWHERE = {"apps.kruise.io/image-predownload-parallelism": "100%"}
KEY = {"imagePullSecrets": [{"name": "key"}]}


@asynccontextmanager
async def deployed(
    bed: Bed, annotations: Mapping[str, str] | None = None, *, pod: Mapping[str, Any] = KEY
) -> AsyncIterator[dict[str, tuple[str, ...]]]:
    """v1 on all nodes, of which one at most may be without a ready pod; yields the identity of each node's pod. `pod`
    are fields of the pod spec, by which the registry may be opened."""
    new = agent_set("agent:v1", **IN_PLACE)
    new["metadata"]["annotations"] = {**EVERYWHERE, **(annotations or {})}
    new["spec"]["template"]["spec"] |= pod
    async with deployed_as(bed, new) as witness:
        nodes = len(bed.workers)
        witness.floor, witness.most_pairs = nodes - 1, nodes  # pullers are pods too
        yield {node: identity(pod) for node, pod in (await agents(bed)).items()}


async def agents(bed: Bed) -> dict[str, Object]:
    """The daemon pods by node, without pullers."""
    return {node_of(pod): pod for pod in await bed.pods() if pod["metadata"]["labels"].get("app") == "agent"}


async def left_alone(bed: Bed, words: str, *nodes: str) -> None:
    """Wait until these are named, by condition, events and `nodes`; nothing has happened to their pods."""

    def told(found: list[Object]) -> str:
        one = condition(found[0], "Reconciling") if found else {}
        return str(one.get("message")) if one.get("reason") == "ImagesNotPulled" else ""

    def all_told(found: list[Object]) -> bool:
        return all(node in told(found) for node in nodes)

    await bed.api.wait_for(DAEMONSETS, all_told, f"{nodes} are named", seconds=LONG)

    def by_events(found: list[Object]) -> dict[str, str]:
        failed = [one["message"] for one in found if one["reason"] == "ImagePullFailed"]
        return dict(message.split(": ", 1) for message in failed)

    events = await bed.api.wait_for(EVENTS, lambda one: by_events(one).keys() == {*nodes}, "events", seconds=LONG)
    assert all(words in message for message in by_events(events).values()), by_events(events)

    def counted(found: list[Object]) -> bool:
        return [(one.get("status") or {}).get("failedNodes") for one in found] == [sorted(nodes)]

    await bed.api.wait_for(IMAGE_PULL_JOBS, counted, "told by the job", seconds=LONG)
    plane = bed.ours.plane
    printed = await Plugin(plane.kubectl, plane.kubeconfig, bed.namespace).ok("nodes", "agent", "-o", "wide")
    lines = {line.split()[0]: line for line in printed.splitlines() if line.startswith("node-")}
    assert {node for node, line in lines.items() if "its new image cannot be pulled" in line} == {*nodes}, printed
    assert all(words in lines[node] for node in nodes), printed
    pods = await agents(bed)
    assert [(image_of(pods[node]).rpartition(":")[2], restarts(pods[node])) for node in nodes] == [("v1", 0)] * len(
        nodes
    )


async def test_a_node_whose_registry_fails_waits_for_the_next_image(bed: Bed) -> None:
    registry, images = bed.ours.registry, bed.ours.images
    for version in ("half", "whole"):
        registry.put(f"agent:{version}", images.agent(version))
    async with deployed(bed) as before, asking_pods(bed.ours, bed.api) as asked:
        with bed.nodes["node-2"].without_registry():
            await update(bed, "agent:half")
            await left_alone(bed, "connection refused", "node-2")
            others = {"node-1", "node-3"}
            await bed.api.wait_for(
                PODS, lambda pods: served_by(pods, "half") == others, "the others have it", seconds=LONG
            )
            assert await bed.versions() == {"node-1": "half", "node-2": "v1", "node-3": "half"}
            assert "node-2" not in asked.waited
        await update(bed, "agent:whole")
        await settled(bed)
        pods = await agents(bed)
        assert {node: identity(pod) for node, pod in pods.items()} == before
        assert {node: restarts(pod) for node, pod in pods.items()} == {"node-1": 2, "node-2": 1, "node-3": 2}
        assert await bed.versions() == bed.everywhere("whole")


async def test_without_its_secret_a_template_reaches_no_node_and_with_it_all(bed: Bed) -> None:
    registry, images = bed.ours.registry, bed.ours.images
    for version in ("closed", "opened"):
        registry.put(f"agent:{version}", images.agent(version), Manners(login=LOGIN))
    async with deployed(bed) as before, asking_pods(bed.ours, bed.api) as asked:
        await update(bed, "agent:closed")
        await left_alone(bed, "authorization failed", *bed.workers)
        assert await bed.versions() == bed.everywhere("v1")
        assert dict(asked.waited) == {}
        await opens(bed, LOGIN, "key")
        await update(bed, "agent:opened")
        await settled(bed)
        pods = await agents(bed)
        assert {node: identity(pod) for node, pod in pods.items()} == before
        assert [restarts(pod) for pod in pods.values()] == [1, 1, 1]
        assert await bed.versions() == bed.everywhere("opened")
