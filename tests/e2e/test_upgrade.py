"""Another version of CRD and controller in mid-rollout, and the controller or CRD taken away: docs/upgrade.md."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.beds.api import DAEMONSETS, NAMESPACES, PODS, REVISIONS, Object
from tests.beds.audit import NAMESPACE, Audit
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.witness import witnessing
from tests.beds.installed.workspace import sample
from tests.beds.nodes import Behaviour
from tests.beds.objects import garbage_collector_knows
from tests.e2e.conftest import ACCOUNT
from tests.e2e.guide import HERE
from tests.e2e.site import Site, free_lease, release, site_on

pytestmark = pytest.mark.real

NODES = tuple(f"up-{number}" for number in range(6))
KEPT = NODES[:2]
"""The partition keeps these on the old version: the last in the order of updates."""
CRD_FILE = Path("manifests/crds/daemonsets.apps.kruise.io.yaml")


def newer(folder: Path) -> Path:
    """A release whose CRD has one more field in spec and status."""
    release(folder, "v0.1.1")
    return _with_crd(folder, lambda fields: fields.update(fromTheFuture={"type": "string"}))


def older(folder: Path) -> Path:
    """A CRD that lacks a field of the status which today's controller writes."""
    return _with_crd(release(folder, "v0.0.9"), lambda fields: fields.pop("columns", None))


def _with_crd(folder: Path, change: Any) -> Path:
    document = yaml.safe_load((folder / CRD_FILE).read_text())
    for version in document["spec"]["versions"]:
        root = version["schema"]["openAPIV3Schema"]["properties"]
        change(root["status"]["properties"])
        if "fromTheFuture" in root["status"]["properties"]:
            root["spec"]["properties"]["fromTheFuture"] = {"type": "string"}
    (folder / CRD_FILE).write_text(yaml.safe_dump(yaml.safe_load(yaml.safe_dump(document)), sort_keys=False))
    return folder


async def deployed(site: Site) -> Object:
    """The demo on all nodes, which take a moment for a new pod from then on. Returns it, its partition set."""
    demo = sample("ds.demo.yaml")
    demo["spec"]["updateStrategy"] = {"rollingUpdate": {"partition": len(KEPT)}}
    await site.bed.apply(demo)
    await site.bed.serves(*NODES)
    await site.bed.settled(len(NODES))
    site.bed.nodes.behave("*", Behaviour(ready=0.7))
    return demo


async def test_crd_and_controller_change_in_mid_rollout_and_back_again(
    site_plane: ControlPlane, tmp_path: Path
) -> None:
    async with site_on(site_plane) as site:
        bed = site.bed
        await site.follow("Install")
        await site.workers(*NODES)
        demo = await deployed(site)
        before = await site.pods()
        async with witnessing(bed.api) as witness:
            witness.floor = len(NODES) - 1
            demo["spec"]["template"]["metadata"]["labels"]["ver"] = "v2"
            await bed.apply(demo)
            await witness.until(lambda: len(witness.retired) >= 1, "the update has begun")
            await site.follow("Upgrade", newer(tmp_path / "newer"))
            assert await site.versions() == {"v0.1.1"}
            await bed.status(updatedNumberScheduled=4, numberAvailable=6)
            await witness.up_to_date()
            assert len(witness.ever) == len(NODES) + 4, "each node was updated once, and no other pod was made"

            await from_the_future(site)
            demo["spec"]["template"]["metadata"]["labels"]["ver"] = "v3"
            await bed.apply(demo)
            await witness.until(lambda: len(witness.retired) >= 5, "the next update has begun")
            await site.follow("Downgrade")
            assert await site.versions() == {"v0.1.0"}
            await bed.status(updatedNumberScheduled=4, numberAvailable=6)
            await witness.up_to_date()
            assert len(witness.ever) == len(NODES) + 8, "again each node once"
        after = await site.pods()
        assert {node: after[node] for node in KEPT} == {node: before[node] for node in KEPT}
        await stays_from_the_future(site)


async def from_the_future(site: Site) -> None:
    """What a newer version may have written: a field of the status, a condition, an annotation, a label."""
    condition = {"type": "FromTheFuture", "status": "True", "reason": "Told", "message": "", "observedGeneration": 1}
    condition["lastTransitionTime"] = "2025-11-20T12:04:10Z"
    operations = [
        {"op": "add", "path": "/status/fromTheFuture", "value": "kept"},
        {"op": "add", "path": "/status/conditions/-", "value": condition},
    ]
    await site.bed.api.patch(DAEMONSETS, "demo", operations, sub="status")
    note = {"metadata": {"annotations": {"kruise-ds/from-the-future": "kept"}}}
    await site.bed.api.patch(DAEMONSETS, "demo", note)
    for revision in await site.bed.api.list(REVISIONS):
        label = {"metadata": {"labels": {"kruise-ds/from-the-future": "kept"}}}
        await site.bed.api.patch(REVISIONS, revision["metadata"]["name"], label)


