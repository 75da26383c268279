"""What needs patience: back-offs, minReadySeconds and late caches, on a simulated cluster in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from tests.beds.api import DAEMONSETS, NODES, PODS
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.opening import simulated
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, bare_pod, condition, controller_of, daemonset, node_of
from tests.beds.simulator.cluster import Admission, Attempt
from tests.beds.simulator.faults import Answer, LateWatch, Rule
from tests.beds.simulator.kinds import PODS as POD_KIND
from tests.beds.simulator.refusal import forbidden
from tests.beds.virtual_time import now
from tests.system.quota import lift_limit, limit_pods
from tests.system.replay import film

LATENCY = 1.0
"""Seconds for each request of the controller: so many that those sent together are seen to be."""

DAYS = 3 * 86400.0


@asynccontextmanager
async def virtual(*faults: Rule, latency: float = 0.0, skew: float = 0.0) -> AsyncIterator[Bed]:
    async with simulated(*faults, latency=latency, skew=skew) as bed:
        bed.patience = DAYS
        yield bed


def rounds(bed: Bed) -> list[int]:
    """How many pods were created together, batch by batch."""
    answered = [int(write.at / LATENCY) for write in bed.journal.of("pods", "create", failed=True)]
    return [answered.count(moment) for moment in sorted(set(answered))]


async def test_a_first_deployment_feels_its_way_in_doubling_batches() -> None:
    async with virtual(latency=LATENCY) as bed:
        await bed.add_nodes(5)
        await bed.api.create(DAEMONSETS, daemonset())
        await bed.settled()
        assert rounds(bed) == [1, 2, 2]


async def test_creates_refused_after_ten_pods_are_tried_one_by_one() -> None:
    async with virtual(latency=LATENCY) as bed:
        await bed.add_nodes(100)
        await limit_pods(bed, 10)
        await bed.api.create(DAEMONSETS, daemonset())
        await bed.status(desired=100, current=10, updated=10)
        await bed.idle(5)
        assert rounds(bed)[:5] == [1, 2, 4, 8, 1]
        await lift_limit(bed)
        await bed.settled()
        assert len(await bed.pods()) == 100


async def test_a_pod_that_fails_again_and_again_is_replaced_later_and_later(bed: Bed) -> None:
    bed.patience = DAYS
    await bed.nodes.add("node-0")
    await bed.deploy(daemonset())
    bed.nodes.behave("node-0", Behaviour(fail=0.0))
    await bed.nodes.fail((await bed.pods())["node-0"])
    await bed.until(PODS, lambda _: "" if len(bed.journal.deleted) >= 12 else "too few", "12 pods")
    at = [write.at for write in bed.journal.of("pods", "delete")]
    pauses = [round(after - before) for before, after in pairwise(at)]
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900]

    bed.journal.clear()
    await bed.edit({"minReadySeconds": 1})
    await bed.until(PODS, lambda _: "" if bed.journal.deleted else "none", "a pod deleted")
    first = bed.journal.of("pods", "delete")[0]
    assert first.at - at[-1] < 5, "a new generation begins at once"


async def test_nothing_is_adopted_for_a_daemonset_known_to_be_going(bed: Bed) -> None:
    """The cache still shows it as it was, because the watch is late; only a look at the server itself tells."""
    bed.patience = DAYS
    await bed.nodes.add("node-0", taints=[{"key": "reserved", "effect": "NoSchedule"}])
    await bed.deploy(daemonset())
    link = bed.simulator.link
    link.faults.add(Rule(verb="watch", resource="daemonsets.apps.kruise.io", effect=LateWatch(seconds=600)))
    link.drop_watches("daemonsets.apps.kruise.io")
    await bed.idle(30)
    await bed.api.patch(DAEMONSETS, "agent", {"metadata": {"finalizers": ["example.com/hold"]}})
    await bed.api.delete(DAEMONSETS, "agent")
    await bed.api.create(PODS, bare_pod("orphan", "node-0"))
    await bed.idle(60)
    assert link.counts()["get daemonsets.apps.kruise.io"] >= 1, "it looked"
    assert bed.journal.of("pods", failed=True) == []
    assert not controller_of(await bed.api.get(PODS, "orphan"))


@pytest.mark.parametrize("skew", [-300.0, 300.0])
async def test_clocks_that_differ_by_minutes_delay_availability_but_lose_nothing(skew: float) -> None:
    """kubernetes#77203: kubelet and controller do not agree about the time."""
    async with virtual(skew=skew) as bed:
        nodes = await bed.deploy(daemonset(minReadySeconds=10), nodes=2)
        history = await film(bed)
        await bed.update(V2)
        await bed.runs_on(*nodes, image=V2)
        assert bed.journal.deleted == ["node-1", "node-0"]
        assert min(len(served) for served in await history.served()) == 1


