"""What a played node does when the image of a running pod changes, second by second."""

from __future__ import annotations

import asyncio

import pytest

from tests.beds.api import PODS
from tests.beds.nodes import DEAD, INSTANT, MANUAL, Behaviour
from tests.beds.objects import condition, is_ready
from tests.beds.virtual_time import virtual_time
from tests.unit.beds.in_place import NODE, running, since, state_of

SLOW = Behaviour(notice=0.1, terminate=1.0, pull=10.0, start=0.5, ready=2.0)


@virtual_time
async def test_the_generation_is_observed_while_the_old_container_runs() -> None:
    async with running(SLOW) as pod:
        await pod.image("agent:v2")
        await asyncio.sleep(60)
        moment, first = next((moment, one) for moment, one in pod.seen if one["status"]["observedGeneration"] == 2)
        assert (moment, is_ready(first)) == (0.1, True)
        assert state_of(first)["image"] == "agent:v1"
        assert condition(first, "Ready")["observedGeneration"] == 2


@virtual_time
async def test_without_probe_a_pod_stays_ready_while_it_has_no_program() -> None:
    async with running(SLOW) as pod:
        before = (await pod.image("agent:v2"))["status"]
        await asyncio.sleep(60)
        assert pod.story() == [(0.0, "running v1 x0 ready"), (11.6, "running v2 x1 ready")]
        after = pod.seen[-1][1]
        assert since(after) == since({"status": before}), "Ready has not changed"
        old, new = before["containerStatuses"][0], state_of(after)
        assert new["containerID"] != old["containerID"]
        assert new["imageID"] != old["imageID"]
        assert new["lastState"]["terminated"]["containerID"] == old["containerID"]
        assert new["state"]["running"]["startedAt"] > old["state"]["running"]["startedAt"]
        assert [line.partition(":")[0] for line in await pod.events()] == ["Killing", "Pulling", "Pulled", "Started"]


@virtual_time
async def test_a_probe_finds_out_unless_the_next_container_is_quicker() -> None:
    async with running(SLOW, probe=True) as pod:
        await pod.image("agent:v2")
        await asyncio.sleep(60)
        assert pod.story() == [
            (0.0, "running v1 x0 ready"),
            (1.6, "running v1 x0 unready"),
            (11.6, "running v2 x1 unready"),
            (13.6, "running v2 x1 ready"),
        ]
    async with running(probe=True) as pod:
        before = await pod.image("agent:v2")
        await asyncio.sleep(60)
        assert pod.story() == [(0.0, "running v1 x0 ready"), (0.0, "running v2 x1 ready")]
        assert since(pod.seen[-1][1]) > since(before), "nobody has seen that it was not ready"


@virtual_time
async def test_without_probe_nothing_becomes_unready_however_quick() -> None:
    async with running() as pod:
        before = await pod.image("agent:v2")
        await asyncio.sleep(60)
        assert pod.story() == [(0.0, "running v1 x0 ready"), (0.0, "running v2 x1 ready")]
        assert since(pod.seen[-1][1]) == since(before)


@virtual_time
async def test_an_image_that_is_there_is_not_pulled() -> None:
    async with running(SLOW) as pod:
        pod.nodes.preload(NODE, "agent:v2")
        await pod.image("agent:v2")
        await asyncio.sleep(60)
        assert pod.story()[-1] == (1.6, "running v2 x1 ready")


@virtual_time
async def test_an_alias_restarts_and_has_the_same_image() -> None:
    async with running(Behaviour(aliases={"agent:same": "agent:v1"})) as pod:
        before = await pod.image("agent:same")
        await asyncio.sleep(60)
        old, new = state_of(before), state_of(pod.seen[-1][1])
        assert (new["image"], new["imageID"]) == (old["image"], old["imageID"])
        assert new["containerID"] != old["containerID"]


