"""cpu and memory of running pods: what is resized, in which order, and what becomes of a refusal."""

from __future__ import annotations

import asyncio

import pytest

from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2
from tests.beds.simulator.faults import Answer, Rule
from tests.system.both import a_while, both_beds
from tests.system.in_place import (
    container,
    container_of,
    cpu_of,
    deployed,
    edit,
    identities,
    is_open,
    restarts,
    runs,
    serving,
    small,
    told,
)
from tests.system.monitor import monitoring


@both_beds
async def test_resources_change_without_a_restart(bed: Bed) -> None:
    await deployed(bed, 3)
    before = await bed.pods()
    async with monitoring(bed, most_unavailable=0):
        await edit(bed, resources=small(cpu="200m"))
        await bed.settled()
    after = await bed.pods()
    assert identities(after) == identities(before)
    assert {(cpu_of(pod), restarts(pod)) for pod in after.values()} == {("200m", 0)}
    await bed.idle()
    assert told(bed)[1:] == [f"node-{n} {what}" for n in (2, 1, 0) for what in ("pods", "pods/resize")]


@both_beds
async def test_the_next_pod_is_touched_when_the_one_before_has_its_traffic_again(bed: Bed) -> None:
    await deployed(bed, 3)
    bed.nodes.behave("*", Behaviour(resize=1.0))
    async with monitoring(bed, most_unavailable=1):
        await edit(bed, resources=small(cpu="200m"))
        await bed.settled()
    assert {cpu_of(pod) for pod in (await bed.pods()).values()} == {"200m"}
    await bed.idle()
    writes = told(bed)[1:]
    assert list(dict.fromkeys(one.split()[0] for one in writes)) == ["node-2", "node-1", "node-0"]
    assert writes == sorted(writes, key=lambda one: one.split()[0], reverse=True), "one node after the other"


@both_beds
async def test_image_labels_and_resources_take_two_writes_and_one_restart(bed: Bed) -> None:
    await deployed(bed, 2)
    before = identities(await bed.pods())
    template = {"metadata": {"labels": {"team": "blue"}}, "spec": {"containers": [container(V2, small(cpu="200m"))]}}
    async with monitoring(bed, most_unavailable=1):
        await bed.edit({"template": template})
        await bed.settled()
    after = await bed.pods()
    assert identities(after) == before
    assert {(cpu_of(pod), restarts(pod), runs(pod, V2)) for pod in after.values()} == {("200m", 1, True)}
    assert {pod["metadata"]["labels"]["team"] for pod in after.values()} == {"blue"}
    await bed.idle()
    sequence = ("pods/status", "pods", "pods/resize", "pods/status")
    assert told(bed)[1:] == [f"node-{number} {what}" for number in (1, 0) for what in sequence]


@both_beds
async def test_only_what_takes_a_restart_leaves_its_traffic_first(bed: Bed) -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    await deployed(bed, 2, resizePolicy=policy)
    before = identities(await bed.pods())
    async with monitoring(bed, most_unavailable=1):
        await edit(bed, resources=small(memory="128Mi"), resizePolicy=policy)
        await bed.settled()
    after = await bed.pods()
    assert {container_of(pod)["resources"]["requests"]["memory"] for pod in after.values()} == {"128Mi"}
    assert [restarts(pod) for pod in after.values()] == [1, 1]
    await bed.idle()
    writes = ("pods/status", "pods", "pods/resize", "pods/status")
    done = [one for one in bed.journal.work if one.resource.startswith("pods") and one not in bed.journal.failed]
    assert [f"{one.node} {one.resource}" for one in done[1:]] == [
        f"node-{number} {what}" for number in (1, 0) for what in writes
    ]
    async with monitoring(bed, most_unavailable=0):
        await edit(bed, resources=small(cpu="200m", memory="128Mi"), resizePolicy=policy)
        await bed.settled()
    after = await bed.pods()
    assert identities(after) == before
    assert {(cpu_of(pod), restarts(pod)) for pod in after.values()} == {("200m", 1)}


