"""Writes that are not answered, or late: they count as done until the server says what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import simulated
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, bare_pod, daemonset, image_of, is_ready, node_of, stays
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import Answer, Hang, LateRequest, LateWatch, LoseAnswer, LoseRequest, Rule
from tests.beds.simulator.kinds import PODS as POD_KIND
from tests.beds.simulator.refusal import Refused
from tests.beds.virtual_time import now
from tests.system.replay import film

HOUR = 3600.0
SLOW = Behaviour(start=0.3, ready=0.2, terminate=0.3)
FIRST = Rule(verb="create", resource="pods", effect=Hang(), times=1)


async def lose(bed: Bed, node: str) -> None:
    await bed.api.delete(PODS, (await bed.pods())[node]["metadata"]["name"])


async def test_an_unanswered_create_delays_no_other_lost_pod() -> None:
    async with simulated(latency=0.02) as bed:
        bed.patience = HOUR
        nodes = await bed.deploy(daemonset(), nodes=5)
        bed.simulator.link.faults.add(FIRST)
        await lose(bed, nodes[0])
        await asyncio.sleep(3.0)  # of virtual time
        began = now()
        await lose(bed, nodes[3])
        await bed.runs_on(*nodes[1:])
        assert now() - began < 4.0, "seconds; the first one hangs for 30"
        await bed.runs_on(*nodes)
        assert now() - began < 40.0
        await bed.settled()
        assert bed.journal.created == [nodes[3], nodes[0]], "and nothing was made twice"


async def test_an_unanswered_deletion_uses_budget_and_stops_nothing_else() -> None:
    """Done or not, its pod counts as unavailable: with two at a time the others go one by one."""
    stuck = Rule(verb="delete", resource="pods", effect=Hang(), times=1)
    async with simulated(latency=0.02, behaviour=SLOW) as bed:
        bed.patience = HOUR
        await bed.deploy(daemonset(rolling={"maxUnavailable": 2}), nodes=6)
        bed.simulator.link.faults.add(stuck)
        began = now()
        await bed.set_image(V2)
        least = 6

        def updated(pods: list[Object]) -> str:
            nonlocal least
            least = min(least, sum(is_ready(pod) for pod in pods))
            new = sum(pod["spec"]["containers"][0]["image"] == V2 and is_ready(pod) for pod in pods)
            return "" if new == 5 else f"{new} are updated"

        await bed.until(PODS, updated, "five are updated")
        assert now() - began < 25.0, "seconds; the deletion hangs for 30"
        assert least >= 5, "of 6 are ready: one place of two is taken by what may be gone"
        await bed.status(observed=2, updated=6, available=6)


async def test_while_surging_a_second_pod_that_is_not_answered_uses_the_budget() -> None:
    """Done or not: with two at a time the others go one by one."""
    async with simulated(latency=0.02, behaviour=SLOW) as bed:
        bed.patience = HOUR
        await bed.deploy(daemonset(rolling={"maxSurge": 2, "maxUnavailable": 0}), nodes=6)
        stuck = Rule(verb="create", resource="pods", effect=Hang(), nth=(2,))  # the first one is the dry run
        bed.simulator.link.faults.add(stuck)
        began = now()
        await bed.set_image(V2)
        most = 0

        def updated(pods: list[Object]) -> str:
            nonlocal most
            live = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
            most = max(most, len(live) - len({node_of(pod) for pod in live}))
            new = sum(pod["spec"]["containers"][0]["image"] == V2 and is_ready(pod) for pod in pods)
            return "" if new == 5 else f"{new} are updated"

        await bed.until(PODS, updated, "five are updated")
        assert bed.simulator.link.faults.fired(stuck)
        assert now() - began < 25.0, "seconds; the create hangs for 30"
        assert most == 1, "second pods at once; another one may be there"
        await bed.status(observed=2, updated=6, available=6)


async def test_what_is_refused_late_is_told_and_held_back() -> None:
    slow = Rule(verb="create", resource="pods", effect=Hang(seconds=10.0))
    async with simulated(latency=0.02) as bed:
        bed.patience = HOUR
        await bed.add_nodes(2)
        bed.simulator.link.faults.add(slow)

        def admit(attempt: Attempt) -> None:
            if attempt.kind is POD_KIND and attempt.verb == "create":
                raise Refused(403, "Forbidden", "the policy webhook says no")

        bed.simulator.cluster.admission.append(admit)
        await bed.api.create(DAEMONSETS, daemonset())
        await bed.event("FailedCreate", "the policy webhook says no")
        degraded = await bed.condition("Degraded", "WritesFail")
        assert "the policy webhook says no" in degraded["message"]
        began = now()
        count = len(bed.journal.of("pods", "create", failed=True))
        await asyncio.sleep(600.0)  # of virtual time
        tried = len(bed.journal.of("pods", "create", failed=True)) - count
        assert 2 <= tried < 30, f"in {now() - began} s"


async def test_a_status_that_is_not_answered_delays_no_lost_pod() -> None:
    stuck = Rule(verb="patch", resource="daemonsets.apps.kruise.io/status", effect=Hang())
    async with simulated(latency=0.02, behaviour=SLOW) as bed:
        bed.patience = HOUR
        nodes = await bed.deploy(daemonset(), nodes=3)
        bed.simulator.link.faults.add(stuck)
        await lose(bed, nodes[0])
        await bed.runs_on(*nodes)
        for _ in range(3):
            began = now()
            await lose(bed, nodes[1])
            await bed.runs_on(*nodes)
            assert now() - began < 5.0, "seconds; the status hangs for 30"
            await asyncio.sleep(5.0)  # of virtual time
        assert 1 <= bed.simulator.link.faults.fired(stuck) <= 2, "one status write at a time"
        bed.simulator.link.faults.remove(stuck)
        await bed.set_image(V2)
        await bed.status(observed=2, updated=3, available=3)


LATE = Rule(verb="watch", resource="pods", effect=LateWatch(seconds=5))
DONE = Rule(verb="delete", resource="pods", nth=(1,), effect=LoseAnswer())
BLIND = Rule(verb="get", resource="pods", nth=(1,), effect=LoseRequest())


@pytest.mark.parametrize("again", [Answer(403), Answer(500), Answer(503)])
@pytest.mark.parametrize("blind", [(), (BLIND,)], ids=["it can look", "it cannot look"])
async def test_no_other_pod_goes_while_a_deletion_is_in_doubt(again: Answer, blind: tuple[Rule, ...]) -> None:
    refused = Rule(verb="delete", resource="pods", nth=(2, 3, 4), effect=again)
    async with simulated(LATE, DONE, refused, *blind, latency=0.02) as bed:
        bed.patience = 3600.0
        nodes = await bed.deploy(daemonset(), nodes=4)
        history = await film(bed)
        await bed.update(V2)
        await bed.runs_on(*nodes, image=V2)
        assert min(len(served) for served in await history.served()) == 3, "maxUnavailable is 1"


async def test_a_late_create_makes_no_second_new_pod() -> None:
    """While surging: a pod of the new revision is on its way when the server cannot be reached any more."""
    late = Rule(verb="create", resource="pods", nth=(5,), effect=LateRequest(seconds=5))
    away = Rule(verb="create", resource="pods", nth=tuple(range(5, 12)), effect=LoseRequest())
    async with simulated(late, away, latency=0.02) as bed:
        nodes = await bed.deploy(daemonset(rolling={"maxSurge": 1}), nodes=3)
        history = await film(bed)
        await bed.set_image(V2)
        while not bed.journal.of("pods", "create", failed=True):
            await bed.journal.news(bed.patience)
        await bed.api.delete(PODS, (await bed.pods())["node-2"]["metadata"]["name"])
        await bed.settled()
        await bed.runs_on(*nodes, image=V2)
        await bed.idle(10.0)
        assert await history.crowded(same_image=True) == []


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


async def test_a_slow_adoption_kills_no_pod_and_makes_no_second_one() -> None:
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


async def test_while_surging_a_late_create_is_in_the_partitions_quota() -> None:
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
