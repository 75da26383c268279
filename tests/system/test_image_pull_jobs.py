"""ImagePullJobs in virtual time: on which nodes, how many at once, how often; with restarts and refused writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from controller.api.image_pull_job import PULLER_LABEL, ImagePullJobView, project
from controller.imagepull.wanted import puller_name
from tests.beds.api import DAEMONSETS, IMAGE_PULL_JOBS, PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import simulated
from tests.beds.nodes import Behaviour
from tests.beds.objects import daemonset, pod
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import Answer, Effect, Hang, LoseAnswer, NoConnection, Rule
from tests.beds.simulator.kinds import IMAGE_PULL_JOBS as KIND
from tests.system.admission import judged
from tests.system.pulls import counts, job, no_pods, over, pulling, reads, restart


async def test_a_pod_selector_means_the_nodes_of_those_pods(pulls: Bed) -> None:
    await pulls.add_nodes(3)
    await pulls.label_node("node-1", role="daemon")
    await pulls.deploy(daemonset(pod={"nodeSelector": {"role": "daemon"}}))
    chosen = {"matchLabels": {"app": "agent"}}
    await pulls.api.create(IMAGE_PULL_JOBS, job(podSelector=chosen, completionPolicy={"type": "Never"}))
    await reads(pulls, 1, 0, 1, 0)
    assert pulls.journal.created == ["node-1"]
    await pulls.label_node("node-2", role="daemon")
    began = pulls.clock()
    await reads(pulls, 2, 0, 2, 0)
    assert pulls.clock() - began < 31, "pods are looked up every half minute"


async def test_an_edit_of_whom_it_means_holds_at_once(pulls: Bed) -> None:
    await pulls.add_nodes(4)
    for node, name in (("node-1", "one"), ("node-2", "two")):
        await pulls.label_node(node, role=name)
        await pulls.deploy(daemonset(name, pod={"nodeSelector": {"role": name}}))
    one, two = ({"matchLabels": {"app": name}} for name in ("one", "two"))
    await pulls.api.create(IMAGE_PULL_JOBS, job(podSelector=one, completionPolicy={"type": "Never"}))
    await reads(pulls, 1, 0, 1, 0)
    began = pulls.clock()
    await pulls.api.patch(IMAGE_PULL_JOBS, "pull", {"spec": {"podSelector": two}})
    await pulls.until(
        PODS, lambda pods: "" if "node-2" in pulls.journal.created else "not yet", "the other one pulls"
    )
    await pulls.api.patch(IMAGE_PULL_JOBS, "pull", {"spec": {"podSelector": None, "selector": {}}})
    await reads(pulls, 4, 0, 4, 0)
    assert pulls.clock() - began < 5


async def test_a_daemonset_beside_a_job_minds_its_own_pods(pulls: Bed) -> None:
    nodes = await pulls.deploy(daemonset(), nodes=2)
    await pulls.api.create(
        IMAGE_PULL_JOBS, job(sandboxConfig={"labels": {"app": "agent"}, "annotations": {"a": "b"}})
    )

    def missing(found: list[Object]) -> str:
        return "" if (found[0].get("status") or {}).get("completionTime") else "it goes on"

    await pulls.until(IMAGE_PULL_JOBS, missing, "the job is over")
    await pulls.until(PODS, lambda found: "" if len(found) == 2 else f"{len(found)} pods", "only the daemon pods")
    await pulls.runs_on(*nodes)
    (ours,) = await pulls.api.list(DAEMONSETS)
    assert ours["status"]["currentNumberScheduled"] == 2
    made = [write.body for write in pulls.journal.of("pods", "create")]
    assert len(made) == 2
    assert all(isinstance(one, dict) and one["metadata"]["annotations"]["a"] == "b" for one in made)


JOBS = "imagepulljobs.apps.kruise.io"


@asynccontextmanager
async def pulling_on(nodes: int, *, seconds: float = 1e6) -> AsyncIterator[Bed]:
    """A job in the middle of its work: each node pulls, which takes it so many seconds."""
    async with pulling() as bed:
        bed.nodes.behave("*", Behaviour(pull=seconds))
        await bed.add_nodes(nodes)
        await bed.api.create(IMAGE_PULL_JOBS, job(parallelism=nodes))
        await reads(bed, nodes, nodes, 0, 0)
        yield bed


async def test_with_the_gate_off_nothing_of_it_runs(bed: Bed) -> None:
    await bed.add_nodes(1)
    await bed.api.create(IMAGE_PULL_JOBS, job())
    await bed.deploy(daemonset())
    assert (await bed.api.get(IMAGE_PULL_JOBS, "pull")).get("status") is None
    requests = [seen.request for seen in bed.simulator.link.seen]
    assert not [one.path for one in requests if "imagepulljobs" in one.path or "labelSelector" in dict(one.query)]


async def test_without_their_kind_daemonsets_are_served_as_ever() -> None:
    async with simulated() as bed:
        store = bed.simulator.cluster.store
        await bed.controller.stop()
        store.remove_kind(KIND)
        restart(bed)
        nodes = await bed.deploy(daemonset(), nodes=2)
        await bed.runs_on(*nodes)
        store.add_kind(KIND)
        await bed.api.create(IMAGE_PULL_JOBS, job())
        await reads(bed, 2, 0, 2, 0)


@pytest.mark.parametrize("seconds", [0.5, 12.0, 31.0])
async def test_a_controller_that_is_cut_off_in_mid_job_is_carried_on(seconds: float) -> None:
    async with pulling() as bed:
        bed.nodes.behave("*", Behaviour(pull=10.0))
        await bed.add_nodes(5)
        began = bed.clock()
        await bed.api.create(IMAGE_PULL_JOBS, job())
        await asyncio.sleep(seconds)  # of virtual time
        await bed.controller.kill()
        restart(bed)
        assert counts(await over(bed)) == (5, 0, 5, 0)
        assert bed.clock() - began < 54, "what was pulled is there, and its puller gone in a moment"
        assert 5 <= len(bed.journal.created) <= 9
        assert len(set(bed.journal.created)) == 5


async def test_a_node_that_has_failed_is_not_tried_again_after_a_restart() -> None:
    async with pulling() as bed:
        await bed.add_nodes(2)
        bed.nodes.behave("node-1", Behaviour(missing_images=("*",)))
        bed.nodes.behave("node-0", Behaviour(pull=100.0))
        await bed.api.create(IMAGE_PULL_JOBS, job(pullPolicy={"backoffLimit": 0}))
        await reads(bed, 2, 1, 0, 1)
        await bed.controller.kill()
        bed.journal.clear()
        restart(bed)
        assert counts(await over(bed)) == (2, 0, 1, 1)
        assert bed.journal.created == []


async def test_deletions_that_are_refused_back_off_also_when_the_job_is_gone() -> None:
    async with pulling_on(3) as bed:
        bed.simulator.cluster.collects = False
        rule = Rule(verb="delete", resource="pods", effect=Answer(500))
        bed.simulator.link.faults.add(rule)
        await bed.api.delete(IMAGE_PULL_JOBS, "pull")
        await asyncio.sleep(600)  # of virtual time
        assert 3 < bed.simulator.link.faults.fired(rule) <= 3 * 12, "each after 1, 2, 4 … 300 s"
        bed.simulator.link.faults.remove(rule)
        await no_pods(bed)


async def test_a_successor_of_the_same_name_begins_anew() -> None:
    async with pulling_on(2, seconds=50.0) as bed:
        await bed.controller.kill()
        await bed.api.delete(IMAGE_PULL_JOBS, "pull")
        await bed.api.create(IMAGE_PULL_JOBS, job(image="other:v1"))
        restart(bed)
        assert counts(await over(bed)) == (2, 0, 2, 0)
        bodies: list[Any] = [write.body for write in bed.journal.of("pods", "create")[2:]]
        images = {body["spec"]["containers"][0]["image"] for body in bodies}
        assert images == {"other:v1"}


FORBIDDEN = Answer(403, reason="Forbidden", message='pods "x" is forbidden: exceeded quota: pods')


async def test_creates_that_are_refused_back_off_and_are_reported() -> None:
    async with pulling() as bed:
        await bed.add_nodes(100)
        rule = Rule(verb="create", resource="pods", effect=FORBIDDEN)
        bed.simulator.link.faults.add(rule)
        await bed.api.create(IMAGE_PULL_JOBS, job(parallelism=10))
        told = await bed.event("FailedCreate", "exceeded quota")
        assert told["involvedObject"]["name"] == "pull"
        await asyncio.sleep(1000)  # of virtual time
        found = (await bed.api.get(IMAGE_PULL_JOBS, "pull"))["status"]
        assert "exceeded quota" in found["message"]
        assert bed.simulator.link.faults.fired(rule) <= 10 + 12, "then one at a time, 1, 2, 4 … 300 s apart"
        bed.simulator.link.faults.remove(rule)
        found = await over(bed)
        assert (counts(found), found["message"]) == ((100, 0, 100, 0), "job has completed")


@pytest.mark.parametrize("seconds", [60.0, 400.0])
async def test_a_server_that_was_away_has_refused_nothing(seconds: float) -> None:
    """No place and no job waits for the end of a long back-off once the server is back."""
    async with pulling() as bed:
        bed.nodes.behave("*", Behaviour(pull=30.0))
        await bed.add_nodes(5)
        await bed.api.create(IMAGE_PULL_JOBS, job(completionPolicy={"type": "Never"}))
        await reads(bed, 5, 1, 0, 0)
        verbs = ("create", "patch", "delete", "list", "get", "watch")
        rules = [Rule(verb=verb, effect=NoConnection()) for verb in verbs]
        for rule in rules:
            bed.simulator.link.faults.add(rule)
        assert bed.simulator.link.drop_watches()
        await asyncio.sleep(seconds)  # of virtual time
        for rule in rules:
            bed.simulator.link.faults.remove(rule)
        back = bed.clock()
        await reads(bed, 5, 0, 5, 0)
        assert bed.clock() - back < 4 * 30 + 10


@pytest.mark.parametrize("verb", ["create", "delete"])
@pytest.mark.parametrize("effect", [Hang(), LoseAnswer(), Answer(500)], ids=["hangs", "is lost", "fails"])
async def test_a_write_without_a_good_answer_keeps_no_other_node_waiting(verb: str, effect: Effect) -> None:
    async with pulling(Rule(verb=verb, resource="pods", nth=(1,), effect=effect)) as bed:
        await bed.add_nodes(6)
        began = bed.clock()
        await bed.api.create(IMAGE_PULL_JOBS, job(parallelism=2))
        found = await over(bed)
        assert counts(found) == (6, 0, 6, 0)
        assert bed.clock() - began < 70, "one request is given up after half a minute"


@pytest.mark.parametrize("effect", [Hang(), LoseAnswer(), Answer(500)], ids=["hangs", "is lost", "fails"])
async def test_a_status_that_cannot_be_written_stops_no_pulling(effect: Effect) -> None:
    async with pulling() as bed:
        await bed.add_nodes(4)
        rule = Rule(verb="patch", resource=f"{JOBS}/status", effect=effect)
        bed.simulator.link.faults.add(rule)
        await bed.api.create(IMAGE_PULL_JOBS, job())
        await asyncio.sleep(60)
        assert sorted(bed.journal.created) == [f"node-{number}" for number in range(4)]
        assert bed.simulator.link.faults.fired(rule) < 40
        bed.simulator.link.faults.remove(rule)
        assert counts(await over(bed)) == (4, 0, 4, 0)


ENDLESS = Behaviour(pull=1e6)


async def test_a_pod_with_a_pullers_name_is_reported_and_the_job_goes_on_later(pulls: Bed) -> None:
    await pulls.add_nodes(2)
    await pulls.api.create(IMAGE_PULL_JOBS, job(parallelism=0))
    (made,) = await pulls.until(
        IMAGE_PULL_JOBS, lambda found: "" if found[0].get("status") else "not seen", "is seen"
    )
    name = puller_name(project(msgspec.convert(made, ImagePullJobView)), "node-1")
    await pulls.api.create(PODS, pod(name, on="node-0"))
    await pulls.api.patch(IMAGE_PULL_JOBS, "pull", {"spec": {"parallelism": 1}})
    await pulls.event("FailedCreate", f'pods "{name}" already exists')

    def missing(found: list[Object]) -> str:
        told = str(found[0]["status"]["message"])
        return "" if "already exists" in told else told

    await pulls.until(IMAGE_PULL_JOBS, missing, "the job tells of it")
    assert pulls.journal.created[0] == "node-0"
    await pulls.api.delete(PODS, name)
    assert counts(await over(pulls)) == (2, 0, 2, 0)


async def test_who_sends_pullers_elsewhere_makes_no_flood() -> None:
    def judge(attempt: Attempt) -> None:
        if attempt.verb == "create":
            attempt.object["spec"]["nodeName"] = "node-0"

    async with pulling() as bed:
        bed.patience = 15.0
        await bed.add_nodes(3)
        with judged(bed, judge):
            await bed.api.create(IMAGE_PULL_JOBS, job(parallelism=2, pullPolicy={"backoffLimit": 2}))
            found = await over(bed)
    assert (counts(found), found["failedNodes"]) == ((3, 0, 1, 2), ["node-1", "node-2"])


@pytest.mark.parametrize("away", [True, False], ids=["while the controller is away", "while it runs"])
async def test_pullers_that_are_left_as_orphans_go(away: bool) -> None:
    async with pulling() as bed:
        await bed.add_nodes(3)
        bed.nodes.behave("*", ENDLESS)
        await bed.api.create(IMAGE_PULL_JOBS, job(parallelism=3))
        await reads(bed, 3, 3, 0, 0)
        if away:
            await bed.controller.kill()
        await bed.api.delete(IMAGE_PULL_JOBS, "pull", propagationPolicy="Orphan")
        assert [
            owner for one in await bed.api.list(PODS) for owner in one["metadata"].get("ownerReferences") or []
        ] == []
        if away:
            restart(bed)
        await no_pods(bed)


async def test_a_pod_that_only_has_the_label_is_left_alone(pulls: Bed) -> None:
    await pulls.add_nodes(1)
    await pulls.api.create(PODS, pod("theirs", on="node-0", labels={PULLER_LABEL: "x"}))
    await pulls.idle()
    await pulls.api.get(PODS, "theirs")
    assert pulls.journal.of("pods", "delete") == []
