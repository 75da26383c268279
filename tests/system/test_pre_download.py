"""Images go ahead of a rollout: which ImagePullJobs are made for it, when, and how they end (virtual time)."""

from __future__ import annotations

import asyncio

from tests.beds.api import DAEMONSETS, EVENTS, IMAGE_PULL_JOBS, PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, daemonset, node_of
from tests.beds.simulator.faults import Answer, Rule
from tests.system.both import both_beds

JOBS = "imagepulljobs.apps.kruise.io"
SLOW = Behaviour(pull=60.0)
BRIEF = Behaviour(pull=0.5)
"""Also where it takes its time."""


async def jobs(bed: Bed) -> dict[str, Object]:
    return {one["metadata"]["name"]: one for one in await bed.api.list(IMAGE_PULL_JOBS)}


async def made(bed: Bed, count: int = 1) -> list[Object]:
    """Wait until there are so many jobs, by name."""

    def missing(found: list[Object]) -> str:
        names = sorted(one["metadata"]["name"] for one in found)
        return "" if len(names) == count else f"jobs: {names}"

    found = await bed.until(IMAGE_PULL_JOBS, missing, f"{count} jobs")
    return sorted(found, key=lambda one: str(one["metadata"]["name"]))


async def annotate(bed: Bed, **values: str) -> None:
    names = {f"apps.kruise.io/image-predownload-{name.replace('_', '-')}": value for name, value in values.items()}
    await bed.api.patch(DAEMONSETS, "agent", {"metadata": {"annotations": names}})


@both_beds
async def test_a_new_image_is_pulled_ahead_where_old_pods_are(
    pulls: Bed,
) -> None:
    nodes = await pulls.deploy(daemonset(), nodes=5)
    pulls.nodes.behave("*", BRIEF)
    await pulls.set_image(V2)
    (job,) = await made(pulls)
    (revision,) = [one for one in await pulls.revisions() if one["revision"] == 2]
    assert job["metadata"]["name"] == f"{revision['metadata']['name']}-agent"
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("DaemonSet", "agent", True)
    spec = job["spec"]
    assert (spec["image"], spec["parallelism"]) == (V2, 1)
    assert spec["pullPolicy"] == {"timeoutSeconds": 300, "backoffLimit": 1}
    assert spec["completionPolicy"] == {"type": "Always", "ttlSecondsAfterFinished": 600}
    told = await pulls.event("CreatedImagePullJob", V2)
    assert (told["type"], told["involvedObject"]["kind"]) == ("Normal", "DaemonSet")
    await pulls.settled()
    await made(pulls, 0)
    await pulls.runs_on(*nodes, image=V2)


async def test_a_rollout_takes_as_long_as_its_pods_once_images_come_before_them(pulls: Bed) -> None:
    """A minute for each pull, all at once while the rollout is paused."""
    nodes = await pulls.deploy(daemonset(), nodes=50)
    await annotate(pulls, parallelism="100%")
    await pulls.edit({"updateStrategy": {"rollingUpdate": {"paused": True}}})
    pulls.nodes.behave("*", SLOW)
    began = pulls.clock()
    await pulls.set_image(V2)
    (job,) = await made(pulls)
    assert job["spec"]["parallelism"] == 50

    def missing(found: list[Object]) -> str:
        return "" if found and (found[0].get("status") or {}).get("succeeded") == 50 else "not everywhere"

    await pulls.until(IMAGE_PULL_JOBS, missing, "the image is on every node")
    await pulls.edit({"updateStrategy": {"rollingUpdate": {"paused": False}}})
    await pulls.runs_on(*nodes, image=V2)
    assert pulls.clock() - began < 120, "a fiftieth would be 60"


@both_beds
async def test_on_delete_gets_one_and_is_managed_as_ever(pulls: Bed) -> None:
    nodes = await pulls.deploy(daemonset(updateStrategy={"type": "OnDelete"}), nodes=3)
    await pulls.set_image(V2)
    await made(pulls)
    for pod in await pulls.api.list(PODS):
        if pod["metadata"]["name"].startswith("agent-") and node_of(pod) in nodes and "revision" not in pod:
            await pulls.api.delete(PODS, pod["metadata"]["name"])
    await pulls.runs_on(*nodes, image=V2)
    await made(pulls, 0)


