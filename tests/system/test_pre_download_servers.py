"""Images ahead of a rollout, where the server itself decides: who owns what, what is refused, what goes with what."""

from __future__ import annotations

import asyncio

import pytest

from tests.beds.api import IMAGE_PULL_JOBS, NAMESPACES, PODS, Object
from tests.beds.controller.bed import Bed, Check
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, daemonset
from tests.system.both import both_beds
from tests.system.pulls import counts, job, status_of
from tests.system.webhook import webhook_down


def images(*wanted: str) -> Check:
    """A check: there are jobs for these images and no others."""

    def missing(found: list[Object]) -> str:
        there = sorted(one["spec"]["image"] for one in found)
        return "" if there == sorted(wanted) else f"jobs for {there}"

    return missing


@both_beds
async def test_a_rollback_gets_a_job_of_its_own_and_ends_the_one_before(pulls: Bed) -> None:
    """The partition keeps old pods, so that there is a job for as long as it is looked at."""
    nodes = await pulls.deploy(daemonset(rolling={"partition": 2}), nodes=4)
    for image, other in ((V2, V1), (V1, V2), (V2, V1)):
        await pulls.set_image(image)
        (made,) = await pulls.until(IMAGE_PULL_JOBS, images(image), f"a job for {image}, and none for {other}")
        (hash_,) = made["spec"]["podSelector"]["matchExpressions"][0]["values"]
        assert made["metadata"]["labels"]["controller-revision-hash"] == hash_
        await pulls.status(updated=2)
    await pulls.edit({"updateStrategy": {"rollingUpdate": {"partition": 0}}})
    await pulls.runs_on(*nodes, image=V2)
    await pulls.until(IMAGE_PULL_JOBS, images(), "no job is left")


@both_beds
async def test_a_job_that_is_refused_is_told_and_made_when_it_is_not(pulls: Bed) -> None:
    await pulls.deploy(daemonset(rolling={"partition": 2}), nodes=3)
    async with webhook_down(pulls, "create", of=IMAGE_PULL_JOBS):
        await pulls.set_image(V2)
        await pulls.event("FailedCreateImagePullJob", "failed calling webhook")
        await pulls.status(updated=1)
    await pulls.until(IMAGE_PULL_JOBS, images(V2), "the job after all")


@both_beds
async def test_in_place_a_puller_that_is_refused_is_told_and_made_when_it_is_not(pulls: Bed) -> None:
    nodes = await pulls.deploy(daemonset(rolling={"rollingUpdateType": "InPlaceIfPossible"}), nodes=2)
    async with webhook_down(pulls, "create"):
        await pulls.set_image(V2)
        await pulls.event("FailedCreate", "failed calling webhook")
        await pulls.runs_on(*nodes, image=V1)
    await pulls.runs_on(*nodes, image=V2)


@both_beds
async def test_a_template_with_container_annotations_has_its_image_pulled(pulls: Bed) -> None:
    """The server refuses any pod with an AppArmor profile for a container that it does not have."""
    nodes = await pulls.add_nodes(2)
    new = daemonset(rolling={"rollingUpdateType": "InPlaceIfPossible"})
    profile = {"container.apparmor.security.beta.kubernetes.io/agent": "runtime/default"}
    new["spec"]["template"]["metadata"]["annotations"] = profile
    await pulls.deploy(new)
    await pulls.set_image(V2)
    await pulls.runs_on(*nodes, image=V2)


@both_beds
async def test_a_namespace_that_ends_in_mid_pull_is_left_in_peace(
    pulls: Bed, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of the jobs is held by somebody, and dies slowly."""
    await pulls.add_nodes(3)
    pulls.nodes.behave("*", Behaviour(pull=3600.0))
    held = job("held", parallelism=3)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    for one in (job(parallelism=2), held):
        await pulls.api.create(IMAGE_PULL_JOBS, one)

    def missing(found: list[Object]) -> str:
        there = [counts(status_of(found, name)) for name in ("pull", "held")]
        return "" if there == [(3, 2, 0, 0), (3, 3, 0, 0)] else f"the jobs count {there}"

    await pulls.until(IMAGE_PULL_JOBS, missing, "both are under way")
    await pulls.api.delete(NAMESPACES, pulls.api.namespace)
    await pulls.until(PODS, lambda found: f"{len(found)} pods" if found else "", "no pods")
    await pulls.until(IMAGE_PULL_JOBS, lambda found: "" if len(found) == 1 else f"{len(found)}", "one job is held")
    await pulls.idle(1.0)
    capsys.readouterr()
    before = len(pulls.journal.writes)
    if pulls.simulation is not None:
        await asyncio.sleep(7200)  # of virtual time
    await pulls.idle()
    assert pulls.journal.writes[before:] == []
    assert "level='error'" not in capsys.readouterr().out
    refused = {write.status for write in pulls.journal.of("pods", failed=True) if write.status >= 400}
    assert refused <= {403, 404, 409}
    await pulls.api.patch(IMAGE_PULL_JOBS, "held", {"metadata": {"finalizers": None}})
