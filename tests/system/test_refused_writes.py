"""Writes that the server refuses again and again: the rest goes on, and they are tried ever later."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from tests.beds.api import DAEMONSETS, PODS
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.journal import Write
from tests.beds.controller.opening import simulated
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, condition, daemonset, node_of
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import Answer, Effect, NoConnection, Rule
from tests.beds.simulator.kinds import PODS as POD_KIND
from tests.beds.simulator.refusal import Refused, forbidden
from tests.beds.virtual_time import now
from tests.system.admission import full_quota, webhook_down
from tests.system.both import both_beds

MINUTE, HOUR = 60.0, 3600.0
WEBHOOK = Answer(500, reason="InternalError", message='failed calling webhook "policy.example.com": no endpoints')
SLOW = Behaviour(start=0.3, ready=0.2, terminate=0.3)


def probes(bed: Bed) -> list[Write]:
    return bed.journal.of("pods", "probe", failed=True)


async def refused(bed: Bed, verb: str, times: int) -> None:
    """Wait until so many of these writes of pods were answered by the webhook."""

    def count() -> int:
        return len([write for write in bed.journal.of("pods", verb, failed=True) if write.status == 500])

    async with asyncio.timeout(bed.patience):
        while count() < times:
            await bed.journal.news(bed.patience)


@pytest.mark.parametrize("answer", [WEBHOOK, NoConnection()], ids=["a webhook is down", "nobody answers"])
async def test_a_dry_run_that_fails_is_tried_again_ever_later(answer: Effect) -> None:
    broken = Rule(verb="create", resource="pods", effect=answer)
    async with simulated(latency=0.02) as bed:
        bed.patience = 10 * MINUTE
        await bed.deploy(daemonset(), nodes=3)
        bed.simulator.link.faults.add(broken)
        await bed.set_image(V2)
        await bed.seen()
        await bed.idle(MINUTE)
        assert 2 <= len(probes(bed)) <= 20, "in a minute"
        bed.simulator.link.faults.remove(broken)
        bed.patience = HOUR
        await bed.runs_on("node-0", "node-1", "node-2", image=V2)


@pytest.mark.real
async def test_a_dry_run_waits_for_a_webhook_that_is_down(real_bed: Bed) -> None:
    """It is tried again at once, then after a second."""
    bed = real_bed
    nodes = await bed.deploy(daemonset(), nodes=3)
    async with webhook_down(bed, "create"):
        await bed.set_image(V2)
        await refused(bed, "probe", 3)
        first, *_, third = bed.journal.of("pods", "probe", failed=True)
        assert "failed calling webhook" in first.answer["message"]
        assert third.began - first.at >= 1.0
    await bed.runs_on(*nodes, image=V2)


@both_beds
async def test_a_full_quota_stops_no_update(bed: Bed) -> None:
    """Five nodes and room for four pods: the fifth create is refused for ever, and the four are updated.

    So they are by the edit that cures the shortage: a placement on fewer nodes.
    """
    nodes = await bed.add_nodes(5)
    bed.nodes.behave("*", SLOW)
    async with full_quota(bed, 4):
        await bed.api.create(DAEMONSETS, daemonset(rolling={"maxUnavailable": 2}))
        await bed.status(desired=5, available=4)
        before = set(uids(await bed.pods()).values())
        await bed.set_image(V2)
        await bed.status(observed=2, desired=5, available=4, updated=4)
        after = await bed.pods()
        assert len(after) == 4
        assert before.isdisjoint(uids(after).values())
        for node in nodes[:4]:
            await bed.label_node(node, few="yes")
        await bed.edit({"template": {"spec": {"nodeSelector": {"few": "yes"}}}})
        await bed.settled()
        await bed.runs_on(*nodes[:4], image=V2)


ANSWERS = {
    "forbidden": (403, "Forbidden"),
    "conflict": (409, "Conflict"),
    "exists": (409, "AlreadyExists"),
    "not found": (404, "NotFound"),
    "too many requests": (429, "TooManyRequests"),
    "error": (500, "InternalError"),
}


def refuse(
    bed: Bed,
    verb: str,
    nodes: Collection[str],
    answer: str = "forbidden",
    *,
    after: int = 0,
    words: str = "the policy webhook says no",
) -> None:
    """Such a write to a pod of these nodes is refused, once `after` went through."""
    code, reason = ANSWERS[answer]
    seen: list[str] = []

    def admit(attempt: Attempt) -> None:
        if attempt.kind is POD_KIND and attempt.verb == verb and node_of(attempt.object) in nodes:
            seen.append(attempt.name)
            if len(seen) > after:
                raise Refused(code, reason, words, retry_after=1 if code == 429 else None)

    bed.simulator.cluster.admission.append(admit)


@pytest.mark.parametrize("count", [15, 300])
async def test_many_nodes_that_get_no_pod_and_come_first_delay_no_other_one(count: int) -> None:
    async with simulated(latency=0.02) as bed:
        bed.patience = HOUR
        nodes = await bed.add_nodes(count + 20)
        refused, served = sorted(nodes)[:count], sorted(nodes)[count:]
        refuse(bed, "create", refused)
        began = now()
        await bed.api.create(DAEMONSETS, daemonset())
        await bed.runs_on(*served)
        assert now() - began < 60.0
        began = now()
        await bed.api.delete(PODS, (await bed.pods())[served[0]]["metadata"]["name"])
        await bed.runs_on(*served)
        assert now() - began < 2.0, "seconds; a lost pod among them"


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("verb", ["create", "delete"])
async def test_whatever_the_answer_for_one_node_the_others_go_on(verb: str, answer: str) -> None:
    """Also one that means something else when the API server itself gives it: a webhook chooses its words."""
    async with simulated(latency=0.02) as bed:
        bed.patience = HOUR
        nodes = sorted(await bed.add_nodes(6))
        if verb == "delete":
            await bed.deploy(daemonset())
            refuse(bed, verb, nodes[-1:], answer)
        else:
            refuse(bed, verb, nodes[:1], answer)
            await bed.api.create(DAEMONSETS, daemonset())
            await bed.status(available=5)
        began = now()
        await bed.set_image(V2)
        await bed.status(updated=5)
        assert now() - began < 150.0, "seconds: of a busy server each request is tried again for 30, three times over"
        await asyncio.sleep(300.0)  # of virtual time
        (conditions,) = [one["status"]["conditions"] for one in await bed.api.list(DAEMONSETS)]
        assert "the policy webhook says no" in str(conditions), "it is told why one node waits"


@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_node_whose_dry_run_fails_stops_no_update_of_others(answer: str) -> None:
    async with simulated(latency=0.02) as bed:
        bed.patience = 900.0
        nodes = sorted(await bed.add_nodes(6))
        await bed.deploy(daemonset(rolling={"maxUnavailable": 2}))
        refuse(bed, "create", nodes[-1:], answer)
        await bed.set_image(V2)
        await bed.status(updated=5)


async def test_a_taken_name_of_a_dry_run_stops_no_rollout() -> None:
    """Any client can work it out. The server looks for the name last: the template was accepted."""
    async with simulated(latency=0.02) as bed:
        bed.patience = HOUR
        await bed.deploy(daemonset(), nodes=3)
        await bed.set_image(V2)
        await bed.status(observed=2, updated=3)
        (probe,) = bed.journal.of("pods", "probe")
        stranger = probe.name
        plain = {"containers": [{"name": "main", "image": "stranger:1"}]}
        await bed.api.create(PODS, {"metadata": {"name": stranger}, "spec": plain})
        await bed.set_image("demo:v3")
        await bed.status(observed=3, updated=3)


async def test_a_raised_quota_is_seen_within_half_a_minute() -> None:
    async with simulated(latency=0.02) as bed:
        bed.patience = HOUR
        nodes = await bed.add_nodes(5)
        async with full_quota(bed, 4):
            await bed.api.create(DAEMONSETS, daemonset())
            await bed.status(available=4)
            await asyncio.sleep(HOUR)  # of virtual time
        began = now()
        await bed.runs_on(*nodes)
        assert now() - began <= 35.0


DAYS = 3 * 86400.0


async def test_a_status_costs_one_write_and_no_read() -> None:
    async with simulated(latency=0.01) as bed:
        await bed.deploy(daemonset(), nodes=1)
        link = bed.simulator.link
        link.seen.clear()
        await bed.nodes.add("node-1")
        await bed.status(desired=2, available=2)
        await bed.idle(30)
        assert link.counts()["get daemonsets.apps.kruise.io"] == 0
        assert len(bed.journal.statuses) <= 2


async def test_while_no_pod_can_be_created_it_is_said_once_and_until_one_can(bed: Bed) -> None:
    """Between the tries a back-off leaves nothing to do; that is no success."""
    bed.patience = DAYS
    nodes = await bed.add_nodes(5)

    def policy(attempt: Attempt) -> None:
        if attempt.kind is POD_KIND and attempt.verb == "create":
            raise forbidden(POD_KIND, attempt.name, 'violates PodSecurity "restricted:latest"')

    bed.simulator.cluster.admission.append(policy)
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