async def test_a_deletion_that_no_watch_told_is_found_by_the_next_list(bed: Bed) -> None:
    bed.patience = DAYS
    nodes = await bed.deploy(daemonset(), nodes=3)
    link = bed.simulator.link
    link.up = False
    link.drop_watches("pods")
    gone = (await bed.pods())["node-1"]
    await bed.api.delete(PODS, gone["metadata"]["name"])
    link.faults.add(Rule(verb="watch", resource="pods", times=1, effect=Answer(410)))
    await bed.idle(5)
    link.up = True
    await bed.idle(60)
    await bed.runs_on(*nodes)
    assert bed.journal.created == ["node-1"]


async def test_a_status_costs_one_write_and_no_read() -> None:
    async with virtual(latency=0.01) as bed:
        await bed.deploy(daemonset(), nodes=1)
        link = bed.simulator.link
        link.seen.clear()
        await bed.nodes.add("node-1")
        await bed.status(desired=2, available=2)
        await bed.idle(30)
        assert link.counts()["get daemonsets.apps.kruise.io"] == 0
        assert len(bed.journal.statuses) <= 2


def refuse_pods(bed: Bed, *, on: str = "") -> Admission:
    """No pod may be created, or none on that node; returns what to take out of `admission` to end it."""

    def policy(attempt: Attempt) -> None:
        created = attempt.kind is POD_KIND and attempt.verb == "create"
        if created and on in ("", node_of(attempt.object)):
            raise forbidden(POD_KIND, attempt.name, 'violates PodSecurity "restricted:latest"')

    bed.simulator.cluster.admission.append(policy)
    return policy


async def test_while_no_pod_can_be_created_it_is_said_once_and_until_one_can(bed: Bed) -> None:
    """Between the tries a back-off leaves nothing to do; that is no success."""
    bed.patience = DAYS
    nodes = await bed.add_nodes(5)
    policy = refuse_pods(bed)
    await bed.api.create(DAEMONSETS, daemonset())
    degraded = await bed.condition("Degraded", "WritesFail")
    assert "PodSecurity" in degraded["message"]
    await asyncio.sleep(10)
    bed.journal.clear()
    await asyncio.sleep(900)
    assert len(bed.journal.of("pods", "create", failed=True)) > 12, "each node is tried now and then"
    told = [write.answer["status"]["rollout"]["phase"] for write in bed.journal.statuses]
    assert told == ["Stalled"], "after progressDeadlineSeconds; nothing else is news"
    assert condition(await bed.daemonset(), "Degraded")["reason"] == "WritesFail"

    bed.simulator.cluster.admission.remove(policy)
    await bed.settled()
    await bed.runs_on(*nodes)
    await bed.condition("Degraded", "AsExpected")


