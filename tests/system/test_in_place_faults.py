"""Updates in place with refused writes, lost nodes, other writers, and images that crash."""

from __future__ import annotations

import asyncio

import pytest

from tests.beds.api import EVENTS, PODS, STRATEGIC_MERGE_PATCH, Object
from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, V3, image_of
from tests.beds.simulator.faults import Answer, Effect, Hang, LoseAnswer, Rule
from tests.system.in_place import (
    GATE,
    SLOW,
    STATE,
    container_of,
    identities,
    in_place,
    is_open,
    restarts,
    runs,
    serving,
    with_grace,
)
from tests.system.monitor import monitoring

DENIED = Answer(403, reason="Forbidden", message="the webhook says no")
HOUR = 3600.0


def writes(bed: Bed) -> int:
    return len([one for one in bed.journal.writes if one.resource.startswith("pods")])


@pytest.mark.parametrize("resource", ["pods/status", "pods"])
@pytest.mark.parametrize(
    "effect",
    [
        DENIED,
        Answer(422, reason="Invalid"),
        Answer(409, reason="Conflict"),
        Answer(404, reason="NotFound"),
        LoseAnswer(status=504),
    ],
    ids=["403", "422", "409", "404", "504, and done"],
)
async def test_where_one_nodes_writes_are_refused_the_others_go_on(bed: Bed, resource: str, effect: Effect) -> None:
    await bed.deploy(in_place(), nodes=4)
    pod = (await bed.pods())["node-2"]["metadata"]["name"]
    refused = Rule(verb="patch", resource=resource, name=pod, effect=effect)
    bed.simulator.link.faults.add(refused)
    bed.journal.clear()
    async with monitoring(bed, most_unavailable=1):
        await bed.set_image(V2)
        await asyncio.sleep(600)
        assert await serving(bed, V2) >= {"node-0", "node-1", "node-3"}
        left = (await bed.pods())["node-2"]
        assert runs(left, V2) or is_open(left), "it is old, and gets no traffic"
        assert writes(bed) < 200, "it is tried ever more seldom"
        bed.simulator.link.faults.remove(refused)
        bed.patience = 1000.0
        await bed.settled()
    assert await serving(bed, V2) == {"node-0", "node-1", "node-2", "node-3"}


async def test_a_write_that_hangs_keeps_one_node_and_its_part_of_the_budget(bed: Bed) -> None:
    await bed.deploy(in_place(most=2), nodes=3)
    pod = (await bed.pods())["node-2"]["metadata"]["name"]
    bed.simulator.link.faults.add(Rule(verb="patch", resource="pods", name=pod, effect=Hang(seconds=40.0), times=1))
    async with monitoring(bed, most_unavailable=2):
        await bed.set_image(V2)
        await asyncio.sleep(20)
        assert await serving(bed, V2) == {"node-0", "node-1"}
        await bed.settled()


@pytest.mark.parametrize(
    "state",
    [
        "{",
        '{"x": "' + "y" * 200_000 + '"}',
        '{"revision": "v9", "updateTimestamp": "never", "lastContainerStatuses": {"agent": {"imageID": "x"}}}',
        '{"updateTimestamp": "2999-01-01T00:00:00Z", "lastContainerStatuses": {}}',
        '{"lastContainerStatuses": {"ghost": {"imageID": "x"}}, "nextContainerImages": {"ghost": "x"}}',
        '{"nextContainerRefMetadata": [1], "preCheckBeforeNext": {"containersRequiredReady": ["ghost"]}}',
    ],
    ids=["no JSON", "200 KB", "no time", "the future", "a ghost", "no metadata"],
)
async def test_whatever_another_client_writes_into_the_state_the_rollout_ends(bed: Bed, state: str) -> None:
    nodes = await bed.deploy(in_place(), nodes=3)
    before = await bed.pods()
    bed.nodes.behave("*", SLOW)
    await bed.set_image(V2)
    await asyncio.sleep(10)
    for pod in before.values():
        await bed.api.patch(PODS, pod["metadata"]["name"], {"metadata": {"annotations": {STATE: state}}})
    await bed.settled()
    after = await bed.runs_on(*nodes, image=V2)
    assert identities(after) == identities(before)
    assert all(is_open(pod) for pod in after.values())


async def write(bed: Bed, pod: str, status: str) -> None:
    """The condition of the gate, by another hand."""
    body = {"status": {"conditions": [{"type": GATE, "status": status}]}}
    await bed.api.patch(PODS, pod, body, sub="status", content_type=STRATEGIC_MERGE_PATCH)


@pytest.mark.parametrize("when", [10.0, 40.0], ids=["in the grace period", "in the restart"])
async def test_a_node_that_is_lost_in_the_middle_is_finished_when_it_is_back(bed: Bed, when: float) -> None:
    nodes = await bed.deploy(with_grace(30, most=2), nodes=3)
    before = identities(await bed.pods())
    bed.nodes.behave("*", SLOW)
    await bed.set_image(V2)
    await asyncio.sleep(when)
    await bed.nodes.lose("node-2")
    await asyncio.sleep(300)
    await bed.nodes.regain("node-2", SLOW)
    await bed.settled()
    assert identities(await bed.runs_on(*nodes, image=V2)) == before


