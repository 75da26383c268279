"""Taking the controller away and bringing it back touches no pod; taking the CRD away takes all (docs/upgrade.md)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.beds.api import DAEMONSETS, NAMESPACES, PODS, REVISIONS, Object
from tests.beds.audit import NAMESPACE
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.witness import witnessing
from tests.beds.installed.workspace import sample
from tests.beds.nodes import Behaviour
from tests.beds.objects import garbage_collector_knows
from tests.e2e.site import Site, free_lease, site_on

pytestmark = pytest.mark.real

NODES = tuple(f"left-{number}" for number in range(5))
HALF_WAY = "left-2"
"""The third in the order of updates."""


@asynccontextmanager
async def demo_on(plane: ControlPlane) -> AsyncIterator[Site]:
    """A cluster with a controller, and the demo DaemonSet on its nodes."""
    async with site_on(plane) as site:
        await site.follow("Install")
        await site.workers(*NODES)
        await site.bed.apply_sample("ds.demo.yaml")
        yield site


async def test_uninstalled_and_installed_again_a_rollout_goes_on(
    site_plane: ControlPlane,
) -> None:
    async with demo_on(site_plane) as site:
        bed = site.bed
        await bed.serves(*NODES)
        await bed.settled(len(NODES))
        bed.nodes.behave("*", Behaviour(ready=0.5))
        bed.nodes.behave(HALF_WAY, Behaviour(ready=None))  # it gets no further, however long the commands take
        demo = sample("ds.demo.yaml")
        demo["spec"]["template"]["metadata"]["labels"]["ver"] = "v2"
        async with witnessing(bed.api) as witness:
            await bed.apply(demo)
            await witness.until(lambda: len(witness.ever) == len(NODES) + 3, "the third new pod is made")
            await site.follow("Uninstall")
            bed.nodes.behave(HALF_WAY)
            assert await bed.api.find(NAMESPACES, NAMESPACE) is None
            left = await bed.serves(*NODES)
            before = await site.pods()
            assert {pod["metadata"]["labels"].get("ver") for pod in left.values()} == {None, "v2"}, "half way"
            assert "demo" in await bed.kubectl("get", "ads"), "the kind is still there, and its objects"
            await witness.up_to_date()
            assert len(witness.ever) == len(NODES) + len(witness.retired), "each pod that went has its successor"

            retired = set(witness.retired.values())
            await free_lease(site.plane)
            await site.follow("Install")
            await bed.serves(*NODES, labels={"ver": "v2"})
            await bed.settled(len(NODES))
            after = await site.pods()
            assert {node: after[node] for node in retired} == {node: before[node] for node in retired}
            await witness.up_to_date()
            assert len(witness.ever) == 2 * len(NODES), "each node was updated once"


def another(name: str) -> Object:
    """The demo under another name, with pods of its own."""
    found = sample("ds.demo.yaml")
    found["metadata"]["name"] = name
    found["spec"]["selector"]["matchLabels"] = found["spec"]["template"]["metadata"]["labels"] = {"app": name}
    return found


async def test_without_the_crd_only_orphans_are_left_and_adopted_later(
    site_plane: ControlPlane,
) -> None:
    async with demo_on(site_plane) as site:
        bed = site.bed
        await bed.apply(another("kept"))
        await bed.api.wait_for(PODS, lambda pods: len(pods) == 2 * len(NODES), "two pods on each node")
        await bed.settled(len(NODES))
        await bed.settled(len(NODES), "kept")
        await garbage_collector_knows(bed.api, PODS, REVISIONS)
        await bed.kubectl("delete", "ads", "kept", "--cascade=orphan")
        await site.follow("Remove everything")
        orphans = await bed.api.wait_for(
            PODS, lambda pods: len(pods) == len(NODES), "the pods of one are gone", seconds=90.0
        )
        assert all(not pod["metadata"].get("ownerReferences") for pod in orphans), "those of the other have no owner"
        kept = {pod["metadata"]["uid"] for pod in orphans}
        await site.follow("Install")
        await site.new_kinds_are_seen()
        assert await bed.api.list(DAEMONSETS) == []
        await bed.apply(another("kept"))
        await bed.settled(len(NODES), "kept")
        assert {pod["metadata"]["uid"] for pod in await bed.pods()} == kept, "taken over"
        (revision,) = await bed.api.wait_for(REVISIONS, lambda found: len(found) == 1, "that of the other is gone")
        assert revision["revision"] == 1
