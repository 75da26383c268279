"""Rollouts that the controller carries out step by step, judged by what is written to the API server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.api.objects import epoch
from controller.runtime.leader_election import LeadershipLost
from tests.beds.api import DAEMONSETS, Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.metrics import elected, filled, metric, scraped
from tests.beds.controller.running import Controller
from tests.beds.controller.waves import UNREADY, all_ready, both, layout, live, lose, wave
from tests.beds.nodes import INSTANT, Behaviour
from tests.beds.objects import V1, V2, V3, condition, daemonset, image_of, is_ready, node_of, stays
from tests.beds.simulator.faults import FaultPlan, Hang, Rule
from tests.beds.simulator.transport import InProcess
from tests.system.both import both_beds
from tests.system.pre_delete import hooked, user_controller, watched

ZONES = ("a", "b", "a", "b", "a", "b")
"""Of node-0 … node-5."""


async def deployed(bed: Bed, **rolling: Any) -> None:
    """A DaemonSet everywhere on these nodes; those of zone b carry the label canary too."""
    for number, zone in enumerate(ZONES):
        await bed.nodes.add(f"node-{number}", labels={"zone": zone, **({"canary": "yes"} if zone == "b" else {})})
    await bed.heard()
    await bed.deploy(daemonset(pod={"tolerations": [{"operator": "Exists"}]}, rolling=rolling))


@both_beds
async def test_nodes_are_updated_in_the_order_of_the_spec(bed: Bed) -> None:
    await deployed(bed, maxUnavailable=1, order=[{"matchLabels": {"canary": "yes"}}, {"groupBy": "zone"}])
    await bed.update(V2)
    assert [*bed.journal.deleted] == ["node-5", "node-3", "node-1", "node-4", "node-2", "node-0"]


@both_beds
async def test_one_failure_domain_is_updated_at_a_time_and_no_more_nodes_of_it_than_allowed(bed: Bed) -> None:
    domains = {"key": "zone", "maxUnavailable": 2, "maxDomains": 1}
    await deployed(bed, maxUnavailable=6, order=[{"groupBy": "zone"}], topology=domains)
    bed.nodes.behave("*", UNREADY)
    await bed.set_image(V2)
    for moved in ((4, 2), (0,), (5, 3), (1,)):
        await wave(bed, both(*moved))
        assert condition(await bed.daemonset(), "Progressing")["reason"] in ("TopologyInUse", "Updating")
        await all_ready(bed)
    assert await layout(bed) == "v2 v2 v2 v2 v2 v2"


@pytest.mark.parametrize("label", [{"zone": "b"}, {"early": "yes"}])
async def test_a_node_label_that_moves_a_turn_into_the_open_domain_counts_at_once(
    bed: Bed, label: dict[str, str]
) -> None:
    """Zone b is open, and the turn of node-5 comes after those of node-2 and node-0 in zone a."""
    domains = {"key": "zone", "maxUnavailable": 3, "maxDomains": 1}
    order = [{"matchLabels": {"early": "yes"}}, {"groupBy": "zone"}]
    await deployed(bed, maxUnavailable=6, order=order, topology=domains, steps=[{"nodes": 3}, {"nodes": "100%"}])
    bed.nodes.behave("*", UNREADY)
    await bed.label_node("node-4", zone="b", early="yes")
    await bed.set_image(V2)
    await wave(bed, both(4))
    await bed.idle(30)
    await bed.label_node("node-2" if "zone" in label else "node-5", **label)
    await wave(bed, both(5))


SOAK = 600
STEPS = [{"nodes": 1, "soak": "10m"}, {"nodes": "50%", "soak": "30m", "approval": "Required"}, {"nodes": "100%"}]


async def stepped(bed: Bed, **rolling: Any) -> None:
    """v1 is stable, and v2 soaks on the one node of the first step."""
    bed.patience = 86_400.0
    await deployed(bed, maxUnavailable=6, steps=STEPS, **rolling)
    await bed.idle(60)
    await bed.set_image(V2)
    await wave(bed, both(5))
    assert (await bed.phase("Soaking"))["step"] == 1


async def say(bed: Bed, **annotations: str) -> None:
    said = {f"kruise-ds/{key.replace('_', '-')}": value for key, value in annotations.items()}
    await bed.api.patch(DAEMONSETS, "agent", {"metadata": {"annotations": said}})


async def test_a_rollout_walks_through_its_steps_and_waits_for_time_and_approval(bed: Bed) -> None:
    await stepped(bed)
    began = asyncio.get_running_loop().time()
    assert (await bed.daemonset())["status"]["columns"]["step"] == "1/3"
    await wave(bed, both(4, 3))
    assert SOAK - 5 <= asyncio.get_running_loop().time() - began < SOAK + 30
    await bed.phase("AwaitingApproval")
    assert asyncio.get_running_loop().time() - began >= SOAK + 1800 - 5
    revision = (await bed.daemonset())["status"]["updateRevision"]
    assert f"kruise-ds/approve={revision}/2" in condition(await bed.daemonset(), "Ready")["message"]
    await bed.event("AwaitingApproval")
    await say(bed, approve=f"{revision}/1")
    await wave(bed, "")
    await say(bed, approve=f"{revision}/2")
    await wave(bed, both(2, 1, 0))
    assert (await bed.phase("Healthy"))["step"] == 3


@pytest.mark.parametrize("ahead", [0.0, 7200.0, -7200.0])
@pytest.mark.parametrize("what", ["nothing", "restart", "clock", "unready", "status", "restart unready", "new node"])
async def test_no_soak_is_shorter_than_the_spec_says(bed: Bed, what: str, ahead: float) -> None:
    """Whatever happens in its middle. What takes its reason away begins it anew."""
    bed.controller.ahead = ahead
    await stepped(bed)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await bed.idle(300)
    if "restart" in what:
        await bed.controller.stop()
    if what == "clock":
        bed.controller.ahead += 7200.0
    if "unready" in what:
        (pod,) = [pod for node, pod in (await bed.pods()).items() if node == "node-5"]
        await bed.nodes.ready(pod, value=False)  # its kubelet makes it ready again
    if what == "status":
        await bed.api.patch(DAEMONSETS, "agent", [{"op": "remove", "path": "/status"}], sub="status")
    if what == "new node":
        await bed.nodes.add("node-6")
        await wave(bed, "+6")
        assert (await layout(bed)).split()[6] == "v1"
    if "restart" in what:
        bed.controller.start()
    lasts = what in ("nothing", "clock", "new node") or (what == "restart" and not ahead)
    begun = began if lasts else loop.time()
    while not bed.journal.deleted:
        await bed.journal.news(bed.patience)
    assert SOAK - 1 <= loop.time() - begun < SOAK + 60


@pytest.mark.parametrize(("first", "then"), [(0.0, 7200.0), (-7200.0, 0.0), (-3600.0, 3600.0), (7200.0, 0.0)])
async def test_no_soak_is_shorter_in_another_process_whose_clock_differs(bed: Bed, first: float, then: float) -> None:
    bed.controller.ahead = first
    await stepped(bed)
    began = asyncio.get_running_loop().time()
    await bed.idle(300)
    await bed.controller.stop()
    bed.controller.ahead = then
    bed.controller.start()
    while not bed.journal.deleted:
        await bed.journal.news(bed.patience)
    assert asyncio.get_running_loop().time() - began >= SOAK - 1


@pytest.mark.parametrize("ahead", [0.0, -7200.0, 7200.0])
async def test_the_recorded_times_of_a_soak_are_at_least_as_far_apart_as_the_soak_is_long(
    bed: Bed, ahead: float
) -> None:
    bed.patience, bed.controller.ahead = 86_400.0, ahead
    await deployed(bed, steps=[{"nodes": 1, "soak": "10m", "approval": "Required"}, {"nodes": "100%"}])
    await bed.idle(60)
    for image in (V2, V3, V2, V3):
        await asyncio.sleep(0.3)
        await bed.set_image(image)
        await bed.phase("Soaking")
        record = await bed.phase("AwaitingApproval")
        reached, over = epoch(record["stepReachedTime"]), epoch(record["lastTransitionTime"])
        assert reached is not None
        assert over is not None
        assert SOAK <= over - reached < SOAK + 10
        assert bed.clock() + max(ahead, 0.0) >= reached + SOAK


async def test_a_lost_pod_beyond_the_step_begins_the_soak_anew_too(bed: Bed) -> None:
    """After the status was lost. The clock of the controller is ahead, and the next pod is ready at once."""
    bed.controller.ahead = 7200.0
    await stepped(bed)
    await wave(bed, both(4, 3))
    await bed.api.patch(DAEMONSETS, "agent", [{"op": "remove", "path": "/status"}], sub="status")
    assert (await bed.phase("Soaking"))["step"] == 1
    await bed.idle(300)
    began = asyncio.get_running_loop().time()
    await lose(bed, 3)
    await wave(bed, "+3")
    while (await bed.daemonset())["status"]["rollout"]["step"] == 1:
        await asyncio.sleep(1)
    assert SOAK - 1 <= asyncio.get_running_loop().time() - began < SOAK + 60


async def test_a_leader_that_loses_its_lease_in_mid_batch_skips_no_step(bed: Bed) -> None:
    bed.patience = 86_400.0
    steps = [{"nodes": 1}, {"nodes": 3, "soak": "10m"}, {"nodes": "100%"}]
    await deployed(bed, maxUnavailable=6, steps=steps)
    await bed.idle(60)
    await bed.controller.stop()
    async with asyncio.TaskGroup() as tasks:
        successor = Controller(InProcess(bed.simulator.cluster), bed.api.namespace, tasks, clock=bed.clock)
        with pytest.raises(ExceptionGroup) as caught:
            await led_into_the_second_step(bed, successor)
        assert caught.group_contains(LeadershipLost, depth=None)
        assert await layout(bed) == "v1 v1 v1 v1 v2 v2"
        reached, loop = list[float](), asyncio.get_running_loop()
        while True:
            updated = [pod for pod in await live(bed) if image_of(pod) == V2]
            record = (await bed.daemonset())["status"]["rollout"]
            assert len(updated) <= (1, 3, 6)[record["step"] - 1]
            if len(updated) > 3:
                break
            if len(updated) == 3 and all(map(is_ready, updated)):
                reached.append(loop.time())
            await asyncio.sleep(0.5)
        assert loop.time() - reached[0] >= SOAK - 1
        await bed.phase("Healthy")
        await successor.stop()


async def led_into_the_second_step(bed: Bed, successor: Controller) -> None:
    """By a leader that has updated one of two nodes when neither the other delete nor its Lease gets an answer."""
    faults = FaultPlan(Rule(verb="delete", resource="pods", nth=(3,), effect=Hang()))
    async with asyncio.TaskGroup() as tasks:
        leader = Controller(
            InProcess(bed.simulator.cluster, faults=faults), bed.api.namespace, tasks, clock=bed.clock
        )
        leader.start(elected(bed))
        await scraped(bed, lambda: "" if metric(leader, "leader_election_master_status") else "it does not lead")
        successor.start(elected(bed))
        await filled(bed, successor)
        await bed.set_image(V2)
        while sum(image_of(pod) == V2 for pod in await live(bed)) < 2:
            await asyncio.sleep(0.1)
        faults.add(Rule(verb="patch", resource="leases*", effect=Hang()))


async def restart(bed: Bed, at: str) -> None:
    """As `kubectl kruise-ds restart`, and tools that take pods along with their configuration."""
    await bed.edit({"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": at}}}})


async def test_updated_pods_that_fail_abort_the_rollout_until_a_retry(bed: Bed) -> None:
    bed.patience = 86_400.0
    await deployed(bed, maxUnavailable=2, onFailure={"unavailableNodes": 2, "after": "5m"})
    bed.nodes.behave("*", UNREADY)
    await bed.set_image(V2)
    await wave(bed, both(5, 4))
    began = asyncio.get_running_loop().time()
    record = await bed.phase("Aborted")
    assert 299 <= asyncio.get_running_loop().time() - began < 330
    revision = (await bed.daemonset())["status"]["updateRevision"]
    assert record["abortedRevision"] == revision
    stalled = condition(await bed.daemonset(), "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "RolloutAborted")
    assert "on node-5" in stalled["message"]
    await bed.event("RolloutAborted", "2 updated nodes have no available pod for longer than 5m")
    await all_ready(bed)
    await bed.controller.stop()
    bed.controller.start()
    await bed.idle(60)
    bed.journal.clear()
    await lose(bed, 0)
    await wave(bed, "+0")
    await bed.phase("Aborted")
    assert await layout(bed) == "v1 v1 v1 v1 v2 v2"
    bed.nodes.behave("*", INSTANT)
    await all_ready(bed)
    await say(bed, retry=revision)
    await wave(bed, both(3, 2, 1, 0))
    await bed.phase("Healthy")


async def test_a_mended_version_begins_where_the_bad_one_is(bed: Bed) -> None:
    """There maxUnavailable is used up, so that no other node could be updated, also one that comes first in order."""
    bed.patience = 86_400.0
    steps = [{"nodes": 1, "soak": "1m"}, {"nodes": "100%"}]
    await deployed(bed, steps=steps, onFailure={"unavailableNodes": 1, "after": "1m"})
    await bed.idle(60)
    bed.nodes.behave("*", Behaviour(never_ready=(V2,)))
    await bed.set_image(V2)
    await bed.phase("Aborted")
    await bed.nodes.add("node-6")
    await wave(bed, f"{both(5)} +6")
    await bed.set_image(V3)
    await wave(bed, both(5))
    await wave(bed, both(6, 4, 3, 2, 1, 0))
    await bed.phase("Healthy")


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_bad_revision_goes_back_by_itself_and_the_spec_is_not_touched(bed: Bed, restarts: bool) -> None:
    bed.patience = 86_400.0
    await deployed(bed, maxUnavailable=2, partition=1, onFailure={"unavailableNodes": 2, "action": "RollBack"})
    await bed.idle(60)
    bed.nodes.behave("*", UNREADY)
    await bed.set_image(V2)
    await wave(bed, both(5, 4))
    spec = (await bed.daemonset())["spec"]
    if restarts:
        await bed.idle(150)
        await bed.controller.stop()
        bed.controller.start()
    await wave(bed, both(5, 4))
    await all_ready(bed)
    await bed.idle()
    assert await layout(bed) == "v1 v1 v1 v1 v1 v1"
    found = await bed.daemonset()
    assert found["spec"] == spec
    assert found["status"]["rollout"]["phase"] == "Aborted"
    assert f"get revision {found['status']['updateRevision']} back" in condition(found, "Stalled")["message"]
    bed.journal.clear()
    await bed.idle(3600)
    assert [*bed.journal.deleted] == []


async def test_a_node_that_only_the_stable_revision_accepts_gets_it_after_an_abort(bed: Bed) -> None:
    """In force is the placement of what nodes get back."""
    bed.patience = 86_400.0
    await deployed(bed, maxUnavailable=6, onFailure={"unavailableNodes": 1, "action": "RollBack"})
    await bed.idle(60)
    bed.nodes.behave("*", UNREADY)
    container = {**(await bed.daemonset())["spec"]["template"]["spec"]["containers"][0], "image": V2}
    await bed.edit({"template": {"spec": {"containers": [container], "nodeSelector": {"zone": "b"}}}})
    await bed.phase("Aborted")
    bed.nodes.behave("*", INSTANT)
    await all_ready(bed)
    await bed.idle()
    assert await layout(bed) == "v1 v1 v1 v1 v1 v1"
    bed.journal.clear()
    await bed.nodes.add("node-6", labels={"zone": "a"})
    await wave(bed, "+6")


async def test_surge_hook_zones_steps_and_the_way_back_hold_at_once(bed: Bed) -> None:
    """Two domains and a surge of two would have room for more than one node with two pods."""
    bed.patience = 1200.0
    for number, zone in enumerate(ZONES):
        await bed.nodes.add(f"node-{number}", labels={"zone": zone})
    steps = [{"nodes": 1, "soak": "1m"}, {"nodes": "50%", "soak": "1m"}, {"nodes": "100%"}]
    rolling = {
        "maxSurge": 2,
        "maxUnavailable": 0,
        "steps": steps,
        "order": [{"groupBy": "zone"}],
        "topology": {"key": "zone", "maxUnavailable": 1, "maxDomains": 1},
        "onFailure": {"unavailableNodes": 1, "after": "1m", "action": "RollBack"},
    }
    await bed.deploy(hooked(rolling=rolling))
    await asyncio.sleep(60)
    bed.nodes.behave("node-5", Behaviour(never_ready=(V2,)))
    paired, new = set[int](), list[str]()

    def look(pods: dict[str, Object]) -> None:
        live = [pod for pod in pods.values() if stays(pod, "agent")]
        paired.add(len(live) - len({*map(node_of, live)}))
        new.extend(node_of(pod) for pod in live if image_of(pod) == V2 and node_of(pod) not in new)

    async with user_controller(bed, 20.0), watched(bed, look):
        await bed.set_image(V2)
        record = await bed.phase("Aborted")
        await bed.runs_on(*bed.nodes.names, image=V1)
    assert (max(paired), new) == (1, ["node-4", "node-2", "node-0", "node-5"])
    assert record["abortedRevision"] != record["stableRevision"]
