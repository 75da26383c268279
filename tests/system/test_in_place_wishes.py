"""Changes of mind while pods are updated in place: edits in a row, pauses, and what somebody did to a pod before."""

from __future__ import annotations

import asyncio

import pytest

from tests.beds.api import PODS, STRATEGIC_MERGE_PATCH, Object
from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, V3, condition, node_of
from tests.beds.simulator.cluster import Attempt
from tests.system.in_place import SLOW, identities, in_place, is_open, restarts, runs, serving, with_grace
from tests.system.test_in_place_faults import writes
from tests.system.webhook import judged

LABEL = "controller-revision-hash"


@pytest.mark.parametrize(
    "wish",
    [
        {"updateStrategy": {"rollingUpdate": {"rollingUpdateType": "Standard"}}},
        {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}},
        {"updateStrategy": {"rollingUpdate": {"paused": True}}},
        {"updateStrategy": {"rollingUpdate": {"partition": 4}}},
        {"minReadySeconds": 5},
    ],
    ids=["Standard", "OnDelete", "paused", "partition", "minReadySeconds"],
)
@pytest.mark.parametrize("grace", [0, 30])
async def test_a_change_of_mind_in_the_middle_leaves_no_pod_without_traffic(
    bed: Bed, wish: Object, grace: int
) -> None:
    nodes = await bed.deploy(with_grace(grace, most=2) if grace else in_place(most=2), nodes=4)
    bed.nodes.behave("*", SLOW)
    await bed.set_image(V2)
    await asyncio.sleep(10)
    await bed.edit(wish)
    await asyncio.sleep(300)
    pods = await bed.pods()
    assert {*pods} == {*nodes}
    assert [node for node, pod in pods.items() if condition(pod, "Ready").get("status") != "True"] == []


async def test_a_pause_between_two_edits_lets_the_first_ones_batches_end(bed: Bed) -> None:
    """Half of an update would stay, not ready, for as long as the pause lasts."""
    await bed.add_nodes(1)
    source = {"configMapKeyRef": {"name": "barrier", "key": "p_5"}}
    second = {"env": [{"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": source}]}
    first = {"env": [{**second["env"][0], "valueFrom": {"configMapKeyRef": {"name": "barrier", "key": "p_9"}}}]}

    def containers(image: str) -> list[Object]:
        return [{"name": "agent", "image": image, **first}, {"name": "late", "image": image, **second}]

    await bed.deploy(in_place(pod={"containers": containers(V1)}))
    bed.nodes.behave("*", SLOW)
    await bed.edit({"template": {"spec": {"containers": containers(V2)}}})
    await asyncio.sleep(10)
    strategy = {"rollingUpdate": {"paused": True}}
    await bed.edit({"template": {"spec": {"containers": containers(V3)}}, "updateStrategy": strategy})
    await asyncio.sleep(120)
    pod = (await bed.pods())["node-0"]
    assert is_open(pod)
    assert runs(pod, V2)
    assert runs(pod, V2, "late")


async def test_three_edits_and_back_again_end_with_the_last_wish(bed: Bed) -> None:
    nodes = await bed.deploy(in_place(most=3), nodes=3)
    before = identities(await bed.pods())
    bed.nodes.behave("*", Behaviour(notice=0.5, start=0.5, terminate=2.0, gate=0.1))
    for image, wait in ((V2, 0.3), (V3, 1.0), (V2, 3.0), (V1, 0.2), (V3, 0.0)):
        await bed.set_image(image)
        await asyncio.sleep(wait)
    await bed.settled()
    assert await serving(bed, V3) == {*nodes}
    after = await bed.pods()
    assert identities(after) == before
    assert all(map(is_open, after.values()))


async def test_a_label_put_back_by_a_webhook_is_told_and_not_fought(bed: Bed) -> None:
    await bed.deploy(in_place(), nodes=2)
    before = (await bed.pods())["node-1"]["metadata"]["labels"][LABEL]

    def put_back(attempt: Attempt) -> None:
        if attempt.verb == "update" and not attempt.subresource and node_of(attempt.object) == "node-1":
            attempt.object["metadata"]["labels"][LABEL] = before

    with judged(bed, put_back):
        await bed.set_image(V2)
        found = await bed.condition("Degraded", "WritesFail")
        assert "taken back by a webhook or by another controller" in found["message"]
        await asyncio.sleep(60)
        assert runs((await bed.pods())["node-0"], V2), "the other node is updated all the same"
        bed.journal.clear()
        await asyncio.sleep(300)
        assert writes(bed) < 40, bed.journal
    bed.patience = 1200.0
    await bed.settled()
    await bed.condition("Degraded", "AsExpected")


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
