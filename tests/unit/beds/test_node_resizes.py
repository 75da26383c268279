"""What a played node does when the resources of a running pod change, or the conditions of its gates."""

from __future__ import annotations

import asyncio

from tests.beds.api import PODS, Object
from tests.beds.nodes import INSTANT, Behaviour
from tests.beds.objects import condition, is_ready
from tests.beds.objects import pod as pod_manifest
from tests.beds.simulator.faults import NoConnection, Rule
from tests.beds.virtual_time import virtual_time
from tests.unit.beds.in_place import NODE, Pod, running, since, state_of

SIZE = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}


def sizes(pod: Pod) -> list[tuple[float, str, str, str]]:
    """When cpu was reserved, when the container had it, and what the conditions said."""
    told: list[tuple[float, str, str, str]] = []
    for moment, found in pod.seen:
        words = (*size(found), " ".join(conditions(found)))
        if not told or told[-1][1:] != words:
            told.append((moment, *words))
    return told


def size(found: Object) -> tuple[str, str]:
    state = state_of(found)
    return state["allocatedResources"]["cpu"], state["resources"]["requests"]["cpu"]


def conditions(found: Object) -> list[str]:
    return [
        f"{one['type'].removeprefix('PodResize')}:{one.get('reason', '')}"
        for one in found["status"]["conditions"]
        if one["type"].startswith("PodResize")
    ]


@virtual_time
async def test_a_resize_is_reserved_first_and_needs_no_restart() -> None:
    async with running(Behaviour(notice=0.1, resize=0.2), resources=SIZE) as pod:
        await pod.resize(requests={"cpu": "150m"})
        await asyncio.sleep(60)
        assert sizes(pod) == [
            (0.0, "100m", "100m", ""),
            (0.1, "150m", "100m", "InProgress:"),
            (0.3, "150m", "150m", ""),
        ]
        assert pod.story() == [(0.0, "running v1 x0 ready")]
        assert pod.seen[-1][1]["status"]["observedGeneration"] == 2


@virtual_time
async def test_a_resize_that_does_not_fit_now_waits_until_it_does() -> None:
    async with running(Behaviour(resizes="Deferred"), resources=SIZE) as pod:
        await pod.resize(requests={"cpu": "150m"})
        await asyncio.sleep(60)
        assert sizes(pod) == [(0.0, "100m", "100m", ""), (0.0, "100m", "100m", "Pending:Deferred")]
        pod.nodes.behave(NODE, INSTANT)
        await asyncio.sleep(1)
        assert sizes(pod)[-1][1:] == ("150m", "150m", "")