async def test_one_node_with_refused_pods_is_told_while_others_go_on(bed: Bed) -> None:
    bed.patience = DAYS
    nodes = await bed.add_nodes(8)
    refuse_pods(bed, on="node-3")
    others = [node for node in nodes if node != "node-3"]
    await bed.api.create(DAEMONSETS, daemonset(rolling={"maxUnavailable": 2}))
    await bed.runs_on(*others)
    await bed.condition("Degraded", "WritesFail")
    await asyncio.sleep(30)
    bed.journal.clear()
    await bed.set_image(V2)
    await bed.runs_on(*others, image=V2)
    await asyncio.sleep(900)
    told = [condition(write.answer, "Degraded")["reason"] for write in bed.journal.statuses]
    changes = [after for before, after in pairwise(told) if after != before]
    assert len(changes) <= 2, f"another generation begins without trouble, and then has some: {told}"
    assert condition(await bed.daemonset(), "Degraded")["reason"] == "WritesFail"

    await bed.api.delete(NODES, "node-3")
    await bed.condition("Degraded", "AsExpected")


async def test_a_refused_template_is_asked_again_when_its_reason_may_be_gone(bed: Bed) -> None:
    """A policy of the namespace, say, that somebody changes: no event tells."""
    bed.patience = DAYS
    nodes = await bed.deploy(daemonset(), nodes=2)
    before = uids(await bed.pods())

    def policy(attempt: Attempt) -> None:
        if attempt.kind is POD_KIND and attempt.verb == "create":
            raise forbidden(POD_KIND, attempt.name, 'violates PodSecurity "restricted:latest"')

    admission = bed.simulator.cluster.admission
    admission.append(policy)
    await bed.set_image(V2)
    await bed.condition("Degraded", "TemplateRefused")
    await bed.idle(30)
    assert uids(await bed.pods()) == before
    admission.remove(policy)
    await bed.settled()
    await bed.runs_on(*nodes, image=V2)


HOUR = 3600.0
FORBIDDEN = Answer(403, reason="Forbidden", message="the webhook says no")


@pytest.mark.parametrize("by", [-HOUR, HOUR], ids=["back", "ahead"])
async def test_a_refused_create_is_tried_again_as_soon_as_otherwise(by: float) -> None:
    """Four refusals are worth 0, 1, 2 and 4 seconds; then the node gets its pod."""
    refused = Rule(verb="create", resource="pods", nth=(1, 2, 3, 4), effect=FORBIDDEN)
    async with simulated(refused, latency=0.01) as bed:
        await bed.add_nodes(1)
        began = now()
        await bed.api.create(DAEMONSETS, daemonset())
        await asyncio.sleep(2.0)  # of virtual time: in the middle of a wait
        bed.controller.ahead = by
        await bed.settled()
        assert 7.0 <= now() - began < 15.0


@pytest.mark.parametrize("by", [-HOUR, HOUR], ids=["back", "ahead"])
async def test_a_refused_template_is_asked_about_again_after_a_minute(by: float) -> None:
    refused = Rule(verb="create", resource="pods", nth=(3, 4), effect=FORBIDDEN)
    async with simulated(refused, latency=0.01) as bed:
        await bed.add_nodes(2)
        bed.patience = 600.0
        await bed.deploy(daemonset())
        began = now()
        await bed.set_image(V2)
        await bed.event("TemplateRefused")
        bed.controller.ahead = by
        await bed.runs_on("node-0", "node-1", image=V2)
        assert 60.0 <= now() - began < 75.0


@pytest.mark.parametrize("restarted", [False, True], ids=["meanwhile", "and a restart"])
async def test_old_pods_are_ready_for_as_long_as_they_were_and_go_one_at_a_time(restarted: bool) -> None:
    """With a clock that is set back they say that they will be ready in an hour."""
    async with simulated(latency=0.01) as bed:
        bed.patience = 600.0
        nodes = await bed.deploy(daemonset(minReadySeconds=30), nodes=5)
        bed.controller.ahead = -HOUR
        if restarted:
            await bed.controller.kill()
            bed.controller.start()
        await bed.set_image(V2)
        await bed.runs_on(*nodes, image=V2)
        went = bed.journal.of("pods", "delete")
        assert [one.node for one in went] == nodes[::-1]
        assert min(later.at - before.at for before, later in pairwise(went)) >= 30.0