@virtual_time
async def test_an_image_that_cannot_be_pulled_is_an_outage() -> None:
    behaviour = Behaviour(missing_images=("*:bad",), registry="no such manifest")
    async with running(behaviour, probe=True) as pod:
        before = state_of(await pod.image("agent:bad"))
        await asyncio.sleep(50)
        assert pod.story() == [
            (0.0, "running v1 x0 ready"),
            (0.5, "ErrImagePull v1 x0 unready"),
            (1.0, "ImagePullBackOff v1 x0 unready"),
            (10.0, "CrashLoopBackOff v1 x0 unready"),
            (20.0, "ErrImagePull v1 x0 unready"),
            (30.0, "ImagePullBackOff v1 x0 unready"),
            (40.0, "CrashLoopBackOff v1 x0 unready"),
        ]
        state = state_of(pod.seen[-1][1])
        assert {key: state[key] for key in ("containerID", "imageID")} == {
            key: before[key] for key in ("containerID", "imageID")
        }
        assert (state["started"], state["lastState"]["terminated"]["reason"]) == (False, "Completed")
        assert pod.seen[-1][1]["status"]["phase"] == "Running"
        told = await pod.events()
        assert any(line.startswith("Failed: Failed to pull") and "no such manifest" in line for line in told)
        assert {line.partition(":")[0] for line in told} >= {"Killing", "Pulling", "Failed", "BackOff"}
        await pod.image("agent:v1")
        await asyncio.sleep(1)
        assert pod.story()[-1] == (0.0, "running v1 x1 ready"), "going back heals at once"


@virtual_time
async def test_a_registry_that_works_again_is_asked_at_the_next_try() -> None:
    async with running(Behaviour(missing_images=("*:bad",))) as pod:
        await pod.image("agent:bad")
        await asyncio.sleep(15)
        pod.nodes.behave(NODE, INSTANT)
        await asyncio.sleep(60)
        assert pod.story()[-1] == (40.0, "running bad x1 ready")


@virtual_time
async def test_going_back_and_forth_is_held_back() -> None:
    async with running() as pod:
        for version in ("v2", "v3", "v2", "v1"):
            await pod.image(f"agent:{version}")
            await asyncio.sleep(1)
            assert pod.story()[-1][0] == 0.0, version
        await pod.image("agent:v2")
        await asyncio.sleep(60)
        assert pod.story() == [
            (0.0, "running v1 x4 ready"),
            (1.0, "CrashLoopBackOff v1 x4 unready"),
            (10.0, "running v2 x5 ready"),
        ]


@virtual_time
async def test_an_image_that_crashes_is_started_later_and_later() -> None:
    async with running(Behaviour(crashing_images=("*:bad",))) as pod:
        await pod.image("agent:bad")
        await asyncio.sleep(60)
        starts = [moment for moment, words in pod.story() if words.startswith("running bad")]
        assert starts == [0.0, 1.2, 11.4, 31.6]
        assert pod.story()[-3:] == [
            (31.6, "CrashLoopBackOff bad x3 unready"),
            (31.6, "running bad x4 ready"),
            (31.8, "Error bad x4 unready"),
        ]
        await pod.image("agent:v2")
        await asyncio.sleep(1)
        assert pod.story()[-1] == (0.0, "running v2 x5 ready")


@virtual_time
async def test_a_pod_that_crashes_from_its_first_start_does_so_too() -> None:
    async with running(Behaviour(crashing_images=("*:v1",))) as pod:
        assert state_of(pod.seen[-1][1])["restartCount"] == 3


@virtual_time
async def test_only_what_changed_is_restarted() -> None:
    spec = {
        "initContainers": [
            {"name": "init", "image": "init:v1"},
            {"name": "side", "image": "side:v1", "restartPolicy": "Always"},
        ]
    }
    async with running(spec=spec) as pod:
        for name, restarts in (("init", (0, 0, 0)), ("side", (0, 1, 0)), ("main", (0, 1, 1))):
            field = "containers" if name == "main" else "initContainers"
            await pod.change({"spec": {field: [{"name": name, "image": f"{name}:v2"}]}})
            await asyncio.sleep(1)
            found = pod.seen[-1][1]
            assert tuple(state_of(found, one)["restartCount"] for one in ("init", "side", "main")) == restarts
            assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
            assert is_ready(found)