@virtual_time
async def test_a_waiting_resize_hears_of_room_before_the_watch_says_so() -> None:
    async with running(Behaviour(terminate=5), resources=SIZE) as pod:
        big = pod_manifest("big", image="agent:v1", aimed_at=NODE)
        big["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "15500m"}}
        await pod.api.create(PODS, big)
        await asyncio.sleep(60)
        await pod.resize(requests={"cpu": "600m"})
        await asyncio.sleep(60)
        assert sizes(pod)[-1] == (0.0, "100m", "100m", "Pending:Deferred")
        await pod.api.delete(PODS, "big")
        await asyncio.sleep(1)
        for verb in ("list", "watch"):
            pod.way.faults.add(Rule(NoConnection(), verb=verb))
        pod.way.drop_watches()
        await asyncio.sleep(60)
        assert sizes(pod)[-1][1:] == ("600m", "600m", "")


@virtual_time
async def test_an_infeasible_resize_is_over_when_it_is_taken_back() -> None:
    async with running(Behaviour(resizes="Infeasible"), resources=SIZE) as pod:
        await pod.resize(requests={"cpu": "150m"})
        await asyncio.sleep(60)
        assert sizes(pod)[-1] == (0.0, "100m", "100m", "Pending:Infeasible")
        await pod.resize(requests={"cpu": "100m"})
        await asyncio.sleep(60)
        assert sizes(pod)[-1] == (0.0, "100m", "100m", "")


@virtual_time
async def test_a_memory_limit_below_its_use_is_an_error_after_a_while() -> None:
    async with running(Behaviour(memory_in_use="100Mi"), resources=SIZE) as pod:
        await pod.resize(limits={"memory": "80Mi"})
        await asyncio.sleep(60)
        assert [(moment, *words[2:]) for moment, *words in sizes(pod)] == [
            (0.0, ""),
            (0.0, "InProgress:"),
            (11.0, "InProgress:Error"),
        ]
        found = pod.seen[-1][1]
        assert "cannot decrease memory limits" in condition(found, "PodResizeInProgress")["message"]
        assert state_of(found)["resources"] == SIZE
        assert "ResizeError" in " ".join(await pod.events())
        await pod.resize(limits={"memory": "128Mi"})
        await asyncio.sleep(60)
        assert sizes(pod)[-1] == (0.0, "100m", "100m", "")


@virtual_time
async def test_a_policy_may_want_a_new_container() -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    async with running(resources=SIZE, resizePolicy=policy) as pod:
        await pod.resize(requests={"cpu": "150m"})
        await asyncio.sleep(60)
        assert pod.story() == [(0.0, "running v1 x0 ready")]
        await pod.resize(limits={"memory": "256Mi"})
        await asyncio.sleep(60)
        assert pod.story()[-1] == (0.0, "running v1 x1 ready")
        restarted = next(found for _, found in pod.seen if state_of(found)["restartCount"] == 1)
        assert state_of(restarted)["resources"]["limits"]["memory"] == "256Mi"


@virtual_time
async def test_image_and_resources_in_two_patches_restart_once() -> None:
    for seconds in (0.0, 0.03):
        async with running(Behaviour(notice=seconds * 2), resources=SIZE) as pod:
            await pod.image("agent:v2")
            await asyncio.sleep(seconds)
            await pod.resize(requests={"cpu": "150m"})
            await asyncio.sleep(60)
            found = pod.seen[-1][1]
            assert state_of(found)["restartCount"] == 1
            assert size(found) == ("150m", "150m")
            assert found["status"]["observedGeneration"] == 3
            assert conditions(found) == []


@virtual_time
async def test_a_restart_while_a_resize_waits_keeps_the_old_size() -> None:
    async with running(Behaviour(resizes="Deferred"), resources=SIZE) as pod:
        await pod.resize(requests={"cpu": "150m"})
        await pod.image("agent:v2")
        await asyncio.sleep(60)
        assert pod.story()[-1][1] == "running v2 x1 ready"
        assert sizes(pod)[-1][1:] == ("100m", "100m", "Pending:Deferred")


@virtual_time
async def test_ready_follows_the_gates_and_says_which() -> None:
    async with running(Behaviour(gate=0.3), spec={"readinessGates": [{"conditionType": "gate"}]}) as pod:
        closed = pod.seen[-1][1]
        assert condition(closed, "ContainersReady")["status"] == "True"
        assert condition(closed, "Ready")["reason"] == "ReadinessGatesNotReady"
        assert condition(closed, "Ready")["message"] == (
            'corresponding condition of pod readiness gate "gate" does not exist.'
        )
        for value in ("True", "False"):
            before = await pod.gate(value)
            await asyncio.sleep(10)
            moment, after = next((moment, one) for moment, one in pod.seen if is_ready(one) == (value == "True"))
            assert moment == 0.3
            assert since(after) == condition(after, "Ready")["lastTransitionTime"] >= since(before)
            assert condition(after, "ContainersReady")["status"] == "True"
            assert condition(after, "Ready").get("reason") == (None if value == "True" else "ReadinessGatesNotReady")


@virtual_time
async def test_a_closed_gate_and_a_container_that_is_not_ready_are_told_apart() -> None:
    gates = {"readinessGates": [{"conditionType": "gate"}]}
    async with running(Behaviour(pull=5, ready=2), spec=gates, probe=True) as pod:
        await pod.gate("False")
        await pod.image("agent:v2")
        await asyncio.sleep(3)
        found = pod.seen[-1][1]
        assert {condition(found, name)["reason"] for name in ("Ready", "ContainersReady")} == {"ContainersNotReady"}
        await asyncio.sleep(60)
        assert condition(pod.seen[-1][1], "Ready")["reason"] == "ReadinessGatesNotReady"
        await pod.gate("True")
        await asyncio.sleep(60)
        assert pod.story()[-1][1] == "running v2 x1 ready"
