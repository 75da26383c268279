"""Rollouts whose images go ahead, when jobs or pullers cannot be had: none waits in silence (virtual time)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from controller.api.image_pull_job import PULLER_LABEL
from controller.settings import FeatureGates
from tests.beds.api import DAEMONSETS, IMAGE_PULL_JOBS, PODS, Object
from tests.beds.controller.bed import Bed, Check
from tests.beds.nodes import Behaviour
from tests.beds.objects import PROBED, V1, V2, V3, V4, daemonset, image_of, is_ready, stays
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
from tests.system.pulls import pulling, restart
from tests.system.test_pre_download_wait import updated

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


async def test_a_job_of_somebody_else_is_not_waited_for(pulls: Bed) -> None:
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


async def test_a_job_that_was_refused_at_first_is_waited_for_once_it_is_made(pulls: Bed) -> None:
    """Also before a watch shows it."""
    nodes = await pulls.deploy(daemonset(rolling=IN_PLACE), nodes=3)
    pulls.nodes.behave("*", Behaviour(pull=5.0))
    faults = pulls.simulator.link.faults
    faults.add(Rule(verb="create", resource=JOBS, effect=Answer(500), times=1))
    faults.add(Rule(verb="watch", resource=JOBS, effect=LateWatch(seconds=30.0)))
    await pulls.controller.kill()
    restart(pulls)
    await asyncio.sleep(60)  # until it knows which jobs there are
    await pulls.set_image(V2)
    await pulls.event("CreatedImagePullJob", V2)
    await asyncio.sleep(20)
    there = {node for node, pod in (await pulls.pods()).items() if image_of(pod) == V2}
    assert there <= {"node-2"}, "whose turn may have come while there was none"
    await pulls.runs_on(*nodes, image=V2)


@pytest.mark.parametrize("status", [403, 500])
async def test_nobody_waits_for_a_job_that_cannot_be_made(pulls: Bed, status: int) -> None:
    nodes = await pulls.deploy(daemonset(rolling=IN_PLACE), nodes=3)
    pulls.simulator.link.faults.add(Rule(verb="create", resource=JOBS, effect=Answer(status)))
    began = pulls.clock()
    await pulls.set_image(V2)
    await pulls.runs_on(*nodes, image=V2)
    assert pulls.clock() - began < 10


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
