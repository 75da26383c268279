"""A write that the server refuses again and again, whichever it is: the rest goes on."""

from __future__ import annotations

import asyncio

import pytest

from tests.beds.api import DAEMONSETS, PODS, REVISIONS, Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.journal import Write
from tests.beds.controller.opening import simulated
from tests.beds.controller.waves import UNREADY
from tests.beds.nodes import INSTANT, Behaviour
from tests.beds.objects import V1, V2, daemonset, image_of
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import Answer, Effect, NoConnection, Rule
from tests.beds.simulator.kinds import PODS as POD_KIND
from tests.beds.simulator.refusal import forbidden
from tests.system.both import both_beds
from tests.system.quota import full_quota, no_more_revisions
from tests.system.webhook import webhook_down

MINUTE, HOUR = 60.0, 3600.0
WEBHOOK = Answer(500, reason="InternalError", message='failed calling webhook "policy.example.com": no endpoints')
SLOW = Behaviour(start=0.3, ready=0.2, terminate=0.3)
HASH = "controller-revision-hash"


def probes(bed: Bed) -> list[Write]:
    return bed.journal.of("pods", "probe", failed=True)


async def refused(bed: Bed, verb: str, times: int) -> None:
    """Wait until so many of these writes of pods were answered by the webhook."""

    def count() -> int:
        return len([write for write in bed.journal.of("pods", verb, failed=True) if write.status == 500])

    async with asyncio.timeout(bed.patience):
        while count() < times:
            await bed.journal.news(bed.patience)


def missing_label(found: list[Object]) -> str:
    hashes = {pod["metadata"]["labels"][HASH] for pod in found}
    return "" if hashes == {"twin"} else f"the hashes are {hashes}"


async def lose_a_pod(bed: Bed, *nodes: str) -> dict[str, Object]:
    """Of the node-1, and wait for another one; returns all pods."""
    lost = (await bed.pods())["node-1"]["metadata"]
    await bed.api.delete(PODS, lost["name"])

    def missing(found: list[Object]) -> str:
        return f"{lost['name']} is there" if lost["uid"] in {pod["metadata"]["uid"] for pod in found} else ""

    await bed.until(PODS, missing, "the lost pod has gone")
    return await bed.runs_on(*nodes)


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
async def test_a_revision_that_cannot_be_stored_keeps_no_lost_pod_waiting(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=3)
    async with no_more_revisions(bed):
        await bed.set_image(V2)
        await bed.seen()
        assert {write.status for write in bed.journal.of("controllerrevisions.apps", failed=True)} == {403}
        pods = await lose_a_pod(bed, *nodes)
        assert image_of(pods["node-0"]) == image_of(pods["node-2"]) == V1, "nothing is updated meanwhile"
    await bed.runs_on(*nodes, image=V2)


@both_beds
async def test_pods_that_cannot_be_relabelled_keep_no_lost_pod_waiting(bed: Bed) -> None:
    """Of two revisions that mean the same the newer one is kept, and pods of the other one are relabelled."""
    nodes = await bed.deploy(daemonset(), nodes=3)
    (first,) = await bed.revisions()
    metadata = {key: first["metadata"][key] for key in ("labels", "ownerReferences")}
    metadata = {**metadata, "name": "agent-twin", "labels": {**metadata["labels"], HASH: "twin"}}
    async with webhook_down(bed, "update"):
        before = uids(await bed.pods())
        await bed.api.create(REVISIONS, {"metadata": metadata, "data": first["data"], "revision": 2})
        await refused(bed, "patch", 3)
        after = uids(await lose_a_pod(bed, *nodes))
        assert {node for node in nodes if after[node] != before[node]} == {"node-1"}
    await bed.until(PODS, missing_label, "all pods relabelled")
    assert {node for node in nodes if uids(await bed.pods())[node] != after[node]} == set()


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


@pytest.mark.parametrize("edited", [False, True], ids=["as the next node's turn comes", "right after an edit"])
async def test_a_template_that_was_accepted_is_asked_about_again(bed: Bed, edited: bool) -> None:
    """A policy changes without any event: no node loses its pod to a template that is refused by now."""

    def admit(attempt: Attempt) -> None:
        if attempt.kind is POD_KIND and attempt.verb == "create" and V2 in str(attempt.object):
            raise forbidden(POD_KIND, attempt.name, "not any more")

    await bed.deploy(daemonset(), nodes=3)
    bed.nodes.behave("*", UNREADY)
    await bed.set_image(V2)
    await bed.until(PODS, lambda found: "" if V2 in map(image_of, found) else "all are old", "one is new")
    await asyncio.sleep(0.0 if edited else HOUR)
    bed.simulator.cluster.admission.append(admit)
    if edited:
        await bed.edit({"revisionHistoryLimit": 5})
    bed.nodes.behave("*", INSTANT)
    await asyncio.sleep(HOUR)
    assert sorted(map(image_of, (await bed.pods()).values())) == [V1, V1, V2]
    (degraded,) = [one for one in (await bed.daemonset())["status"]["conditions"] if one["type"] == "Degraded"]
    assert (degraded["reason"], "not any more" in degraded["message"]) == ("TemplateRefused", True)
