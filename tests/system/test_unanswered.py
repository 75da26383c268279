"""Writes for one node that are not answered: the rest of the same DaemonSet goes on, in virtual time."""

from __future__ import annotations

import asyncio

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import simulated
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, daemonset
from tests.beds.pods import is_ready, node_of
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import Hang, Rule
from tests.beds.simulator.kinds import PODS as POD_KIND
from tests.beds.simulator.refusal import Refused
from tests.beds.virtual_time import now

HOUR = 3600.0
SLOW = Behaviour(start=0.3, ready=0.2, terminate=0.3)
FIRST = Rule(verb="create", resource="pods", effect=Hang(), times=1)


async def lose(bed: Bed, node: str) -> None:
    await bed.api.delete(PODS, (await bed.pods())[node]["metadata"]["name"])


async def test_a_create_that_is_not_answered_delays_no_other_lost_pod_and_is_tried_again() -> None:
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


async def test_a_deletion_that_is_not_answered_uses_the_budget_and_stops_nothing_else() -> None:
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
