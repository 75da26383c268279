"""New images without new pods."""

from __future__ import annotations

import asyncio

import pytest

from tests.beds.api import PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import simulated
from tests.beds.controller.waves import layout
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, V3, daemonset, image_of
from tests.beds.simulator.faults import LateWatch, Rule
from tests.system.both import both_beds
from tests.system.in_place import (
    ONE_BY_ONE,
    by_priority,
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
async def test_three_writes_a_pod_in_this_order(bed: Bed) -> None:
    await bed.deploy(in_place(), nodes=1)
    await bed.update(V2)
    await bed.idle()
    assert told(bed)[1:] == ["node-0 pods/status", "node-0 pods", "node-0 pods/status"], str(bed.journal)
    assert bed.journal.failed == []


async def test_no_more_than_three_writes_a_pod_whatever_their_number(bed: Bed) -> None:
    await bed.deploy(in_place(most="10%"), nodes=60)
    bed.nodes.behave("*", Behaviour(notice=0.1, terminate=0.5, pull=2.0, start=0.2, gate=0.2))
    await bed.update(V2)
    writes = [write for write in bed.journal.work if write.resource.startswith("pods") and write.verb == "patch"]
    assert len(writes) <= 3.05 * 60


@pytest.mark.parametrize("gated", [True, False], ids=["with the gate", "made before the switch"])
async def test_labels_alone_take_one_write_and_disturb_nothing(bed: Bed, gated: bool) -> None:
    await bed.deploy(in_place() if gated else daemonset(), nodes=60)
    if not gated:
        await bed.edit({"updateStrategy": {"rollingUpdate": ONE_BY_ONE}})
    before = await bed.pods()
    assert {bool(pod["spec"].get("readinessGates")) for pod in before.values()} == {gated}
    async with monitoring(bed, most_unavailable=0):
        await bed.edit({"template": {"metadata": {"labels": {"team": "blue"}}}})
        await bed.settled()
    after = await bed.pods()
    assert {pod["metadata"]["labels"]["team"] for pod in after.values()} == {"blue"}
    assert identities(after) == identities(before)
    assert {restarts(pod) for pod in after.values()} == {0}
    writes = [write for write in bed.journal.work if write.resource.startswith("pods") and write.verb == "patch"]
    assert len(writes) == 60


@both_beds
@pytest.mark.parametrize(
    "field",
    [{"env": [{"name": "LEVEL", "value": "debug"}]}, {"image": V2, "imagePullPolicy": "Always"}],
    ids=["a variable", "an image and its pull policy"],
)
async def test_what_a_running_pod_cannot_take_makes_new_ones_and_says_why(bed: Bed, field: dict[str, str]) -> None:
    nodes = await bed.deploy(in_place(), nodes=2)
    before = identities(await bed.pods())
    containers = [{"name": "agent", "image": V1, **field}]
    async with monitoring(bed, most_unavailable=1):
        await bed.edit({"template": {"spec": {"containers": containers}}})
        await bed.settled()
    after = identities(await bed.runs_on(*nodes))
    assert not set(after.values()) & set(before.values())
    await bed.event("InPlaceUpdateNotPossible", f"spec.containers[agent].{list(field)[-1]} added")


@both_beds
async def test_pods_from_before_the_switch_are_replaced_once(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=2)
    first = identities(await bed.pods())
    await bed.edit({"updateStrategy": {"rollingUpdate": ONE_BY_ONE}})
    await bed.seen()
    assert identities(await bed.pods()) == first, "the switch alone changes nothing"
    await bed.update(V2)
    second = identities(await bed.pods())
    assert not set(first.values()) & set(second.values())
    await bed.update(V3)
    assert identities(await bed.pods()) == second
    assert await serving(bed, V3) == {"node-0", "node-1"}


async def test_without_a_probe_a_pod_is_unavailable_while_its_image_is_pulled(bed: Bed) -> None:
    """The kubelet calls it ready all the time."""
    nodes = await bed.deploy(in_place(), nodes=3)
    bed.nodes.behave("*", Behaviour(notice=0.1, pull=60.0, gate=0.1))
    await bed.set_image(V2)
    await bed.status(updated=1, available=2, unavailable=1)
    served = []
    while len(await serving(bed, V2)) < len(nodes):
        await asyncio.sleep(1)
        served.append(len({*await serving(bed, V1), *await serving(bed, V2)}))
    await bed.settled()
    assert await serving(bed, V2) == {*nodes}


async def test_two_edits_in_a_row_are_not_finished_by_the_first_one_s_container(bed: Bed) -> None:
    """The second comes while the kubelet pulls the first one's image, which it starts before it looks again."""
    await bed.deploy(in_place(), nodes=2)
    bed.nodes.behave("*", Behaviour(notice=0.1, pulls={V2: 6.0, V3: 4.0}, terminate=1.0))
    async with monitoring(bed, most_unavailable=1):
        await bed.set_image(V2)
        await bed.until(
            PODS, lambda pods: "" if any(image_of(pod) == V2 for pod in pods) else "none", "it is asked for"
        )
        await asyncio.sleep(3)
        await bed.set_image(V3)
        await bed.until(
            PODS, lambda pods: "" if any(runs(pod, V2) for pod in pods) else "none", "the first one's runs"
        )
        await bed.idle()
        assert not is_open((await bed.pods())["node-1"]), "it is not what the newest revision asks for"
        await bed.settled()
    assert await serving(bed, V3) == {"node-0", "node-1"}


async def test_going_back_before_the_kubelet_has_looked_ends_without_a_restart(bed: Bed) -> None:
    await bed.deploy(in_place(), nodes=1)
    bed.nodes.behave("*", Behaviour(notice=1.0))
    await bed.set_image(V2)
    await bed.journal.news(bed.patience)
    while not any(write.resource == "pods" and write.verb == "patch" for write in bed.journal.work):
        assert await bed.journal.news(bed.patience), str(bed.journal)
    await bed.update(V1)
    pod = (await bed.pods())["node-0"]
    assert runs(pod, V1)
    assert is_open(pod)


async def test_another_name_of_the_same_bits_ends_too(bed: Bed) -> None:
    nodes = await bed.add_nodes(2)
    alias = "registry.example/agent:same"
    bed.nodes.behave("*", Behaviour(aliases={alias: V1}))
    await bed.deploy(in_place())
    await bed.update(alias)
    assert [restarts(pod) for pod in (await bed.runs_on(*nodes, image=alias)).values()] == [1, 1]


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


async def test_min_ready_seconds_count_from_the_start_of_the_new_container(bed: Bed) -> None:
    await bed.deploy(in_place(minReadySeconds=15), nodes=2)
    bed.nodes.behave("*", Behaviour(pull=10.0))
    began = bed.clock()
    await bed.update(V2)
    assert 48 <= bed.clock() - began < 55, "15 seconds after each pull of 10, told in whole seconds"


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


def in_turn(image: str) -> Object:
    return {"containers": by_priority(image, agent="p_1", first="p_9")}


async def test_another_name_of_the_same_bits_delays_the_next_priority_shortly(bed: Bed) -> None:
    """Nothing proves that the container runs which that name asked for."""
    alias = "registry.example/agent:same"
    nodes = await bed.deploy(in_place(pod=in_turn(V1)), nodes=2)
    before = identities(await bed.pods())
    bed.nodes.behave("*", Behaviour(notice=0.1, terminate=0.2, gate=0.1, aliases={alias: V1}))
    bed.patience = 120.0
    async with monitoring(bed, most_unavailable=1):
        await bed.edit({"template": {"spec": in_turn(alias)}})
        await bed.settled()
    after = await bed.runs_on(*nodes, image=alias)
    assert identities(after) == before
    for pod in after.values():
        assert [restarts(pod, name) for name in ("agent", "first")] == [1, 1]
        assert is_open(pod)
