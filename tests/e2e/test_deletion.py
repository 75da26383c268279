"""Ways to delete a DaemonSet, and who cleans up after each: the garbage collector, or the next DaemonSet."""

from __future__ import annotations

import pytest

from tests.beds.api import DAEMONSETS, PODS, REVISIONS
from tests.beds.garbage import garbage_collector_knows
from tests.beds.installed.bed import Workspace, sample
from tests.beds.nodes import Behaviour

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller")]

NODES = ("left", "middle", "right")


async def deployed(bed: Workspace) -> dict[str, str]:
    """A demo on all nodes, of which the garbage collector knows all; node -> uid of its pod."""
    await bed.workers(*NODES)
    await bed.apply_sample("ds.demo.yaml")
    pods = await bed.serves(*NODES)
    await bed.settled(3)
    await garbage_collector_knows(bed.api, PODS, REVISIONS)
    return {node: pod["metadata"]["uid"] for node, pod in pods.items()}


async def test_deleting_takes_the_pods_and_the_history_along(bed: Workspace) -> None:
    await deployed(bed)
    said = await bed.kubectl("delete", "ads", "demo")
    assert said.startswith('daemonset.apps.kruise.io "demo" deleted')
    await bed.serves()
    await bed.api.wait_for(REVISIONS, lambda found: not found, "no revision is left")


async def test_foreground_deletion_waits_for_the_pods_and_makes_no_new_ones(bed: Workspace) -> None:
    before = await deployed(bed)
    for node in NODES:
        bed.nodes.behave(node, Behaviour(terminate=None))
    await bed.kubectl("delete", "ads", "demo", "--cascade=foreground", "--wait=false")
    dying = await bed.api.wait_for(
        PODS, lambda pods: all(pod["metadata"].get("deletionTimestamp") for pod in pods), "all pods are told to go"
    )
    assert {pod["metadata"]["uid"] for pod in dying} == {*before.values()}
    assert (await bed.api.get(DAEMONSETS, "demo"))["metadata"]["deletionTimestamp"]
    bed.nodes.behave("middle")
    await bed.api.wait_for(PODS, lambda pods: len(pods) == 2, "the pod on middle is gone, and none takes its place")
    for node in NODES:
        bed.nodes.behave(node)
    await bed.kubectl("wait", "--for=delete", "ads/demo", "--timeout=30s")
    assert await bed.pods() == []


async def test_orphans_are_adopted_without_a_restart_by_the_next_one_with_the_same_selector(bed: Workspace) -> None:
    before = await deployed(bed)
    await bed.kubectl("delete", "ads", "demo", "--cascade=orphan")
    left = await bed.serves(*NODES)
    assert {node: pod["metadata"]["uid"] for node, pod in left.items()} == before
    assert not any(pod["metadata"].get("ownerReferences") for pod in left.values())
    renamed = sample("ds.demo.yaml")
    renamed["metadata"]["name"] = "heir"
    await bed.apply(renamed)
    await bed.settled(3, "heir")
    after = await bed.serves(*NODES)
    assert {node: pod["metadata"]["uid"] for node, pod in after.items()} == before, "the very same pods"
    owners = {pod["metadata"]["ownerReferences"][0]["name"] for pod in after.values()}
    assert owners == {"heir"}
    revisions = await bed.api.list(REVISIONS)
    assert [one["metadata"]["ownerReferences"][0]["name"] for one in revisions] == ["heir"]


async def test_orphans_of_another_template_are_adopted_and_then_updated_within_the_budget(bed: Workspace) -> None:
    before = await deployed(bed)
    await bed.kubectl("delete", "ads", "demo", "--cascade=orphan")
    changed = sample("ds.demo.yaml")
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "busybox:2"
    changed["spec"]["updateStrategy"] = {"rollingUpdate": {"partition": 2}}
    await bed.apply(changed)
    await bed.status(currentNumberScheduled=3, numberAvailable=3, updatedNumberScheduled=1)
    after = {node: pod["metadata"]["uid"] for node, pod in (await bed.serves(*NODES)).items()}
    assert {node for node in NODES if after[node] != before[node]} == {"right"}, "the last in the order of names"