@virtual_time
async def test_a_second_change_during_a_pull_comes_after_it() -> None:
    async with running(SLOW) as pod:
        await pod.image("agent:v2")
        await asyncio.sleep(5)
        await pod.image("agent:v3")
        await asyncio.sleep(60)
        assert [words for _, words in pod.story()] == [
            "running v1 x0 ready",
            "running v2 x1 ready",
            "running v3 x2 ready",
        ]


@virtual_time
async def test_a_pod_may_be_deleted_during_a_pull() -> None:
    async with running(SLOW) as pod:
        await pod.image("agent:v2")
        await asyncio.sleep(5)
        await pod.api.delete(PODS, "one")
        await asyncio.sleep(2)
        assert await pod.api.list(PODS) == []


@virtual_time
async def test_a_status_may_come_late_and_with_all_that_happened() -> None:
    async with running(Behaviour(report=5.0)) as pod:
        await pod.image("agent:v2")
        await asyncio.sleep(1)
        await pod.image("agent:v3")
        await asyncio.sleep(60)
        assert pod.story() == [(0.0, "running v1 x0 ready"), (4.0, "running v3 x2 ready")]


@pytest.mark.parametrize("still", [DEAD, MANUAL], ids=["dead", "manual"])
def test_a_node_that_does_nothing_does_not_even_observe(still: Behaviour) -> None:
    @virtual_time
    async def story() -> None:
        async with running() as pod:
            pod.nodes.behave(NODE, still)
            await pod.image("agent:v2")
            await asyncio.sleep(60)
            assert pod.story() == [(0.0, "running v1 x0 ready")]
            assert pod.seen[-1][1]["status"]["observedGeneration"] == 1
            pod.nodes.behave(NODE, INSTANT)
            await asyncio.sleep(1)
            assert pod.story()[-1][1] == "running v2 x1 ready"

    story()


@virtual_time
async def test_a_power_cut_gives_new_containers_and_another_address() -> None:
    async with running(Behaviour(start=0.5)) as pod:
        before = pod.seen[-1][1]
        pod.nodes.power_off(NODE)
        await asyncio.sleep(60)
        assert len({found["metadata"]["resourceVersion"] for _, found in pod.seen}) == len(pod.seen)
        pod.seen.clear()
        pod.begun = asyncio.get_running_loop().time()
        pod.nodes.power_on(NODE)
        await asyncio.sleep(60)
        assert pod.story() == [(0.0, "Unknown v1 x0 unready"), (0.5, "running v1 x1 ready")]
        after = pod.seen[-1][1]
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["status"]["podIP"] != before["status"]["podIP"]


@virtual_time
async def test_a_restarted_kubelet_changes_nothing_and_tries_again_at_once() -> None:
    async with running(Behaviour(missing_images=("*:bad",))) as pod:
        pod.seen.clear()
        pod.nodes.restart_kubelet(NODE)
        await asyncio.sleep(60)
        assert pod.seen == []
        await pod.image("agent:bad")
        await asyncio.sleep(15)
        pod.nodes.behave(NODE, INSTANT)
        pod.nodes.restart_kubelet(NODE)
        await asyncio.sleep(1)
        assert pod.story()[-1] == (15.0, "running bad x1 ready")


@virtual_time
async def test_an_image_may_never_get_ready() -> None:
    async with running(Behaviour(never_ready=("*:v2",)), probe=True) as pod:
        await pod.image("agent:v2")
        await asyncio.sleep(600)
        assert pod.story()[-1] == (0.0, "running v2 x1 unready")
        assert condition(pod.seen[-1][1], "Ready")["message"] == "containers with unready status: [main]"
