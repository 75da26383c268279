"""A server that answers slowly, or lets requests hang, keeps no lost pod waiting."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from controller.kube.sender import CEILING
from controller.runtime.lease import LeadershipLost
from tests.beds.api import DAEMONSETS, LEASES, NAMESPACES, PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.metrics import elected, metric, scraped
from tests.beds.controller.opening import simulated
from tests.beds.controller.running import Controller
from tests.beds.objects import bare_pod, daemonset, node_of, stays
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import Answer, Effect, ErrorEvent, FaultPlan, Hang, Rule
from tests.beds.simulator.kinds import PODS as POD_KIND
from tests.beds.simulator.refusal import Refused
from tests.beds.simulator.transport import InProcess
from tests.beds.virtual_time import now

STUCK = "stuck"
"""A namespace whose every request hangs: its webhook takes all and answers none."""
HANGS = Rule(verb="create,patch,delete,get", resource="*", namespace=STUCK, effect=Hang())
TOO_OLD = Rule(verb="watch", resource="pods", times=1, effect=ErrorEvent())
NODES = 12
LATENCY = 0.02
DRAIN = 20.0


async def deploy_beside(bed: Bed, count: int, *, listed: bool = True) -> None:
    """`agent` where all is well, and `count` others whose pods have all been lost since their namespace hangs.

    `listed`: a list shows them lost at once, so that all creates of a pass hang.
    """
    await bed.controller.stop()
    bed.controller.start(msgspec.structs.replace(bed.controller.settings, namespaces=()))
    bed.patience = 600.0
    await bed.add_nodes(NODES)
    await bed.deploy(daemonset())
    await bed.api.create(NAMESPACES, {"metadata": {"name": STUCK}})
    names = [f"stuck-{number}" for number in range(count)]
    for name in names:
        one = daemonset(name)
        await bed.api.create(DAEMONSETS, one | {"metadata": {**one["metadata"], "namespace": STUCK}})
    await all_run(bed, count)
    await bed.idle(60)
    bed.simulator.link.faults.add(HANGS)
    if listed:
        bed.simulator.link.faults.add(TOO_OLD)
    bed.simulator.link.drop_watches("pods")
    for pod in await bed.api.list(PODS, namespace=STUCK):
        await bed.api.delete(PODS, pod["metadata"]["name"], namespace=STUCK)


async def all_run(bed: Bed, count: int) -> None:
    def missing(found: list[Object]) -> str:
        return "" if len(found) == count * NODES else f"there are {len(found)} pods"

    await bed.until(PODS, missing, "all run", namespace=STUCK)


async def lose_a_pod(bed: Bed, node: str) -> float:
    """Returns after how many seconds the server has stored another one."""
    nodes = [f"node-{number}" for number in range(NODES)]
    name = (await bed.pods())[node]["metadata"]["name"]
    began = now()
    await bed.api.delete(PODS, name)
    await bed.runs_on(*nodes)
    return now() - began


@pytest.mark.parametrize("count", [3, 20])
async def test_requests_of_others_that_hang_keep_no_lost_pod_waiting(count: int) -> None:
    async with simulated(latency=LATENCY) as bed:
        await deploy_beside(bed, count)
        for wait in (3.0, 1.0, 10.0, 19.1, 30.2, 45.0):  # the watch is back; requests end after 30 s, and come again
            await asyncio.sleep(wait)
            assert await lose_a_pod(bed, "node-1") <= 1.0
        assert bed.simulator.link.faults.fired(HANGS) >= min(count * NODES, CEILING), "many of each"
        bed.simulator.link.faults.remove(HANGS)
        bed.patience = 3600.0
        await all_run(bed, count)


async def test_the_controller_ends_in_time_though_requests_hang() -> None:
    async with simulated(latency=LATENCY) as bed:
        await deploy_beside(bed, 9)
        await asyncio.sleep(3)
        began = now()
        await bed.controller.stop()
        assert now() - began <= DRAIN


async def test_a_cache_is_listed_again_though_requests_hang() -> None:
    """In pages, which are requests like any other."""
    too_old = Rule(verb="watch", resource="pods", times=1, effect=ErrorEvent())
    async with simulated(latency=LATENCY) as bed:
        bed.simulator.cluster.watch_list = False
        await deploy_beside(bed, 9, listed=False)
        await asyncio.sleep(3)
        link = bed.simulator.link
        link.faults.add(too_old)
        link.drop_watches("pods")
        assert await lose_a_pod(bed, "node-1") <= 5.0, "seconds; behind what hangs it would be 27"
        assert link.faults.fired(too_old), "the watch was too old"


async def test_a_leader_that_loses_its_lease_ends_at_once_though_requests_hang() -> None:
    async with simulated(latency=LATENCY) as bed:
        await deploy_beside(bed, 9)
        await asyncio.sleep(3)
        await bed.controller.kill()
        with pytest.raises(ExceptionGroup) as caught:
            await led_until_another_does(bed)
        assert caught.group_contains(LeadershipLost, depth=None)


async def led_until_another_does(bed: Bed) -> None:
    """A leader with nine passes that hang; somebody else is written into its Lease."""
    began = 0.0
    link = InProcess(bed.simulator.cluster, faults=FaultPlan(HANGS))
    try:
        async with asyncio.TaskGroup() as tasks:
            leader = Controller(link, bed.api.namespace, tasks)
            leader.start(msgspec.structs.replace(elected(bed), namespaces=()))
            await scraped(bed, lambda: "" if in_hand(leader) == 9 else f"{in_hand(leader)} passes wait")
            (lease,) = await bed.api.list(LEASES)
            began = now()
            await bed.api.patch(LEASES, lease["metadata"]["name"], {"spec": {"holderIdentity": "another"}})
    finally:
        assert now() - began <= 3.0


def in_hand(controller: Controller) -> float:
    return metric(controller, "controller_runtime_active_workers")


async def test_creates_that_take_three_seconds_each_are_not_made_one_by_one() -> None:
    async with simulated(latency=0.02) as bed:
        bed.patience = 3600.0
        nodes = await bed.add_nodes(120)
        bed.simulator.link.faults.add(Rule(verb="create", resource="pods", effect=Hang(seconds=3.0)))
        began = now()
        await bed.api.create(DAEMONSETS, daemonset())
        await bed.runs_on(*nodes)
        assert now() - began < 60.0, "seconds; 7 batches of 1, 2, 4 … 64 make 21"


SLOW, SILENT = Hang(seconds=3.0), Hang()
REFUSED, BROKEN = Answer(403, reason="Forbidden"), Answer(500, reason="InternalError")


@pytest.mark.parametrize("effect", [SLOW, SILENT, REFUSED, BROKEN], ids=["slow", "silent", "refused", "broken"])
async def test_a_look_before_an_adoption_that_fails_keeps_no_lost_pod_waiting(effect: Effect) -> None:
    async with simulated(latency=0.02) as bed:
        bed.patience = 600.0
        nodes = await bed.deploy(daemonset(), nodes=3)
        rule = Rule(verb="get", resource="daemonsets.apps.kruise.io", effect=effect)
        bed.simulator.link.faults.add(rule)
        await bed.api.create(PODS, bare_pod("orphan", nodes[1]))
        await asyncio.sleep(5.0)  # of virtual time
        lost = (await bed.pods())[nodes[0]]["metadata"]
        began = now()
        await bed.api.delete(PODS, lost["name"])

        def missing(found: list[Object]) -> str:
            there = [pod for pod in found if stays(pod, "agent") and node_of(pod) == nodes[0]]
            return "" if any(pod["metadata"]["uid"] != lost["uid"] for pod in there) else "it is not back"

        await bed.until(PODS, missing, "the lost pod is back")
        assert now() - began < 10.0


@pytest.mark.parametrize("seconds", [0.0, 3.0])
async def test_a_status_that_is_refused_backs_off(seconds: float) -> None:
    async with simulated(latency=0.02) as bed:
        await bed.deploy(daemonset(), nodes=1)
        status = Rule(verb="patch", resource="daemonsets.apps.kruise.io/status", effect=Hang(seconds=seconds))
        bed.simulator.link.faults.add(status)

        def admit(attempt: Attempt) -> None:
            if attempt.kind.resource == "daemonsets.apps.kruise.io" and attempt.verb != "create":
                raise Refused(403, "Forbidden", "the policy webhook says no")

        bed.simulator.cluster.admission.append(admit)
        await bed.nodes.add("node-1")
        await asyncio.sleep(600.0)  # of virtual time
        assert 2 <= bed.simulator.link.faults.fired(status) <= 40


async def test_an_adoption_without_effect_keeps_no_lost_pod_waiting() -> None:
    async with simulated(latency=0.02) as bed:
        nodes = await bed.deploy(daemonset(), nodes=3)

        def admit(attempt: Attempt) -> None:
            if attempt.kind is POD_KIND and attempt.verb == "update" and attempt.name == "orphan":
                attempt.object["metadata"].pop("ownerReferences", None)

        bed.simulator.cluster.admission.append(admit)
        await bed.api.create(PODS, bare_pod("orphan", nodes[1]))
        await asyncio.sleep(5.0)  # of virtual time
        await bed.api.delete(PODS, (await bed.pods())[nodes[0]]["metadata"]["name"])
        await asyncio.sleep(60.0)
        assert bed.journal.created == [nodes[0]]
