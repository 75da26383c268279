"""A DaemonSet that is deleted without its pods: the next one that selects them takes them over, without a restart."""

from __future__ import annotations

import pytest

from tests.beds.api import PODS, REVISIONS
from tests.beds.garbage import garbage_collector_knows
from tests.beds.installed.workspace import Workspace, sample

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
