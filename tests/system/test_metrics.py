"""What a scrape tells of each DaemonSet, beside what its pods and its status are at the server."""

from __future__ import annotations

import asyncio

import msgspec

from controller.api.objects import epoch
from tests.beds.api import DAEMONSETS, PODS
from tests.beds.controller.bed import Bed
from tests.beds.controller.metrics import Numbers, elected, filled, scraped, state, tells
from tests.beds.controller.running import Controller
from tests.beds.controller.waves import UNREADY, all_ready, roll
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, daemonset, is_ready, on_delete
from tests.beds.simulator.faults import LateWatch, Rule

ZONE = "topology.kubernetes.io/zone"
CRASHES = Behaviour(crash=0.0, back_off=3600.0)
NO_IMAGE = Behaviour(missing_images=("*:v2",))
REFUSED = {"containers": [{"name": "agent", "image": V2, "volumeMounts": [{"name": "nowhere", "mountPath": "/x"}]}]}


async def zoned(bed: Bed, east: int, west: int) -> None:
    """node-0 … in the east, then those in the west."""
    for number in range(east + west):
        await bed.nodes.add(f"node-{number}", labels={ZONE: "east" if number < east else "west"})


def whole(found: dict[str, Numbers]) -> float:
    """All nodes of all zones and states."""
    zones = found["rollout_zone_nodes"]
    assert isinstance(zones, dict)
    return sum(zones.values())


async def test_an_update_on_which_two_nodes_fail(bed: Bed) -> None:
    await zoned(bed, 3, 3)
    await bed.deploy(daemonset(rolling={"maxUnavailable": "50%"}))
    made = await bed.daemonset()
    healthy = await tells(bed, rollout_phase={"Healthy": 1}, status_number_available=6)
    assert healthy["created"] == epoch(made["metadata"]["creationTimestamp"])
    assert healthy["rollout_zone_nodes"] == {"updated/east": 3, "updated/west": 3}
    assert healthy["spec_strategy_rollingupdate_max_unavailable"] == 3
    assert (healthy["rollout_blocked"], healthy["rollout_failed_nodes"]) == ({}, {})
    bed.nodes.behave("node-5", CRASHES)
    bed.nodes.behave("node-2", NO_IMAGE)
    await bed.set_image(V2)
    found = await tells(
        bed,
        rollout_failed_nodes={"CrashLoopBackOff": 1, "ImagePull": 1},
        rollout_updated_available_nodes=4,
        rollout_updating_nodes=0,
        status_number_unavailable=2,
    )
    pods = await bed.pods()
    assert {node for node, pod in pods.items() if not is_ready(pod)} == {"node-2", "node-5"}
    zones = {"updated/east": 2, "failed/east": 1, "updated/west": 2, "failed/west": 1}
    assert (found["rollout_zone_nodes"], found["rollout_blocked"]) == (zones, {})
    assert (found["rollout_phase"], found["rollout_target_nodes"]) == ({"Progressing": 1}, 6)
    revision = (await bed.daemonset())["status"]["updateRevision"]
    assert found["info"] == {f"Standard/RollingUpdate/{revision}": 1}
    assert found["rollout_started_timestamp_seconds"] == epoch((await bed.phase("Progressing"))["startTime"])
    bed.nodes.behave("node-5", None)
    bed.nodes.behave("node-2", None)
    for pod in [pods["node-2"], pods["node-5"]]:
        await bed.api.delete(PODS, pod["metadata"]["name"])
    await tells(bed, rollout_phase={"Healthy": 1}, rollout_failed_nodes={}, rollout_updated_available_nodes=6)
    await bed.api.delete(DAEMONSETS, "agent")
    await gone(bed)


async def gone(bed: Bed) -> None:
    def missing() -> str:
        found = state(bed.controller)
        return f"there is still {found}" if found else ""

    await scraped(bed, missing)


async def test_whatever_is_in_the_way_is_told(bed: Bed) -> None:
    await bed.deploy(daemonset(rolling={"maxUnavailable": 1, "partition": "50%"}), nodes=4)
    assert (await tells(bed, rollout_phase={"Healthy": 1}))["rollout_blocked"] == {}
    await bed.set_image(V2)
    held = await tells(bed, rollout_phase={"Held": 1}, rollout_updated_available_nodes=2)
    assert (held["rollout_blocked"], held["spec_strategy_partition"]) == ({"Partition": 1}, 2)
    assert (held["rollout_target_nodes"], held["rollout_paused_since_timestamp_seconds"]) == (2, 0)
    await roll(bed, partition=3)
    raised = await tells(bed, rollout_unplanned_updated_nodes=1, rollout_target_nodes=1)
    assert raised["rollout_zone_nodes"] == {"updated/none": 2, "old/none": 2}
    await roll(bed, partition=1, paused=True)
    paused = await tells(bed, rollout_phase={"Paused": 1}, rollout_blocked={"Partition": 1, "Paused": 1})
    since = (await bed.phase("Paused"))["lastTransitionTime"]
    told = paused["rollout_paused_since_timestamp_seconds"]
    assert isinstance(told, float)
    assert 0 <= (epoch(since) or 0) - told + 1 <= 2, "as the record says"
    await roll(bed, partition=None, paused=None, selector={"matchLabels": {"canary": "yes"}})
    chosen = await tells(bed, rollout_phase={"Held": 1}, rollout_blocked={"Selector": 1})
    assert (chosen["rollout_paused_since_timestamp_seconds"], chosen["rollout_unplanned_updated_nodes"]) == (0, 2), (
        "the selector chooses no node, and two have the new revision"
    )
    bed.nodes.behave("*", UNREADY)
    await roll(bed, selector=None)
    waits = await tells(bed, rollout_updating_nodes=1, rollout_blocked={"Budget": 1})
    assert waits["rollout_zone_nodes"] == {"updated/none": 2, "updating/none": 1, "old/none": 1}
    bed.nodes.behave("*", None)
    await all_ready(bed)
    await tells(bed, rollout_phase={"Healthy": 1}, rollout_blocked={})


