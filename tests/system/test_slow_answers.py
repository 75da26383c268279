"""A server that takes seconds for each answer, or refuses late: all goes on, no faster than it should."""

from __future__ import annotations

import asyncio

import pytest

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.controller.opening import simulated
from tests.beds.objects import bare_pod, daemonset
from tests.beds.pods import node_of, stays
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import Answer, Effect, Hang, Rule
from tests.beds.simulator.kinds import PODS as POD_KIND
from tests.beds.simulator.refusal import Refused
from tests.beds.virtual_time import now


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
