"""New images without new pods: what is written, and how long before the pod changes its traffic leaves."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.beds.api import Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import simulated
from tests.beds.controller.waves import layout
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, condition, daemonset
from tests.beds.simulator.faults import LateWatch, Rule
from tests.system.admission import webhook_down
from tests.system.both import both_beds
from tests.system.in_place import (
    GATE,
    ONE_BY_ONE,
    identities,
    in_place,
    is_open,
    restarts,
    runs,
    serving,
    told,
)
from tests.system.monitor import monitoring


@both_beds
async def test_a_new_image_changes_pods_in_place(bed: Bed) -> None:
    nodes = await bed.deploy(in_place(most=2), nodes=3)
    before = await bed.pods()
    assert all(is_open(pod) for pod in before.values())
    async with monitoring(bed, most_unavailable=2):
        await bed.update(V2)
    after = await bed.runs_on(*nodes, image=V2)
    assert identities(after) == identities(before)
    assert [restarts(pod) for pod in after.values()] == [1, 1, 1]
    assert all(is_open(pod) and runs(pod, V2) for pod in after.values())
    assert await layout(bed) == "v2 v2 v2"
    assert bed.journal.deleted == bed.journal.created == []


@both_beds
async def test_what_a_running_pod_cannot_take_makes_new_ones_and_says_why(bed: Bed) -> None:
    nodes = await bed.deploy(in_place(), nodes=2)
    before = identities(await bed.pods())
    containers = [{"name": "agent", "image": V1, "env": [{"name": "LEVEL", "value": "debug"}]}]
    async with monitoring(bed, most_unavailable=1):
        await bed.edit({"template": {"spec": {"containers": containers}}})
        await bed.settled()
    after = identities(await bed.runs_on(*nodes))
    assert not set(after.values()) & set(before.values())
    await bed.event("InPlaceUpdateNotPossible", "spec.containers[agent].env added")


async def test_an_unpullable_image_stops_the_rollout_and_going_back_heals(bed: Bed) -> None:
    nodes = await bed.deploy(in_place(), nodes=4)
    before = identities(await bed.pods())
    bed.nodes.behave("*", Behaviour(missing_images=("*:v2",), registry="no such manifest"))
    async with monitoring(bed, most_unavailable=1):
        await bed.set_image(V2)
        await bed.event(
            "FailedUpdatePodInPlace", "on node node-3 does not start again: container agent: ErrImagePull: "
        )
        await bed.event("FailedUpdatePodInPlace", "no such manifest")
        await asyncio.sleep(300)
        assert "node-3" in (await bed.condition("Progressing", "FailedUpdatePodInPlace"))["message"]
        assert len(await serving(bed, V1)) == 3
        await bed.set_image(V1)
        await asyncio.sleep(2)
        await bed.settled()
    assert identities(await bed.runs_on(*nodes, image=V1)) == before


async def test_a_late_watch_exceeds_no_budget_and_repeats_no_refused_write() -> None:
    late = Rule(verb="watch", resource="pods", effect=LateWatch(seconds=1))
    async with simulated(late, latency=0.02) as bed:
        nodes = await bed.deploy(in_place(most=2), nodes=6)
        bed.nodes.behave("*", Behaviour(notice=0.1, pull=1.0, gate=0.1))
        async with monitoring(bed, most_unavailable=2):
            await bed.update(V2)
        assert await serving(bed, V2) == {*nodes}
        refused = [write.name for write in bed.journal.failed]
        assert len(refused) == len(set(refused)), str(bed.journal)


@both_beds
@pytest.mark.parametrize("gated", [True, False], ids=["with the gate", "made before the switch"])
async def test_what_restarts_nothing_takes_one_write_and_disturbs_nothing(bed: Bed, gated: bool) -> None:
    await bed.deploy(in_place() if gated else daemonset(), nodes=2)
    await bed.edit({"updateStrategy": {"rollingUpdate": ONE_BY_ONE}})
    before = await bed.pods()
    bed.journal.clear()
    async with monitoring(bed, most_unavailable=0):
        await bed.edit({"template": {"metadata": {"labels": {"team": "blue"}}}})
        await bed.settled()
    await bed.idle()
    assert sorted(told(bed)[1:]) == ["node-0 pods", "node-1 pods"], str(bed.journal)
    after = await bed.pods()
    assert identities(after) == identities(before)
    assert {(pod["metadata"]["labels"]["team"], restarts(pod)) for pod in after.values()} == {("blue", 0)}
    assert [bool(condition(pod, GATE)) for pod in after.values()] == [gated] * 2


def asked(bed: Bed) -> Counter[str]:
    """How often a dry run was made for each pod."""
    return Counter(write.name for write in bed.journal.work if write.verb == "probe")


async def test_where_updates_are_refused_traffic_comes_back_once(bed: Bed) -> None:
    """Whether the server would take them is asked by dry runs from then on."""
    nodes = await bed.deploy(in_place(), nodes=2)
    before = await bed.pods()
    names = {pod["metadata"]["name"] for pod in before.values()}
    bed.journal.clear()
    async with monitoring(bed, most_unavailable=1):
        async with webhook_down(bed, "update"):
            await bed.set_image(V2)
            for name in names:
                told_of = await bed.event("FailedUpdatePodInPlace", f"failed to update pod {name} in-place")
                assert told_of["type"] == "Warning"
            assert "failed calling webhook" in (await bed.condition("Degraded", "WritesFail"))["message"]
            while any(asked(bed)[name] < 3 for name in names):
                assert await bed.journal.news(bed.patience), str(bed.journal)
            assert all(is_open(pod) and runs(pod, V1) for pod in (await bed.pods()).values())
            gates = Counter(write.node for write in bed.journal.of("pods/status"))
            assert gates == dict.fromkeys(nodes, 2), str(bed.journal)
        await bed.settled()
    assert identities(await bed.pods()) == identities(before)
    assert await serving(bed, V2) == {*nodes}
    assert bed.journal.deleted == []


READS = [{"name": "TRACK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['track']"}}}]


def template(track: str, image: str = V1) -> Object:
    """The agent reads the label."""
    spec: Object = {"containers": [{"name": "agent", "image": image, "env": READS}]}
    return {"metadata": {"labels": {"app": "agent", "track": track}}, "spec": spec}


@both_beds
async def test_a_label_and_an_image_in_one_edit_are_one_write_and_one_restart(bed: Bed) -> None:
    await bed.add_nodes(2)
    new = in_place()
    new["spec"]["template"] = template("a")
    await bed.deploy(new)
    before = identities(await bed.pods())
    async with monitoring(bed, most_unavailable=1):
        await bed.edit({"template": template("b", V2)})
        await bed.settled()
    after = await bed.pods()
    assert identities(after) == before
    for pod in after.values():
        assert (pod["metadata"]["labels"]["track"], restarts(pod), runs(pod, V2)) == ("b", 1, True)
        assert bed.nodes.environment_of(pod) == {"TRACK": "b"}, "the container has started after the label"
    await bed.idle()
    writes = ("pods/status", "pods", "pods/status")
    assert told(bed)[1:] == [f"node-{number} {what}" for number in (1, 0) for what in writes]
