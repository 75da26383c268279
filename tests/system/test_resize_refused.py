"""Resizes that a server or a kubelet refuses or puts off: what is told, tried again, or recreated."""

from __future__ import annotations

import asyncio

import pytest

from tests.beds.api import PODS
from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2
from tests.beds.simulator.faults import Answer, Rule
from tests.system.both import a_while, both_beds
from tests.system.in_place import identities, is_open, restarts, runs, serving, told
from tests.system.resizes import cpu_of, deployed, edit, small


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


async def test_a_server_that_has_learnt_to_resize_is_asked_again_at_the_next_edit(bed: Bed) -> None:
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


@both_beds
@pytest.mark.parametrize("fallback", [False, True], ids=["left as it is", "recreated"])
async def test_what_the_kubelet_refuses_is_told_and_recreated_only_where_somebody_wants_that(
    bed: Bed, fallback: bool
) -> None:
    await deployed(bed, 3, annotations={"kruise-ds/resize-fallback": "Recreate"} if fallback else {})
    bed.nodes.behave("*", Behaviour(memory_in_use="512Mi"))
    await edit(
        bed, resources={"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}}
    )
    await bed.event("ResizeRefused", "cannot decrease memory limits")
    if fallback:
        await bed.settled()
        assert sorted(bed.journal.deleted) == ["node-0", "node-1", "node-2"]
    else:
        await a_while(bed, 120)
        assert bed.journal.deleted == []
        await bed.status(updated=1, available=2)
        await bed.condition("Progressing", "ResizeRefused")
        await edit(bed, resources=small())
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
async def test_what_the_server_refuses_is_told(bed: Bed, refusal: Answer, after: str) -> None:
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


async def test_what_somebody_else_changes_while_a_resize_is_refused_does_not_end_it(bed: Bed) -> None:
    """Twice, as with two containers for debugging; each attempt takes such a change in."""
    await deployed(bed, 1)
    refused = Rule(verb="patch", resource="pods/resize", effect=Answer(status=403, reason="Forbidden"))
    bed.simulator.link.faults.add(refused)
    await edit(bed, image=V2, resources=small(cpu="200m"))
    for number in range(2):
        await asyncio.sleep(600)
        pod = (await bed.pods())["node-0"]
        more = [*pod["spec"].get("tolerations", ()), {"key": f"some-{number}", "operator": "Exists"}]
        await bed.api.patch(PODS, pod["metadata"]["name"], {"spec": {"tolerations": more}})
    await asyncio.sleep(600)
    await bed.status(updated=1, available=0)
    bed.simulator.link.faults.remove(refused)
    bed.patience = 600.0
    await bed.settled()
    assert cpu_of((await bed.pods())["node-0"]) == "200m"


async def test_while_its_resize_is_deferred_a_pod_with_a_new_image_has_its_traffic(bed: Bed) -> None:
    await deployed(bed, 2)
    bed.nodes.behave("node-1", Behaviour(resizes="Deferred"))
    await edit(bed, image=V2, resources=small(cpu="200m"))
    await asyncio.sleep(60)
    pods = await bed.pods()
    assert runs(pods["node-1"], V2)
    assert is_open(pods["node-1"])
    assert runs(pods["node-0"], V1), "it counts against maxUnavailable all the same"
    bed.nodes.behave("node-1")
    await bed.settled()


async def test_a_pod_that_serves_while_its_resize_is_deferred_has_its_grace_period_before_a_restart(bed: Bed) -> None:
    await deployed(bed, 1, annotations={"kruise-ds/in-place-grace-seconds": "30"})
    bed.nodes.behave("*", Behaviour(resizes="Deferred"))
    await edit(bed, resources=small(cpu="200m"))
    await bed.event("ResizeDeferred", "on node node-0 is not resized yet")
    bed.journal.clear()
    await edit(bed, image=V2, resources=small(cpu="200m"))
    bed.patience = 120.0
    await bed.until(PODS, lambda pods: "" if all(runs(pod, V2) for pod in pods) else "V1 runs", "V2 runs")
    closed, (updated,) = bed.journal.of("pods/status")[0], bed.journal.of("pods", "patch")
    assert updated.began - closed.at >= 30
