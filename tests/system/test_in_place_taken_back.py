"""What an update in place writes, and a webhook or another controller takes back each time: it is told of, tried ever
more seldom, and goes on when they let it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.beds.api import PODS, STRATEGIC_MERGE_PATCH, Object
from tests.beds.controller.bed import Bed
from tests.beds.objects import V1, V2, condition, node_of
from tests.beds.simulator.cluster import Attempt
from tests.system.in_place import GATE, SLOW, by_priority, in_place, is_open, restarts, runs
from tests.system.resizes import container, deployed, small
from tests.system.webhook import judged

WORDS = "taken back by a webhook or by another controller"


@dataclass(frozen=True)
class Case:
    """A write that is taken back on one node, and the edit that it belongs to."""

    subresource: str
    take_back: Callable[[Object], None]
    template: Object
    grace: int = 0


def gate_stays(status: str) -> Callable[[Object], None]:
    def put_back(pod: Object) -> None:
        for one in pod["status"].get("conditions") or []:
            if one["type"] == GATE:
                one["status"] = status

    return put_back


def resources_stay(pod: Object) -> None:
    pod["spec"]["containers"][0]["resources"] = small()


BY_IMAGE: Object = {"spec": {"containers": [container(V2)]}}
CASES = {
    "the gate that is closed for a grace period": Case("status", gate_stays("True"), BY_IMAGE, grace=20),
    "the gate that is opened again": Case("status", gate_stays("False"), BY_IMAGE),
    "the resize": Case("resize", resources_stay, {"spec": {"containers": [container(resources=small(cpu="200m"))]}}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_it_is_told_of_and_not_fought(bed: Bed, case: Case) -> None:
    await deployed(bed, 2, annotations={"kruise-ds/in-place-grace-seconds": str(case.grace)} if case.grace else {})

    def put_back(attempt: Attempt) -> None:
        if (attempt.verb, attempt.subresource, node_of(attempt.object)) == ("update", case.subresource, "node-1"):
            case.take_back(attempt.object)

    with judged(bed, put_back):
        await bed.edit({"template": case.template})
        assert WORDS in (await bed.condition("Degraded", "WritesFail"))["message"]
        await asyncio.sleep(60)
        bed.journal.clear()
        await asyncio.sleep(300)
        assert len(bed.journal.writes) < 20, bed.journal
    bed.patience = 1200.0
    await bed.settled()
    await bed.condition("Degraded", "AsExpected")


def put_back(name: str, image: str, *, node: str = "node-1") -> Callable[[Attempt], None]:
    """An image of one container on one node, in whatever is written to the pod."""

    def judge(attempt: Attempt) -> None:
        if attempt.verb == "update" and not attempt.subresource and node_of(attempt.object) == node:
            for container in attempt.object["spec"]["containers"]:
                if container["name"] == name:
                    container["image"] = image

    return judge


async def test_an_image_put_back_leaves_a_serving_old_pod_and_no_completion(
    bed: Bed,
) -> None:
    await bed.deploy(in_place(), nodes=2)
    with judged(bed, put_back("agent", V1)):
        await bed.set_image(V2)
        assert WORDS in (await bed.condition("Degraded", "WritesFail"))["message"]
        await asyncio.sleep(60)
        pods = await bed.pods()
        assert runs(pods["node-0"], V2), "the other node is updated all the same"
        assert (is_open(pods["node-1"]), condition(pods["node-1"], "Ready")["status"]) == (True, "True")
        await bed.status(updated=1, available=2)
        bed.journal.clear()
        await asyncio.sleep(300)
        assert len(bed.journal.writes) < 40, bed.journal
    bed.patience = 1200.0
    await bed.settled()
    await bed.condition("Degraded", "AsExpected")
    assert [(runs(pod, V2), restarts(pod)) for pod in (await bed.pods()).values()] == [(True, 1)] * 2


async def test_a_later_batchs_image_put_back_does_not_count_as_updated(bed: Bed) -> None:
    await bed.deploy(in_place(pod={"containers": by_priority(V1, agent="p_0", first="p_20")}), nodes=1)
    with judged(bed, put_back("agent", V1, node="node-0")):
        await bed.edit({"template": {"spec": {"containers": by_priority(V2, agent="p_0", first="p_20")}}})
        assert WORDS in (await bed.condition("Degraded", "WritesFail"))["message"]
        await asyncio.sleep(60)
        await bed.status(updated=0, available=1)
    bed.patience = 1200.0
    await bed.settled()
    pod = (await bed.pods())["node-0"]
    assert [(runs(pod, V2, name), restarts(pod, name)) for name in ("agent", "first")] == [(True, 1)] * 2


async def test_an_image_put_back_during_the_pull_is_written_again(bed: Bed) -> None:
    await bed.deploy(in_place(), nodes=1)
    bed.nodes.behave("*", SLOW)
    await bed.set_image(V2)
    await asyncio.sleep(5)
    pod = (await bed.pods())["node-0"]
    body = {"spec": {"containers": [{"name": "agent", "image": V1}]}}
    await bed.api.patch(PODS, pod["metadata"]["name"], body, content_type=STRATEGIC_MERGE_PATCH)
    await asyncio.sleep(120)
    await bed.settled()
    assert runs((await bed.pods())["node-0"], V2)
