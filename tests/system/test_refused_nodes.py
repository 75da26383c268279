"""Nodes that get no pod, whatever a webhook answers for them: the others are served, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from tests.beds.api import DAEMONSETS, PODS, REVISIONS
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import simulated
from tests.beds.objects import V2, daemonset, image_of, node_of
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.kinds import PODS as POD_KIND
from tests.beds.simulator.refusal import Refused, forbidden
from tests.beds.virtual_time import now

HOUR = 3600.0
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


async def test_a_policy_that_speaks_of_a_quota_keeps_its_own_node_alone(bed: Bed) -> None:
    nodes = sorted(await bed.add_nodes(6))
    words = 'admission webhook "budget.example.com" denied the request: exceeded quota: pods, requested: pods=1'
    refuse(bed, "create", nodes[:1], words=words)
    await bed.api.create(DAEMONSETS, daemonset(rolling={"maxUnavailable": 2}))
    await bed.runs_on(*nodes[1:])
    began = now()
    await bed.set_image(V2)
    await bed.runs_on(*nodes[1:], image=V2)
    assert now() - began < 30.0


async def test_nodes_that_get_no_pod_are_tried_again_ever_less_often() -> None:
    async with simulated(latency=0.02) as bed:
        nodes = await bed.add_nodes(40)
        refuse(bed, "create", nodes)
        await bed.api.create(DAEMONSETS, daemonset())
        await asyncio.sleep(HOUR)  # of virtual time
        tried = [write for write in bed.journal.writes if write.verb == "create" and write.resource == "pods"]
        assert len(tried) < 40 * 24, "each 9 times until it waits 300 s, then 12 times an hour"
        bed.simulator.cluster.admission.clear()
        began = now()
        bed.patience = HOUR
        await bed.runs_on(*nodes)
        assert now() - began < 330.0


async def test_pods_that_may_not_be_deleted_stop_no_update_of_others() -> None:
    async with simulated(latency=0.02) as bed:
        bed.patience = HOUR
        nodes = sorted(await bed.add_nodes(20))
        await bed.deploy(daemonset())
        refuse(bed, "delete", nodes[-8:])
        began = now()
        await bed.set_image(V2)
        await bed.status(updated=12)
        assert now() - began < 30.0, "seconds, at maxUnavailable 1; the refused ones come first in update order"


async def test_while_surging_nodes_without_a_second_pod_stop_no_other_update() -> None:
    async with simulated(latency=0.02) as bed:
        bed.patience = HOUR
        nodes = sorted(await bed.add_nodes(20))
        await bed.deploy(daemonset(rolling={"maxSurge": 1, "maxUnavailable": 0}))
        refuse(bed, "create", nodes[-8:])
        began = now()
        await bed.set_image(V2)
        await bed.status(updated=12)
        assert now() - began < 300.0, "seconds; the dry run may meet a refused node twice, and then waits a minute"


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
    """Anybody can work it out. The server looks for the name last: the template was accepted."""
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


async def test_a_revision_on_its_way_out_is_replaced_and_no_pod_restarts() -> None:
    """Somebody deleted the stored revision of the running template, and a finalizer holds it: its name is taken."""
    async with simulated(latency=0.02) as bed:
        bed.patience = HOUR
        nodes = await bed.deploy(daemonset(), nodes=3)
        before = {name: pod["metadata"]["uid"] for name, pod in (await bed.pods()).items()}
        (stored,) = await bed.api.list(REVISIONS)
        name = stored["metadata"]["name"]
        await bed.api.patch(REVISIONS, name, {"metadata": {"finalizers": ["example.com/archive"]}})
        await bed.api.delete(REVISIONS, name)
        await bed.status(collisions=1)
        assert {name: pod["metadata"]["uid"] for name, pod in (await bed.pods()).items()} == before
        await bed.api.delete(PODS, (await bed.pods())[nodes[0]]["metadata"]["name"])
        pods = await bed.runs_on(*nodes)
        assert [pods[node]["metadata"]["uid"] for node in nodes[1:]] == [before[node] for node in nodes[1:]]
        await bed.set_image(V2)
        await bed.runs_on(*nodes, image=V2)
        assert {image_of(pod) for pod in (await bed.pods()).values()} == {V2}


async def test_an_orphaned_revision_without_our_labels_stops_nothing() -> None:
    async with simulated(latency=0.02) as bed:
        bed.patience = HOUR
        nodes = await bed.deploy(daemonset(), nodes=3)
        (stored,) = await bed.api.list(REVISIONS)
        name = stored["metadata"]["name"]
        orphan = {key: stored[key] for key in ("data", "revision")} | {"metadata": {"name": name}}
        await bed.controller.stop()
        await bed.api.delete(REVISIONS, name)
        await bed.api.create(REVISIONS, orphan)
        await bed.api.delete(PODS, (await bed.pods())[nodes[0]]["metadata"]["name"])
        bed.controller.start()
        await bed.runs_on(*nodes)


async def test_a_raised_quota_is_seen_within_half_a_minute() -> None:
    async with simulated(latency=0.02) as bed:
        bed.patience = HOUR
        nodes = await bed.add_nodes(5)
        cluster = bed.simulator.cluster

        def admit(attempt: Attempt) -> None:
            if attempt.kind is POD_KIND and attempt.verb == "create" and len(cluster.store.objects[POD_KIND]) >= 4:
                raise forbidden(POD_KIND, attempt.name, "exceeded quota: pods, used: pods=4")

        cluster.admission.append(admit)
        await bed.api.create(DAEMONSETS, daemonset())
        await bed.status(available=4)
        await asyncio.sleep(HOUR)  # of virtual time
        cluster.admission.clear()
        began = now()
        await bed.runs_on(*nodes)
        assert now() - began <= 35.0