async def stays_from_the_future(site: Site) -> None:
    demo = await site.bed.api.get(DAEMONSETS, "demo")
    assert demo["status"]["fromTheFuture"] == "kept"
    assert "FromTheFuture" in [one["type"] for one in demo["status"]["conditions"]]
    assert demo["metadata"]["annotations"]["kruise-ds/from-the-future"] == "kept"


async def test_a_controller_that_is_newer_than_the_crd_works(site_plane: ControlPlane, tmp_path: Path) -> None:
    async with site_on(site_plane) as site:
        bed = site.bed
        await site.sh("kubectl apply --server-side -k manifests/crds", older(tmp_path / "older"))
        await site.follow("Downgrade")  # the same commands bring a newer controller: the CRD stays
        await site.workers(*NODES)
        await deployed(site)
        assert "columns" not in await bed.settled(len(NODES))
        audit = Audit(site_plane, ACCOUNT)
        for round_ in range(3):  # each of these wakes it, and none asks for anything
            await bed.kubectl("annotate", "ads", "demo", "--overwrite", f"looked={round_}")
        await site.stopped()
        assert len(audit.writes("daemonsets/status")) <= 2 * 3, "what the server drops is offered once a look"
        await site.follow("Upgrade", HERE)
        await bed.status(
            columns={"nodeSelector": "<none>", "containers": "demo", "images": "busybox", "selector": "app=demo"}
        )


LEFT = tuple(f"left-{number}" for number in range(5))
HALF_WAY = "left-2"
"""The third in the order of updates."""


@asynccontextmanager
async def demo_on(plane: ControlPlane) -> AsyncIterator[Site]:
    """A cluster with a controller, and the demo DaemonSet on its nodes."""
    async with site_on(plane) as site:
        await site.follow("Install")
        await site.workers(*LEFT)
        await site.bed.apply_sample("ds.demo.yaml")
        yield site


async def test_uninstalled_and_installed_again_a_rollout_goes_on(
    site_plane: ControlPlane,
) -> None:
    async with demo_on(site_plane) as site:
        bed = site.bed
        await bed.serves(*LEFT)
        await bed.settled(len(LEFT))
        bed.nodes.behave("*", Behaviour(ready=0.5))
        bed.nodes.behave(HALF_WAY, Behaviour(ready=None))  # it gets no further, however long the commands take
        demo = sample("ds.demo.yaml")
        demo["spec"]["template"]["metadata"]["labels"]["ver"] = "v2"
        async with witnessing(bed.api) as witness:
            await bed.apply(demo)
            await witness.until(lambda: len(witness.ever) == len(LEFT) + 3, "the third new pod is made")
            await site.follow("Uninstall")
            bed.nodes.behave(HALF_WAY)
            assert await bed.api.find(NAMESPACES, NAMESPACE) is None
            left = await bed.serves(*LEFT)
            before = await site.pods()
            assert {pod["metadata"]["labels"].get("ver") for pod in left.values()} == {None, "v2"}, "half way"
            assert "demo" in await bed.kubectl("get", "ads"), "the kind is still there, and its objects"
            await witness.up_to_date()
            assert len(witness.ever) == len(LEFT) + len(witness.retired), "each pod that went has its successor"

            retired = set(witness.retired.values())
            await free_lease(site.plane)
            await site.follow("Install")
            await bed.serves(*LEFT, labels={"ver": "v2"})
            await bed.settled(len(LEFT))
            after = await site.pods()
            assert {node: after[node] for node in retired} == {node: before[node] for node in retired}
            await witness.up_to_date()
            assert len(witness.ever) == 2 * len(LEFT), "each node was updated once"


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
        await bed.api.wait_for(PODS, lambda pods: len(pods) == 2 * len(LEFT), "two pods on each node")
        await bed.settled(len(LEFT))
        await bed.settled(len(LEFT), "kept")
        await garbage_collector_knows(bed.api, PODS, REVISIONS)
        await bed.kubectl("delete", "ads", "kept", "--cascade=orphan")
        await site.follow("Remove everything")
        orphans = await bed.api.wait_for(
            PODS, lambda pods: len(pods) == len(LEFT), "the pods of one are gone", seconds=90.0
        )
        assert all(not pod["metadata"].get("ownerReferences") for pod in orphans), "those of the other have no owner"
        kept = {pod["metadata"]["uid"] for pod in orphans}
        await site.follow("Install")
        await site.new_kinds_are_seen()
        assert await bed.api.list(DAEMONSETS) == []
        await bed.apply(another("kept"))
        await bed.settled(len(LEFT), "kept")
        assert {pod["metadata"]["uid"] for pod in await bed.pods()} == kept, "taken over"
        (revision,) = await bed.api.wait_for(REVISIONS, lambda found: len(found) == 1, "that of the other is gone")
        assert revision["revision"] == 1