async def test_what_only_a_person_can_go_on_with(bed: Bed) -> None:
    """OnDelete, a refused template, and a hook that holds each pod: side by side."""
    await bed.add_nodes(1)
    hooked = daemonset("hooked", lifecycle={"preDelete": {"labelsHandler": {"hold": "yes"}}})
    hooked["spec"]["template"]["metadata"]["labels"]["hold"] = "yes"
    for one in (on_delete("manual"), daemonset("refused"), hooked):
        await bed.deploy(one)
    await bed.set_image(V2, "manual")
    await bed.set_image(V2, "hooked")
    await bed.edit({"template": {"spec": REFUSED}}, "refused")
    manual = await tells(bed, name="manual", rollout_phase={"Manual": 1}, rollout_blocked={})
    assert "OnDelete" in str(manual["info"])
    refused = await tells(bed, name="refused", rollout_phase={"Stalled": 1}, rollout_blocked={"TemplateRefused": 1})
    assert (refused["rollout_failed_nodes"], refused["rollout_updating_nodes"]) == ({}, 0)
    await tells(bed, name="hooked", rollout_blocked={"PreDeleteHook": 1})


async def test_held_pods_are_overdue_after_an_hour_without_any_event(bed: Bed) -> None:
    await bed.add_nodes(2)
    hooked = daemonset(lifecycle={"preDelete": {"labelsHandler": {"hold": "yes"}}})
    hooked["spec"]["template"]["metadata"] = {"labels": {"app": "agent", "hold": "yes"}}
    await bed.deploy(hooked)
    await tells(bed, preparing_delete_pods=0, preparing_delete_overdue_pods=0)
    await bed.set_image(V2)
    await tells(bed, preparing_delete_pods=1, preparing_delete_overdue_pods=0)
    await asyncio.sleep(3595)
    await tells(bed, preparing_delete_pods=1, preparing_delete_overdue_pods=0)
    await asyncio.sleep(10)
    await tells(bed, preparing_delete_pods=1, preparing_delete_overdue_pods=1)


async def test_a_cache_that_lags_behind_our_own_writes_is_told(bed: Bed) -> None:
    await bed.add_nodes(1)
    await filled(bed, bed.controller)
    late = Rule(verb="watch", resource="pods", effect=LateWatch(seconds=3600))
    bed.simulator.link.faults.add(late)
    bed.simulator.link.drop_watches("pods")
    await bed.api.create(DAEMONSETS, daemonset())
    await tells(bed, rollout_blocked={"Expectations": 1})
    bed.simulator.link.faults.remove(late)
    bed.simulator.link.drop_watches("pods")
    await tells(bed, rollout_blocked={}, rollout_phase={"Healthy": 1})


async def test_a_pod_that_never_gets_ready_fails_in_the_end_without_any_event(bed: Bed) -> None:
    await bed.add_nodes(2)
    bed.nodes.behave("node-1", UNREADY)
    await bed.api.create(DAEMONSETS, daemonset())
    pods = await bed.runs_on("node-0", "node-1", ready=False)
    early = await tells(bed, rollout_updating_nodes=1, rollout_updated_available_nodes=1)
    assert early["rollout_failed_nodes"] == {}
    created = epoch(pods["node-1"]["metadata"]["creationTimestamp"]) or 0
    deadline = int(bed.clock() - created) + 3
    notes = {"kruise-ds/progress-deadline-seconds": str(deadline)}
    await bed.api.patch(DAEMONSETS, "agent", {"metadata": {"annotations": notes}})
    late = await tells(bed, rollout_failed_nodes={"NotReady": 1})
    assert (late["rollout_updating_nodes"], whole(late)) == (0, 2)
    assert bed.clock() >= created + deadline


async def test_only_the_leader_tells_and_the_next_one_takes_over(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=2)
    await bed.controller.stop()
    async with asyncio.TaskGroup() as tasks:
        pair = [Controller(bed.simulator.link, bed.api.namespace, tasks) for _ in range(2)]
        settings = [elected(bed), msgspec.structs.replace(elected(bed), zone_metrics=False)]
        pair[0].start(settings[0])
        await tells(bed, pair[0], rollout_zone_nodes={"updated/none": 2})
        pair[1].start(settings[1])
        await filled(bed, pair[1])
        assert state(pair[1]) == {}, "a standby tells nothing of what it does not look after"
        await pair[0].stop()
        found = await tells(bed, pair[1], rollout_phase={"Healthy": 1}, rollout_updating_nodes=0)
        assert "rollout_zone_nodes" not in found, "zones were turned off there"
        await pair[1].stop()
