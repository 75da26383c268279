"""What is in flight counts as done, and the limits hold: answers that come late or never, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import simulated
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, bare_pod, daemonset
from tests.beds.pods import image_of, is_ready, node_of, stays
from tests.beds.simulator.faults import Hang, LateRequest, Rule

SLOW = Behaviour(start=0.3, ready=0.2, terminate=0.3)
NODES = 8
NOT_THE_DRY_RUN = tuple(range(2, 500))


async def rolled(bed: Bed, which: Callable[[Object], bool]) -> list[int]:
    """How many such pods there are in each tenth of a second of a minute of a rollout."""
    await bed.set_image(V2)
    found: list[int] = []
    for _ in range(600):
        await asyncio.sleep(0.1)  # of virtual time
        found.append(sum(map(which, await bed.api.list(PODS))))
    return found


def stays_on(pod: Object) -> bool:
    return stays(pod, "agent")


def serves(pod: Object) -> bool:
    return is_ready(pod) and stays_on(pod)


@pytest.mark.parametrize("hang", [Hang(seconds=9.0), Hang()], ids=["slow", "silent"])
async def test_deletions_that_are_not_answered_keep_max_surge(hang: Hang) -> None:
    async with simulated(latency=0.02, behaviour=SLOW) as bed:
        await bed.add_nodes(NODES)
        await bed.deploy(daemonset(rolling={"maxSurge": 1, "maxUnavailable": 0}))
        bed.simulator.link.faults.add(Rule(verb="delete", resource="pods", effect=hang))
        assert max(await rolled(bed, stays_on)) <= NODES + 1


@pytest.mark.parametrize("late", [2.0, 5.0])
async def test_deletions_that_come_through_late_keep_max_unavailable(late: float) -> None:
    async with simulated(latency=0.02, behaviour=SLOW) as bed:
        await bed.add_nodes(NODES)
        await bed.deploy(daemonset(rolling={"maxUnavailable": 1}))
        bed.simulator.link.faults.add(Rule(verb="delete", resource="pods", effect=LateRequest(seconds=late)))
        assert min(await rolled(bed, serves)) >= NODES - 1


@pytest.mark.parametrize("late", [2.0, 5.0])
async def test_second_pods_that_come_late_keep_max_surge(late: float) -> None:
    async with simulated(latency=0.02, behaviour=SLOW) as bed:
        await bed.add_nodes(NODES)
        await bed.deploy(daemonset(rolling={"maxSurge": 1, "maxUnavailable": 0}))
        late_create = Rule(verb="create", resource="pods", nth=NOT_THE_DRY_RUN, effect=LateRequest(seconds=late))
        bed.simulator.link.faults.add(late_create)
        assert max(await rolled(bed, stays_on)) <= NODES + 1


async def test_a_slow_adoption_kills_no_running_pod_and_puts_no_second_one_beside_it() -> None:
    """A takeover: every node runs an orphan, and the server takes 2.5 s for each patch."""
    async with simulated(latency=0.02) as bed:
        bed.patience = 600.0
        nodes = await bed.add_nodes(20)
        for node in nodes:
            await bed.api.create(PODS, bare_pod(f"orphan-{node}", node))
        before = {pod["metadata"]["uid"] for pod in await bed.api.list(PODS)}
        bed.simulator.link.faults.add(Rule(verb="patch", resource="pods", effect=Hang(seconds=2.5)))
        await bed.api.create(DAEMONSETS, daemonset(rolling={"maxUnavailable": 1, "partition": 20}))
        await asyncio.sleep(60.0)  # of virtual time
        after = {pod["metadata"]["uid"] for pod in await bed.api.list(PODS)}
        assert not bed.journal.created, "every node has a pod already"
        assert after == before


async def test_while_surging_a_create_that_comes_late_is_in_the_quota_of_the_partition() -> None:
    async with simulated(latency=0.02, behaviour=SLOW) as bed:
        await bed.deploy(daemonset(rolling={"maxSurge": 1, "maxUnavailable": 0, "partition": "50%"}), nodes=3)
        late = Rule(verb="create", resource="pods", effect=Hang(seconds=12.0), nth=(3,))  # dry run, node-2, node-1
        faults = bed.simulator.link.faults
        faults.add(late)
        await bed.set_image(V2)
        while not faults.fired(late):  # virtual time
            await asyncio.sleep(0.1)  # of virtual time
        await asyncio.sleep(3.0)
        await bed.nodes.add("node-9")  # the quota stays: 2 of 3, 2 of 4
        await asyncio.sleep(60.0)
        pods = await bed.api.list(PODS)
        updated = [node_of(pod) for pod in pods if stays_on(pod) and image_of(pod) == V2]
        assert len(updated) <= 2, sorted(updated)


REJECTS = Behaviour(reject="OutOfcpu")


async def test_failed_pods_whose_deletion_hangs_do_not_pile_up() -> None:
    async with simulated(latency=0.02, behaviour=REJECTS) as bed:
        await bed.add_nodes(1)
        bed.simulator.link.faults.add(Rule(verb="delete", resource="pods", effect=Hang()))
        await bed.api.create(DAEMONSETS, daemonset())
        await asyncio.sleep(60.0)  # of virtual time
        assert len(await bed.api.list(PODS)) <= 2, "on one node, in a minute; the back-off allows 6 one after another"


async def test_a_create_answered_after_its_daemonset_was_deleted_leaves_nothing() -> None:
    async with simulated(latency=0.02) as bed:
        await bed.add_nodes(2)
        bed.simulator.link.faults.add(Rule(verb="create", resource="pods", effect=Hang(seconds=5.0)))
        for number in range(5):
            await bed.api.create(DAEMONSETS, daemonset(f"agent-{number}"))
        await asyncio.sleep(3.0)  # of virtual time
        for number in range(5):
            await bed.api.delete(DAEMONSETS, f"agent-{number}")
        await asyncio.sleep(600.0)
        assert bed.controller.kept_writes() == 0
