"""What a rollout that waits for images makes of jobs: refused, made by others, not known yet, or ended."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from controller.settings import FeatureGates
from tests.beds.api import DAEMONSETS, IMAGE_PULL_JOBS, PODS
from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import PROBED, V1, V2, daemonset, image_of, is_ready
from tests.beds.simulator.faults import Answer, Hang, LateWatch, Rule
from tests.system.pulls import restart
from tests.system.test_pre_download_wait import IN_PLACE, updated

JOBS = "imagepulljobs.apps.kruise.io"


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


async def test_nobody_waits_where_no_machine_could_keep_an_image(pulls: Bed) -> None:
    nodes = await pulls.add_nodes(2)
    await pulls.label_node("node-1", type="virtual-kubelet")
    await pulls.deploy(daemonset(rolling=IN_PLACE))
    await pulls.set_image(V2)
    await pulls.runs_on(*nodes, image=V2)


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