@pytest.mark.parametrize("by", [-HOUR, HOUR], ids=["back", "ahead"])
@pytest.mark.parametrize("grace", [0, 30])
@pytest.mark.parametrize("restarted", [False, True], ids=["meanwhile", "and a restart"])
async def test_a_clock_that_is_set_in_the_middle_holds_nothing_up(
    bed: Bed, by: float, grace: int, restarted: bool
) -> None:
    alias = "registry.example/agent:same"
    nodes = await bed.add_nodes(3)
    bed.nodes.behave("*", Behaviour(notice=0.1, start=1.0, aliases={alias: V1}))
    await bed.deploy(with_grace(grace) if grace else in_place())
    began = bed.clock()
    bed.patience = 600.0
    async with monitoring(bed, most_unavailable=1):
        await bed.set_image(alias)
        await asyncio.sleep(5)
        bed.controller.ahead = by
        if restarted:
            await bed.controller.kill()
            bed.controller.start()
        await bed.settled()
    assert bed.clock() - began < 3 * (grace * 2 + 30)
    assert [restarts(pod) for pod in (await bed.runs_on(*nodes, image=alias)).values()] == [1, 1, 1]


async def test_an_update_whose_answer_is_lost_is_reported_as_any_other(bed: Bed) -> None:
    await bed.deploy(in_place(), nodes=2)
    name = (await bed.pods())["node-1"]["metadata"]["name"]
    lost = Rule(verb="patch", resource="pods", name=name, effect=LoseAnswer(status=504), times=1)
    bed.simulator.link.faults.add(lost)
    await bed.update(V2)
    await bed.event("SuccessfulUpdatePodInPlace", name)


QUICK = Behaviour(notice=0.1, terminate=0.2, start=0.2, gate=0.1)


@pytest.mark.parametrize(
    ("min_ready", "crash_after", "ahead"), [(10, 0.3, 0.0), (0, 0.1, 0.0), (0, 0.5, 20.0), (0, 1.5, 0.0)]
)
async def test_a_crashing_image_stops_the_rollout_at_one_node(
    bed: Bed, min_ready: int, crash_after: float, ahead: float
) -> None:
    """It has no probe: its kubelet calls it ready as long as it runs. Clocks of nodes may be behind."""
    await bed.deploy(in_place(minReadySeconds=min_ready), nodes=4)
    before = identities(await bed.pods())
    bed.controller.ahead = ahead
    bed.nodes.behave("*", Behaviour(notice=0.1, gate=0.1, crashing_images=("*:v2",), crash_after=crash_after))
    async with monitoring(bed, most_unavailable=1):
        await bed.set_image(V2)
        await asyncio.sleep(900)
        pods = await bed.pods()
        assert [node for node, pod in pods.items() if image_of(pod) == V2] == ["node-3"]
        assert restarts(pods["node-3"]) > 3, "it is tried again and again"
        await bed.event("FailedUpdatePodInPlace", "on node node-3 does not start again: container agent: ")
        told = {one["message"] for one in await bed.api.list(EVENTS) if one["reason"] == "FailedUpdatePodInPlace"}
        assert [words.endswith("container agent: ended, exit 1 (Error)") for words in told] == [True]
        stuck = await bed.condition("Progressing", "ProgressDeadlineExceeded")
        assert "containers do not start again on node-3: CrashLoopBackOff" in stuck["message"]
        began = bed.clock()
        await bed.update(V1)
    assert bed.clock() - began < 15, "minReadySeconds, and no back-off of the kubelet: it is another image"
    after = await bed.pods()
    assert identities(after) == before
    assert [restarts(after[f"node-{number}"]) for number in range(3)] == [0, 0, 0]
    assert bed.journal.deleted == []


def waits(pod: Object) -> bool:
    """Whether its kubelet says that it does not start the container now."""
    waiting = (container_of(pod).get("state") or {}).get("waiting") or {}
    return bool(waiting.get("reason") == "CrashLoopBackOff")


async def test_going_back_and_forth_meets_the_kubelets_back_off_and_ends(bed: Bed) -> None:
    """It says CrashLoopBackOff of a container that it restarted into lately, although no program has crashed."""
    nodes = await bed.deploy(in_place(), nodes=2)
    before = identities(await bed.pods())
    bed.nodes.behave("*", QUICK)
    async with monitoring(bed, most_unavailable=1):
        for image in (V2, V3, V2, V1):
            await bed.update(image)
        began = bed.clock()
        await bed.set_image(V2)
        await bed.until(PODS, lambda pods: "" if any(map(waits, pods)) else "none waits", "CrashLoopBackOff")
        await bed.status(updated=1, available=1)
        await bed.idle()
        assert [is_open(pod) for pod in (await bed.pods()).values() if waits(pod)] == [False]
        await bed.settled()
    assert bed.clock() - began > 10
    after = await bed.pods()
    assert await serving(bed, V2) == {*nodes}
    assert identities(after) == before
    assert [restarts(pod) for pod in after.values()] == [5, 5]
    assert [one["message"] for one in await bed.api.list(EVENTS) if one["reason"] == "FailedUpdatePodInPlace"] == []