async def test_a_rollback_gets_its_own(pulls: Bed) -> None:
    await pulls.deploy(daemonset(), nodes=6)
    pulls.nodes.behave("*", Behaviour(pull=30.0, ready=10.0))
    await pulls.set_image(V2)
    (first,) = await made(pulls)
    await pulls.status(updated=4)
    began = pulls.clock()
    await pulls.set_image(V1)

    def missing(found: list[Object]) -> str:
        there = [one["spec"]["image"] for one in found]
        return "" if there == [V1] else f"jobs for {there}"

    await pulls.until(
        IMAGE_PULL_JOBS, missing, "the job of the abandoned revision is gone, and one for the rollback there"
    )
    assert pulls.clock() - began < 5
    assert first["spec"]["image"] == V2
    await pulls.settled()
    await made(pulls, 0)


async def test_nodes_that_are_updated_meanwhile_drop_out(pulls: Bed) -> None:
    """Nothing is pulled ahead here, so that only the rollout itself changes who is left."""
    await pulls.deploy(daemonset(rolling={"partition": 2}), nodes=5)
    await annotate(pulls, parallelism="0")
    await pulls.set_image(V2)

    def missing(found: list[Object]) -> str:
        counts = [(one.get("status") or {}).get("desired") for one in found]
        return "" if counts == [2] else f"nodes that shall have the image: {counts}"

    await pulls.until(IMAGE_PULL_JOBS, missing, "two old pods are left")
    assert all(pod["metadata"]["name"].startswith("agent-") for pod in await pulls.api.list(PODS))


async def test_progress_never_runs_backwards_while_nodes_are_updated(pulls: Bed) -> None:
    await pulls.deploy(daemonset(rolling={"rollingUpdateType": "InPlaceIfPossible"}), nodes=4)
    pulls.nodes.behave("*", SLOW)
    seen: list[tuple[int, int]] = []

    async def watch() -> None:
        async for event in pulls.api.watch(IMAGE_PULL_JOBS, silence=600.0):
            if event.type == "MODIFIED" and (status := event.object.get("status")):
                seen.append((status["succeeded"], status["desired"]))  # as they come

    watching = asyncio.create_task(watch())
    await pulls.update(V2)
    watching.cancel()
    assert {desired for _, desired in seen} == {4}
    assert [there for there, _ in seen] == sorted(there for there, _ in seen)
    assert {0, 1, 2, 3} <= {there for there, _ in seen}


async def test_a_job_that_is_refused_holds_up_no_rollout_and_is_tried_again(pulls: Bed) -> None:
    nodes = await pulls.deploy(daemonset(), nodes=4)
    pulls.nodes.behave("*", Behaviour(pull=10.0))
    faults = pulls.simulator.link.faults
    faults.add(Rule(verb="create", resource=JOBS, effect=Answer(500), times=3))
    await pulls.set_image(V2)
    await pulls.event("FailedCreateImagePullJob")
    await made(pulls)
    await pulls.runs_on(*nodes, image=V2)
    await made(pulls, 0)


async def test_a_finished_job_is_not_made_again_for_a_long_rollout(pulls: Bed) -> None:
    await pulls.deploy(daemonset(rolling={"partition": 3}), nodes=3)
    await pulls.set_image(V2)
    await made(pulls)
    await made(pulls, 0)
    await asyncio.sleep(7200)
    await pulls.api.patch(DAEMONSETS, "agent", {"metadata": {"annotations": {"touched": "yes"}}})
    await asyncio.sleep(60)
    assert len(pulls.journal.of(JOBS, "create")) == 1
    told = [one for one in await pulls.api.list(EVENTS) if one["reason"] == "CreatedImagePullJob"]
    assert len(told) == 1