async def test_so_it_does_at_each_attempt_of_a_resize_that_was_refused(bed: Bed) -> None:
    """It serves while the resize is refused; no attempt that is refused takes its traffic again."""
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    await deployed(bed, 1, resizePolicy=policy)
    refused = Rule(verb="patch", resource="pods/resize", effect=Answer(status=403, reason="Forbidden"))
    bed.simulator.link.faults.add(refused)
    await edit(bed, resources=small(memory="128Mi"), resizePolicy=policy)
    await bed.event("ResizeRefused", "")
    await asyncio.sleep(60)
    assert is_open((await bed.pods())["node-0"])
    bed.journal.clear()
    await asyncio.sleep(1200)
    assert {one.split()[-1] for one in told(bed)} == {"pods/resize"}
    bed.simulator.link.faults.remove(refused)
    bed.journal.clear()
    bed.patience = 600.0
    await bed.settled()
    await bed.idle()
    done = [one.resource for one in bed.journal.work if one not in bed.journal.failed and one.node]
    assert done == ["pods/resize", "pods/status", "pods/resize", "pods/status"], "the first is a trial"
    assert restarts((await bed.pods())["node-0"]) == 1


async def test_a_server_that_has_learnt_to_resize_is_asked_at_the_next_edit(bed: Bed) -> None:
    await deployed(bed, 2)
    unknown = Answer(status=404, message="the server could not find the requested resource")
    old = Rule(verb="patch", resource="pods/resize", effect=unknown)
    bed.simulator.link.faults.add(old)
    await edit(bed, resources=small(cpu="200m"))
    await bed.event("ResizeRefused", "no pods/resize, which takes Kubernetes 1.33, so new pods are made instead: the")
    await bed.settled()
    assert sorted(bed.journal.deleted) == ["node-0", "node-1"]
    bed.simulator.link.faults.remove(old)
    recreated = identities(await bed.pods())
    await edit(bed, resources=small(cpu="300m"))
    await bed.settled()
    after = await bed.pods()
    assert identities(after) == recreated
    assert {cpu_of(pod) for pod in after.values()} == {"300m"}


@both_beds
async def test_deferred_waits_within_the_budget_and_goes_on_by_itself(bed: Bed) -> None:
    await deployed(bed, 3)
    bed.nodes.behave("node-2", Behaviour(resizes="Deferred"))
    await edit(bed, resources=small(cpu="200m"))
    await bed.event("ResizeDeferred", "on node node-2 is not resized yet: Node didn't have enough resource: cpu")
    assert "node-2" in (await bed.condition("Progressing", "ResizeDeferred"))["message"]
    await a_while(bed, 120)
    assert sum(cpu_of(pod) == "200m" for pod in (await bed.pods()).values()) == 0
    assert bed.journal.deleted == []
    bed.nodes.behave("node-2")
    await bed.settled()


@pytest.mark.parametrize(
    ("refusal", "after"),
    [
        (
            Answer(status=403, reason="Forbidden", message="node didn't have enough allocatable resources: cpu"),
            "waits",
        ),
        (Answer(status=404, message="the server could not find the requested resource"), "recreated"),
    ],
    ids=["the admission", "a server that knows no resize"],
)
async def test_what_the_server_refuses_is_reported(bed: Bed, refusal: Answer, after: str) -> None:
    await deployed(bed, 3)
    bed.simulator.link.faults.add(Rule(verb="patch", resource="pods/resize", effect=refusal))
    await edit(bed, resources=small(cpu="200m"))
    await bed.event("ResizeRefused", refusal.message)
    if after == "recreated":
        await bed.settled()
        assert sorted(bed.journal.deleted) == ["node-0", "node-1", "node-2"]
        assert len([write for write in bed.journal.failed if write.resource == "pods/resize"]) == 1, "asked once"
    else:
        await asyncio.sleep(60)
        assert bed.journal.deleted == []
        assert await serving(bed, V1) == {"node-0", "node-1", "node-2"}
        await bed.status(updated=1, available=2)
