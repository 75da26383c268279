"""Rollouts that wait on each node for the image that goes ahead of them (virtual time)."""

from __future__ import annotations

import asyncio

import pytest

from controller.imagepull.plan import FAILED_NODES_KEPT
from tests.beds.api import DAEMONSETS, EVENTS, IMAGE_PULL_JOBS, PODS, Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, V3, daemonset, image_of, is_ready, node_of, stays
from tests.system.in_place import in_place, restarts, runs, with_grace
from tests.system.monitor import monitoring
from tests.system.pulls import restart

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


async def test_an_edit_while_a_pod_is_restarted_whose_image_is_missing(pulls: Bed) -> None:
    """The restart comes to its end, and the pod serves with the image of the edit before."""
    await pulls.add_nodes(2)
    pulls.nodes.behave("*", Behaviour(terminate=20.0))
    await pulls.deploy(in_place())
    await pulls.set_image(V2)
    await pulls.status(available=1)
    pulls.nodes.behave("*", Behaviour(terminate=20.0, pulls={V3: 40.0}, missing_images=(V3,)))
    await pulls.set_image(V3)
    await asyncio.sleep(300)
    pods = await pulls.pods()
    assert all(is_ready(pod) for pod in pods.values())
    assert sorted(restarts(pod) for pod in pods.values()) == [0, 1], "V2 runs on one node, and V1 on the other"
