"""A rollout in steps where containers really run: one node, a soak, an approval; and a bad image that goes back."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.objects import epoch
from tests.beds.api import DAEMONSETS, Object
from tests.beds.installed.plugin import Plugin
from tests.beds.objects import node_of
from tests.beds.real_node.clients import Clients, asking
from tests.beds.real_node.node import LONG
from tests.beds.real_node.workloads import container
from tests.real_node.bed import Bed, deployed, settled, update
from tests.system.in_place import restarts

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("controller")]

SOAK, AFTER = 5, 3
"""Seconds: of the first step, and until a node without a pod counts as a failure."""
STEPS = [{"nodes": 1, "soak": f"{SOAK}s", "approval": "Required"}, {"nodes": "100%"}]
GO_BACK = {"unavailableNodes": 1, "after": f"{AFTER}s", "action": "RollBack"}


async def test_a_bad_image_costs_one_node_its_answers_until_it_is_taken_back(bed: Bed) -> None:
    """The nodes that the step does not allow do not miss an answer; with maxSurge none does."""
    cluster = bed.ours
    first, *others = sorted(bed.workers, reverse=True)
    rolling = {"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 1, "steps": STEPS}
    async with deployed(bed, **rolling) as witness, asking(cluster, bed.api, "agent") as clients:
        witness.floor = len(bed.workers) - 1
        stable = await approved(bed, clients, first)

        await edit(bed, "agent:none", onFailure=GO_BACK)
        why = await went_back(bed, clients, stable)
        assert f"on {first}" in why
        assert "ImagePull" in why
        assert {node_of(pod): restarts(pod) for pod in await bed.pods()} == dict.fromkeys(others, 1) | {first: 2}
        assert clients.waited.keys() == {first}
        assert clients.waited[first] > AFTER
        tell("a bad image, in place", clients)

        witness.floor, witness.most_pairs = len(bed.workers), 1
        await edit(bed, "agent:nothing", rollingUpdateType="Standard", maxSurge=1, maxUnavailable=0)
        assert f"on {first}" in await went_back(bed, clients, stable)
        assert dict(clients.waited) == {}


async def approved(bed: Bed, clients: Clients, first: str) -> str:
    """Version v2 on one node, everywhere once that is approved; returns its revision once it is the stable one."""
    await update(bed, "agent:v2")
    record = await recorded(bed, "the step is over but for the approval", phase="AwaitingApproval", step=1)
    reached, over = (epoch(record[f"{name}Time"]) or 0.0 for name in ("stepReached", "lastTransition"))
    assert over - reached >= SOAK - 1  # in whole seconds, of which the first is rounded up
    assert await bed.versions() == bed.everywhere("v1") | {first: "v2"}
    await plugin(bed).ok("promote", "agent")
    await settled(bed)
    await clients.all_hear("v2")
    tell("a good image, in place", clients)
    newest: str = (await bed.api.get(DAEMONSETS, "agent"))["status"]["updateRevision"]
    await recorded(bed, "v2 is the stable revision", phase="Healthy", stableRevision=newest)
    return newest


async def went_back(bed: Bed, clients: Clients, stable: str) -> str:
    """Wait for the abort as a pipeline does, and until all nodes have the stable revision; returns the cause."""
    ran = await plugin(bed).run("status", "agent", "-w", seconds=LONG)
    assert ran.code == 4, str(ran)
    await settled(bed)
    record = await recorded(bed, "still aborted", phase="Aborted")
    assert (await bed.api.get(DAEMONSETS, "agent"))["status"]["updateRevision"] == stable
    assert await bed.versions() == bed.everywhere("v2")
    await clients.all_have_an_answer()
    return str(record["abortedMessage"])


async def recorded(bed: Bed, what: str, **wanted: Any) -> Object:
    """Wait until `status.rollout` of the newest spec has these fields; returns it."""

    def holds(found: list[Object]) -> bool:
        status = found[0]["status"]
        seen: bool = status["observedGeneration"] == found[0]["metadata"]["generation"]
        return seen and wanted.items() <= status["rollout"].items()

    (found,) = await bed.api.wait_for(DAEMONSETS, holds, what, seconds=LONG)
    record: Object = found["status"]["rollout"]
    return record


async def edit(bed: Bed, image: str, **rolling: Any) -> None:
    """Another image, and fields of rollingUpdate, in one write."""
    template = {"spec": {"containers": [container(image)]}}
    await bed.api.patch(
        DAEMONSETS, "agent", {"spec": {"template": template, "updateStrategy": {"rollingUpdate": rolling}}}
    )


def plugin(bed: Bed) -> Plugin:
    return Plugin(bed.ours.plane.kubectl, bed.ours.plane.kubeconfig, bed.namespace)


def tell(what: str, clients: Clients) -> None:
    """And count anew."""
    print(f"seconds without an answer, {what}: {dict(clients.waited)}")
    clients.waited.clear()
