"""Rollouts whose images go ahead, when jobs or pullers cannot be had: nobody waits in silence (virtual time)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from controller.api.image_pull_job import PULLER_LABEL
from tests.beds.api import DAEMONSETS, IMAGE_PULL_JOBS, PODS, Object
from tests.beds.controller.bed import Bed, Check
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, V3, V4, daemonset, image_of, is_ready, stays
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import (
    Answer,
    Effect,
    LateRequest,
    LateWatch,
    LoseAnswer,
    LoseRequest,
    NoConnection,
    Rule,
)
from tests.beds.simulator.refusal import Refused
from tests.system.pulls import pulling

JOBS = "imagepulljobs.apps.kruise.io"
IN_PLACE = {"rollingUpdateType": "InPlaceIfPossible"}
WAIT = "kruise-ds/image-predownload-wait"
PARALLELISM = "apps.kruise.io/image-predownload-parallelism"
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


def two(first: str, second: str) -> Object:
    """A template with two containers."""
    containers = [{"name": "agent", "image": first}, {"name": "helper", "image": second}]
    return {"template": {"spec": {"containers": containers}}}


async def deployed(bed: Bed, edit: Object) -> list[str]:
    """Three nodes, updated in place from now on."""
    nodes = await bed.deploy(daemonset(rolling=IN_PLACE), nodes=3)
    if edit:
        await bed.edit(edit)
        await bed.settled()
    return nodes


async def test_a_job_that_is_refused_keeps_no_other_image_back(pulls: Bed) -> None:
    nodes = await deployed(pulls, two(V1, V1))
    with refused(pulls, "imagepulljobs", lambda job: job["spec"]["image"] == V2):
        await pulls.edit(two(V2, V3))
        await pulls.event("CreatedImagePullJob", V3)
        began = pulls.clock()
        await pulls.runs_on(*nodes, image=V2)
    assert pulls.clock() - began < 60, "nobody waits for the one that cannot be made"


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


async def test_nobody_waits_for_a_job_that_is_being_deleted(pulls: Bed) -> None:
    nodes = await deployed(pulls, {})
    pulls.nodes.behave("*", Behaviour(pull=100.0))
    await pulls.set_image(V2)
    (job,) = await pulls.until(IMAGE_PULL_JOBS, lambda found: "" if found else "none", "a job")
    name = job["metadata"]["name"]
    await pulls.api.patch(IMAGE_PULL_JOBS, name, {"metadata": {"finalizers": ["example.com/keep"]}})
    await pulls.api.delete(IMAGE_PULL_JOBS, name)
    await pulls.runs_on(*nodes, image=V2)


async def test_an_updated_pod_not_ready_any_more_leaves_others_protected(pulls: Bed) -> None:
    """The threshold is for making the job. The node that the first one is updated on goes without its image."""
    await pulls.add_nodes(3)
    await pulls.deploy(daemonset(rolling={**IN_PLACE, "maxUnavailable": 2, "selector": {"matchLabels": {"go": "1"}}}))
    annotations = {"apps.kruise.io/image-predownload-min-updated-ready-pods": "1"}
    await pulls.api.patch(DAEMONSETS, "agent", {"metadata": {"annotations": annotations}})
    await pulls.label_node("node-2", go="1")
    for node in ("node-0", "node-1"):
        pulls.nodes.behave(node, Behaviour(missing_images=(V2,)))
    await pulls.set_image(V2)
    await pulls.status(updated=1, available=3)
    await pulls.until(IMAGE_PULL_JOBS, lambda found: "" if found else "none", "a job")
    for node in ("node-0", "node-1"):
        await pulls.label_node(node, go="1")
    await pulls.condition("Reconciling", "ImagesNotPulled")
    pulls.nodes.behave("node-2", Behaviour(ready=None))
    await pulls.nodes.ready((await pulls.pods())["node-2"], value=False)
    await pulls.status(updated=1, available=2)
    await pulls.idle()
    pods = await pulls.pods()
    assert {image_of(pods[node]) for node in ("node-0", "node-1")} == {V1}


async def test_a_job_that_was_removed_and_is_wanted_again_is_made_again() -> None:
    """Its end is told late: the cache still has it when the template is the former one again."""
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


async def test_a_job_that_may_not_be_deleted_serves_when_it_is_wanted_again() -> None:
    never = Rule(verb="delete", resource=JOBS, effect=Answer(403, "Forbidden"))
    async with pulling(never) as bed:
        nodes = await deployed(bed, {})
        bed.nodes.behave("*", Behaviour(pull=30.0))
        await bed.set_image(V2)
        (former,) = await bed.until(IMAGE_PULL_JOBS, job_for(V2), "a job")
        await bed.set_image(V3)
        await bed.event("CreatedImagePullJob", V3)
        await bed.set_image(V2)
        await bed.runs_on(*nodes, image=V2)
        there = {one["spec"]["image"]: one["metadata"]["uid"] for one in await bed.api.list(IMAGE_PULL_JOBS)}
        assert there[V2] == former["metadata"]["uid"]


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
    """Whether it is made or not: nobody refuses it. After the time of an attempt nobody waits any more."""
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
