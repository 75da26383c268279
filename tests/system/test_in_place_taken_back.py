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
from tests.system.admission import judged
from tests.system.in_place import GATE, container, deployed, in_place, is_open, restarts, runs, small

WORDS = "taken back by a webhook or by another controller"


@dataclass(frozen=True)
class Case:
    """A write that is taken back on one node, and the edit that it belongs to."""

    subresource: str
    take_back: Callable[[Object, Object], None]
    """The pod as it would be stored, and as it was before the edit."""
    template: Object
    grace: int = 0
    most: int = 20
    """Writes in five minutes."""


def gate_stays(status: str) -> Callable[[Object, Object], None]:
    def put_back(pod: Object, before: Object) -> None:
        for one in pod["status"].get("conditions") or []:
            if one["type"] == GATE:
                one["status"] = status

    return put_back


def resources_stay(pod: Object, before: Object) -> None:
    pod["spec"]["containers"][0]["resources"] = small()


def labels_stay(pod: Object, before: Object) -> None:
    pod["metadata"]["labels"] = dict(before["metadata"]["labels"])


BY_IMAGE: Object = {"spec": {"containers": [container(V2)]}}
CASES = {
    "the gate that is closed for a grace period": Case("status", gate_stays("True"), BY_IMAGE, grace=20),
    "the gate that is opened again": Case("status", gate_stays("False"), BY_IMAGE),
    "the label of the revision": Case("", labels_stay, BY_IMAGE, most=40),
    "the resize": Case("resize", resources_stay, {"spec": {"containers": [container(resources=small(cpu="200m"))]}}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_it_is_told_of_and_not_fought(bed: Bed, case: Case) -> None:
    await deployed(bed, 2, annotations={"kruise-ds/in-place-grace-seconds": str(case.grace)} if case.grace else {})
    before = (await bed.pods())["node-1"]

    def put_back(attempt: Attempt) -> None:
        if (attempt.verb, attempt.subresource, node_of(attempt.object)) == ("update", case.subresource, "node-1"):
            case.take_back(attempt.object, before)

    with judged(bed, put_back):
        await bed.edit({"template": case.template})
        assert WORDS in (await bed.condition("Degraded", "WritesFail"))["message"]
        await asyncio.sleep(60)
        bed.journal.clear()
        await asyncio.sleep(300)
        assert len(bed.journal.writes) < case.most, bed.journal
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


async def test_a_pod_that_somebody_gave_the_image_before_is_not_waited_for(bed: Bed) -> None:
    """Its kubelet has nothing to do then."""
    await bed.deploy(in_place(), nodes=2)
    name = (await bed.pods())["node-1"]["metadata"]["name"]
    await bed.api.patch(
        PODS,
        name,
        {"spec": {"containers": [{"name": "agent", "image": V2}]}},
        content_type=STRATEGIC_MERGE_PATCH,
    )
    await bed.until(PODS, lambda pods: "" if any(runs(pod, V2) for pod in pods) else "nobody runs it", "V2 by hand")
    await bed.update(V2)
    assert [restarts(pod) for pod in (await bed.pods()).values()] == [1, 1]


async def test_a_pod_relabelled_with_its_former_revision_is_not_restarted(bed: Bed) -> None:
    await bed.deploy(in_place(), nodes=2)
    labels = {
        "controller-revision-hash": (await bed.pods())["node-1"]["metadata"]["labels"]["controller-revision-hash"]
    }
    await bed.update(V2)
    name = (await bed.pods())["node-1"]["metadata"]["name"]
    await bed.api.patch(PODS, name, {"metadata": {"labels": labels}})
    await bed.idle()
    await bed.settled()
    assert [restarts(pod) for pod in (await bed.pods()).values()] == [1, 1]
    assert all(is_open(pod) for pod in (await bed.pods()).values())
