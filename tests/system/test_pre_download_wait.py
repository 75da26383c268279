"""Rollouts that wait on each node for the image that goes ahead of them, also when jobs or pullers cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from controller.api.image_pull_job import PULLER_LABEL
from controller.imagepull.job_plan import FAILED_NODES_KEPT
from controller.settings import FeatureGates
from tests.beds.api import DAEMONSETS, EVENTS, IMAGE_PULL_JOBS, PODS, Object
from tests.beds.controller.bed import Bed, Check, uids
from tests.beds.nodes import Behaviour
from tests.beds.objects import PROBED, V1, V2, V3, V4, daemonset, image_of, is_ready, node_of, stays
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import (
    Answer,
    Effect,
    Hang,
    LateRequest,
    LateWatch,
    LoseAnswer,
    LoseRequest,
    NoConnection,
    Rule,
)
from tests.beds.simulator.refusal import Refused
from tests.system.in_place import restarts, runs, with_grace
from tests.system.monitor import monitoring
from tests.system.pulls import pulling, restart

IN_PLACE = {"rollingUpdateType": "InPlaceIfPossible"}
WAIT = "kruise-ds/image-predownload-wait"
PARALLELISM = "apps.kruise.io/image-predownload-parallelism"


async def updated(bed: Bed, *nodes: str, image: str = V2) -> None:
    """Wait until exactly these nodes run the image."""

    def missing(found: list[Object]) -> str:
        there = sorted(node_of(pod) for pod in found if stays(pod, "agent") and image_of(pod) == image)
        return "" if there == sorted(nodes) else f"{image} is on {there}"

    await bed.until(PODS, missing, f"{image} on {nodes}")


async def test_in_place_a_node_is_updated_once_its_image_is_there(pulls: Bed) -> None:
    nodes = await pulls.deploy(daemonset(rolling=IN_PLACE), nodes=3)
    before = uids(await pulls.pods())
    pulls.nodes.behave("*", Behaviour(pull=30.0))
    unready: list[float] = []

    async def watch() -> None:
        async for event in pulls.api.watch(PODS):
            if stays(event.object, "agent") and not is_ready(event.object):
                unready.append(pulls.clock())  # as they come

    watching = asyncio.create_task(watch())
    began = pulls.clock()
    await pulls.set_image(V2)
    await asyncio.sleep(25)
    assert unready == [], "nobody waits for a pull"
    await pulls.runs_on(*nodes, image=V2)
    watching.cancel()
    assert uids(await pulls.pods()) == before
    assert 90 <= pulls.clock() - began < 95, "one image after the other"


async def test_a_node_that_cannot_pull_the_image_is_left_alone_and_named(pulls: Bed) -> None:
    nodes = await pulls.deploy(daemonset(rolling=IN_PLACE), nodes=3)
    pulls.nodes.behave("node-1", Behaviour(missing_images=(V2,)))
    await pulls.set_image(V2)
    await updated(pulls, "node-0", "node-2")
    told = await pulls.condition("Reconciling", "ImagesNotPulled")
    assert "node-1" in told["message"]
    await asyncio.sleep(3600)  # longer than a job of another rollout would be kept
    pods = await pulls.pods()
    assert image_of(pods["node-1"]) == V1
    assert is_ready(pods["node-1"])
    pulls.nodes.behave("node-1")
    (job,) = await pulls.api.list(IMAGE_PULL_JOBS)
    await pulls.api.delete(IMAGE_PULL_JOBS, job["metadata"]["name"])
    await pulls.runs_on(*nodes, image=V2)


async def test_with_the_annotation_new_pods_wait_too_but_not_for_what_has_failed(pulls: Bed) -> None:
    nodes = await pulls.deploy(daemonset(), nodes=3)
    annotations = {WAIT: "true", PARALLELISM: "3"}
    await pulls.api.patch(DAEMONSETS, "agent", {"metadata": {"annotations": annotations}})
    pulls.nodes.behave("*", Behaviour(pull=30.0))
    pulls.nodes.behave("node-2", Behaviour(missing_images=(V2,)))
    await pulls.set_image(V2)
    await asyncio.sleep(20)
    pods = await pulls.pods()
    assert image_of(pods["node-2"]) == V2, "its attempt has failed, so it is its turn"
    assert {image_of(pods[node]) for node in nodes[:2]} == {V1}
    pulls.nodes.behave("node-2")
    await pulls.runs_on(*nodes, image=V2)


async def test_the_nodes_that_the_rollout_may_update_pull_first(pulls: Bed) -> None:
    """The selector means a canary whose name comes last; when it means others, they do."""
    await pulls.add_nodes(6)
    await pulls.label_node("node-0", canary="yes")
    await pulls.label_node("node-2", canary="soon")
    await pulls.deploy(daemonset(rolling={**IN_PLACE, "selector": {"matchLabels": {"canary": "yes"}}}))
    pulls.nodes.behave("*", Behaviour(pull=60.0))
    began = pulls.clock()
    await pulls.set_image(V2)
    await updated(pulls, "node-0")
    assert pulls.clock() - began < 65, "the first pull is its own"
    await asyncio.sleep(40)  # everybody has seen by now that one old pod is gone
    exists = {"matchExpressions": [{"key": "canary", "operator": "Exists"}]}
    await pulls.edit({"updateStrategy": {"rollingUpdate": {"selector": exists | {"matchLabels": None}}}})
    await updated(pulls, "node-0", "node-2")
    assert pulls.clock() - began < 185, "the next one after that of node-5, which is under way"


async def test_with_a_threshold_the_first_nodes_go_without_the_image(pulls: Bed) -> None:
    nodes = await pulls.deploy(daemonset(rolling=IN_PLACE), nodes=4)
    threshold = {"apps.kruise.io/image-predownload-min-updated-ready-pods": "2"}
    await pulls.api.patch(DAEMONSETS, "agent", {"metadata": {"annotations": threshold}})
    pulls.nodes.behave("*", Behaviour(pull=30.0))
    began = pulls.clock()
    await pulls.set_image(V2)
    await updated(pulls, "node-3")
    told = await pulls.event("PreDownloadDeferred", "once 2 updated pods are ready")
    assert (told["type"], told["involvedObject"]["kind"]) == ("Normal", "DaemonSet")
    assert pulls.clock() - began < 5
    await updated(pulls, "node-2", "node-3")
    await pulls.event("CreatedImagePullJob", V2)
    await asyncio.sleep(25)
    assert {image_of(pod) for node, pod in (await pulls.pods()).items() if node in nodes[:2]} == {V1}, (
        "the others wait"
    )
    await pulls.runs_on(*nodes, image=V2)
    assert len([one for one in await pulls.api.list(EVENTS) if one["reason"] == "PreDownloadDeferred"]) == 1


async def test_a_node_that_comes_while_images_are_everywhere_waits_for_its_own(pulls: Bed) -> None:
    nodes = await pulls.deploy(daemonset(rolling={**IN_PLACE, "paused": True}), nodes=3)
    await pulls.set_image(V2)
    await has_image(pulls, 3)
    await pulls.nodes.add("late")
    pulls.nodes.behave("late", Behaviour(missing_images=(V2,)))
    await pulls.runs_on(*nodes, "late", image=V1)
    await pulls.edit({"updateStrategy": {"rollingUpdate": {"paused": False}}})
    await updated(pulls, *nodes)
    await pulls.condition("Reconciling", "ImagesNotPulled")
    pods = await pulls.pods()
    assert (image_of(pods["late"]), is_ready(pods["late"])) == (V1, True)


async def has_image(bed: Bed, nodes: int) -> None:
    def missing(found: list[Object]) -> str:
        there = [(one.get("status") or {}).get("succeeded") for one in found]
        return "" if there == [nodes] else f"the image is on {there}"

    await bed.until(IMAGE_PULL_JOBS, missing, f"{nodes} nodes have it")


async def test_of_very_many_nodes_without_the_image_none_is_broken(pulls: Bed) -> None:
    """More than a status has room for names."""
    many = FAILED_NODES_KEPT + 20
    await pulls.add_nodes(many)
    await pulls.deploy(daemonset(rolling={**IN_PLACE, "maxUnavailable": 100}))
    await pulls.api.patch(DAEMONSETS, "agent", {"metadata": {"annotations": {PARALLELISM: "100%"}}})
    pulls.nodes.behave("*", Behaviour(missing_images=(V2,)))
    await pulls.set_image(V2)
    await pulls.condition("Reconciling", "ImagesNotPulled")
    await pulls.controller.kill()
    restart(pulls)
    await pulls.condition("Reconciling", "ImagesNotPulled")
    await pulls.idle()
    assert {image_of(pod) for pod in (await pulls.pods()).values()} == {V1}


SLOW, MISSING = Behaviour(pull=100.0), Behaviour(missing_images=(V3,))


@pytest.mark.parametrize("node", [SLOW, MISSING], ids=["is slow", "is missing"])
async def test_an_edit_in_the_grace_period_whose_image(pulls: Bed, node: Behaviour) -> None:
    """The pod gets its traffic back until its turn comes again, which begins with a grace period of its own."""
    nodes = await pulls.deploy(with_grace(30), nodes=2)
    await pulls.set_image(V2)
    await pulls.status(available=1)
    pulls.nodes.behave("*", node)
    await pulls.set_image(V3)
    await pulls.status(available=2)
    await asyncio.sleep(90)
    pods = await pulls.pods()
    assert [(is_ready(pod), runs(pod, V1), restarts(pod)) for pod in pods.values()] == [(True, True, 0)] * 2
    pulls.nodes.behave("*")
    async with monitoring(pulls, most_unavailable=1):
        await pulls.runs_on(*nodes, image=V3)
    assert [restarts(pod) for pod in (await pulls.pods()).values()] == [1, 1], "none went through V2"


JOBS = "imagepulljobs.apps.kruise.io"
WORDS = "the policy says no"


@contextmanager
def refused(bed: Bed, kind: str, among: Callable[[Object], bool]) -> Iterator[None]:
    """While the block runs objects like these are not created."""

    def admit(attempt: Attempt) -> None:
        if (attempt.kind.plural, attempt.verb) == (kind, "create") and among(attempt.object):
            raise Refused(403, "Forbidden", WORDS)

    admission = bed.simulator.cluster.admission
    admission.append(admit)
    yield
    admission.remove(admit)


async def deployed(bed: Bed, edit: Object) -> list[str]:
    """Three nodes, updated in place from now on."""
    nodes = await bed.deploy(daemonset(rolling=IN_PLACE), nodes=3)
    if edit:
        await bed.edit(edit)
        await bed.settled()
    return nodes


def is_puller(pod: Object) -> bool:
    return PULLER_LABEL in pod["metadata"]["labels"]


async def serving(bed: Bed, image: str) -> None:
    """All agents are untouched."""
    pods = [pod for pod in await bed.api.list(PODS) if stays(pod, "agent")]
    assert [(image_of(pod), is_ready(pod)) for pod in pods] == [(image, True)] * 3


async def test_while_pullers_are_refused_a_rollout_in_place_says_so(pulls: Bed) -> None:
    nodes = await deployed(pulls, {})
    with refused(pulls, "pods", is_puller):
        began = pulls.clock()
        await pulls.set_image(V2)
        told = await pulls.condition("Reconciling", "ImagesNotPulled")
        assert WORDS in told["message"]
        assert 300 <= pulls.clock() - began < 600, "as long as an attempt may take"
        await serving(pulls, V1)
    await pulls.runs_on(*nodes, image=V2)


async def test_where_pods_are_replaced_refused_pullers_are_not_waited_for(pulls: Bed) -> None:
    nodes = await pulls.deploy(daemonset(), nodes=3)
    await pulls.api.patch(DAEMONSETS, "agent", {"metadata": {"annotations": {WAIT: "true"}}})
    with refused(pulls, "pods", is_puller):
        await pulls.set_image(V2)
        await pulls.runs_on(*nodes, image=V2)


async def test_a_rollout_in_place_says_that_its_job_is_to_pull_nowhere(pulls: Bed) -> None:
    nodes = await deployed(pulls, {})
    await pulls.api.patch(DAEMONSETS, "agent", {"metadata": {"annotations": {PARALLELISM: "0"}}})
    await pulls.set_image(V2)
    told = await pulls.condition("Reconciling", "ImagesNotPulled")
    (job,) = await pulls.api.list(IMAGE_PULL_JOBS)
    name = job["metadata"]["name"]
    assert f"the parallelism of ImagePullJob {name} is 0" in told["message"]
    await serving(pulls, V1)
    await pulls.api.patch(IMAGE_PULL_JOBS, name, {"spec": {"parallelism": 1}})
    await pulls.runs_on(*nodes, image=V2)


async def test_a_job_that_was_removed_and_is_wanted_again_is_made_again() -> None:
    """Its end is seen late: the cache still has it when the template is the former one again."""
    late = Rule(verb="watch", resource=JOBS, effect=LateWatch(seconds=3.0))
    async with pulling(late) as bed:
        nodes = await deployed(bed, {})
        bed.nodes.behave("*", Behaviour(missing_images=(V2, V3)))
        await bed.set_image(V2)
        await bed.until(IMAGE_PULL_JOBS, job_for(V2), "a job")
        await asyncio.sleep(10)  # of virtual time
        await bed.set_image(V3)
        await bed.until(IMAGE_PULL_JOBS, job_for(V3), "another job")
        await bed.set_image(V2)
        await bed.until(IMAGE_PULL_JOBS, job_for(V2), "the first one again")
        await asyncio.sleep(60)
        await serving(bed, V1)
        bed.nodes.behave("*", Behaviour())
        await bed.set_image(V4)
        await bed.runs_on(*nodes, image=V4)


async def test_a_job_being_deleted_late_is_not_relied_on_when_wanted_again() -> None:
    """No deletion is answered, and each done when the template is the former one again."""
    late = Rule(verb="delete", resource=JOBS, effect=LateRequest(seconds=20.0))
    async with pulling(late) as bed:
        await deployed(bed, {})
        bed.nodes.behave("*", Behaviour(missing_images=(V2, V3)))
        await bed.set_image(V2)
        (former,) = await bed.until(IMAGE_PULL_JOBS, job_for(V2), "a job")
        await bed.set_image(V3)
        await bed.event("CreatedImagePullJob", V3)
        await bed.set_image(V2)
        await asyncio.sleep(60)  # of virtual time
        (again,) = await bed.until(IMAGE_PULL_JOBS, job_for(V2), "the first one again")
        assert again["metadata"]["uid"] != former["metadata"]["uid"]
        await serving(bed, V1)


def job_for(image: str) -> Check:
    def missing(found: list[Object]) -> str:
        there = [one["spec"]["image"] for one in found]
        return "" if there == [image] else f"jobs for {there}"

    return missing


@pytest.mark.parametrize(
    "effect",
    [Answer(429, retry_after=1), NoConnection(), LoseRequest(), LoseAnswer()],
    ids=["too busy", "no connection", "the request is lost", "the answer is lost"],
)
async def test_no_container_ends_before_its_image_is_there_in_silence(pulls: Bed, effect: Effect) -> None:
    """Whether it is made or not: it is not refused. After the time of an attempt no node waits any more."""
    nodes = await deployed(pulls, {})
    pulls.nodes.behave("*", Behaviour(pull=30.0))
    unanswered = Rule(verb="create", resource=JOBS, effect=effect)
    pulls.simulator.link.faults.add(unanswered)
    await pulls.set_image(V2)
    await asyncio.sleep(25)
    await serving(pulls, V1)
    pulls.simulator.link.faults.remove(unanswered)
    await pulls.runs_on(*nodes, image=V2)


async def test_a_job_that_is_never_answered_is_waited_for_as_long_as_one_attempt(pulls: Bed) -> None:
    nodes = await deployed(pulls, {})
    pulls.simulator.link.faults.add(Rule(verb="create", resource=JOBS, effect=NoConnection()))
    began = pulls.clock()
    await pulls.set_image(V2)
    await pulls.runs_on(*nodes, image=V2)
    assert 300 <= pulls.clock() - began < 600


async def test_a_job_of_another_owner_is_not_waited_for(pulls: Bed) -> None:
    nodes = await pulls.deploy(daemonset(rolling=IN_PLACE), nodes=3)
    pulls.nodes.behave("*", Behaviour(pull=60.0))
    await pulls.set_image(V2)
    await pulls.event("CreatedImagePullJob", V2)
    (ours,) = await pulls.api.list(IMAGE_PULL_JOBS)
    await pulls.set_image(V1)
    await pulls.until(IMAGE_PULL_JOBS, lambda found: "it is there" if found else "", "the job is gone")
    theirs = {"metadata": {"name": ours["metadata"]["name"]}, "spec": {"image": V2, "parallelism": 0}}
    await pulls.api.create(IMAGE_PULL_JOBS, theirs)
    pulls.nodes.behave("*", Behaviour())
    began = pulls.clock()
    await pulls.set_image(V2)
    await pulls.runs_on(*nodes, image=V2)
    assert pulls.clock() - began < 10
    assert (await pulls.event("FailedCreateImagePullJob", "already exists"))["type"] == "Warning"


async def test_a_job_goes_with_its_daemonset_also_where_dependents_are_to_stay(pulls: Bed) -> None:
    """Or the next DaemonSet of that name could not make its own, and would not wait for the image."""
    nodes = await pulls.deploy(daemonset(rolling=IN_PLACE), nodes=3)
    pulls.nodes.behave("*", Behaviour(missing_images=(V2,)))
    await pulls.set_image(V2)
    await pulls.condition("Reconciling", "ImagesNotPulled")
    await pulls.api.delete(DAEMONSETS, "agent", options={"propagationPolicy": "Orphan"})
    await pulls.until(IMAGE_PULL_JOBS, lambda found: "it is there" if found else "", "the job is gone")
    assert len(await pulls.api.list(PODS)) == 3
    pulls.nodes.behave("*", Behaviour(pull=60.0))
    await pulls.api.create(DAEMONSETS, daemonset(image=V2, rolling=IN_PLACE))
    await pulls.event("CreatedImagePullJob", V2)
    await asyncio.sleep(50)
    assert {image_of(pod) for pod in (await pulls.pods()).values()} == {V1}
    await pulls.runs_on(*nodes, image=V2)


async def test_a_leader_that_never_learns_of_jobs_is_waited_for_ten_seconds(pulls: Bed) -> None:
    nodes = await pulls.deploy(daemonset(pod=PROBED, rolling=IN_PLACE), nodes=3)
    await pulls.controller.kill()
    pulls.simulator.link.faults.add(Rule(verb="list,watch", resource=JOBS, effect=Hang()))
    began = pulls.clock()
    pulls.controller.start(replace(pulls.controller.settings, gates=FeatureGates(pre_download=True)))
    await pulls.set_image(V2)
    await pulls.runs_on(*nodes, image=V2)
    assert 10 <= pulls.clock() - began < 15


async def test_a_new_leader_does_not_run_ahead_of_jobs_it_does_not_know(pulls: Bed) -> None:
    await pulls.deploy(daemonset(rolling=IN_PLACE), nodes=3)
    pulls.nodes.behave("*", Behaviour(pull=60.0))
    await pulls.set_image(V2)
    await asyncio.sleep(10)
    await pulls.controller.kill()
    late = Rule(verb="list,watch", resource=JOBS, effect=Hang(seconds=5.0))
    pulls.simulator.link.faults.add(late)
    restart(pulls)
    await asyncio.sleep(30)
    assert {image_of(pod) for pod in (await pulls.pods()).values()} == {V1}
    await pulls.settled()


async def test_a_job_that_ends_is_replaced_when_nodes_begin_to_wait(pulls: Bed) -> None:
    """Or a node on which it has failed would be updated without the image as soon as it is gone."""
    nodes = await pulls.deploy(daemonset(rolling=IN_PLACE), nodes=3)
    await pulls.edit({"updateStrategy": {"rollingUpdate": {"paused": True, "rollingUpdateType": "Standard"}}})
    pulls.nodes.behave("node-1", Behaviour(missing_images=(V2,)))
    await pulls.set_image(V2)
    await pulls.event("CreatedImagePullJob", V2)
    await asyncio.sleep(60)
    await pulls.edit({"updateStrategy": {"rollingUpdate": {**IN_PLACE, "paused": False}}})
    await updated(pulls, "node-0", "node-2")
    await asyncio.sleep(3600)
    (left,) = [pod for node, pod in (await pulls.pods()).items() if node == "node-1"]
    assert (image_of(left), is_ready(left)) == (V1, True)
    assert len(await pulls.api.list(IMAGE_PULL_JOBS)) == 1
    pulls.nodes.behave("node-1")
    await pulls.runs_on(*nodes, image=V2)
