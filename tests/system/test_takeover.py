"""Taking over what others left behind: the native controller's pods without a restart."""

from __future__ import annotations

import copy

import pytest

from tests.beds.api import PODS, REVISIONS, Object, Resource
from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.controller.bed import Bed, uids
from tests.beds.objects import V2, condition, controller_of, daemonset, garbage_collector_knows

pytestmark = pytest.mark.real

NATIVE = Resource("/apis/apps/v1", "daemonsets", "DaemonSet")
NATIVE_CONTROLLER = "kube-controller-manager-daemonset"


async def native_daemonset(bed: Bed, plane: ControlPlane, manifest: Object) -> Object:
    """Let the native controller deploy it and then leave its pods as orphans. Returns it as it was last."""
    process = await plane.start_controller_manager(["daemonset-controller"], name=NATIVE_CONTROLLER)
    try:
        await bed.api.create(NATIVE, manifest)

        def missing(found: list[Object]) -> str:
            status = found[0].get("status") or {}
            return "" if status.get("numberAvailable") == 3 else f"the native DaemonSet has {status}"

        (native,) = await bed.until(NATIVE, missing, "three pods available of the native DaemonSet")
    finally:
        await process.stop()
    await garbage_collector_knows(bed.api, PODS, REVISIONS)
    await bed.api.delete(NATIVE, "agent", options={"propagationPolicy": "Orphan"})
    await bed.until(NATIVE, lambda found: "still there" if found else "", "the native DaemonSet gone")
    return native


def exported(native: Object) -> Object:
    """As `kubectl get -o yaml` gives it, apiVersion swapped."""
    metadata = {key: native["metadata"][key] for key in ("name", "labels", "annotations")}
    return {"metadata": metadata, "spec": copy.deepcopy(native["spec"])}


@pytest.mark.parametrize("form", ["hand-written", "exported"])
async def test_the_pods_of_a_native_daemonset_are_adopted_and_none_restarts(
    real_bed: Bed, complete_binaries: Binaries, plane: ControlPlane, form: str
) -> None:
    bed = real_bed
    nodes = await bed.add_nodes(3)
    written = daemonset(
        pod={"containers": [{"name": "agent", "image": "nginx", "resources": {"limits": {"cpu": "1000m"}}}]}
    )
    native = await native_daemonset(bed, plane, copy.deepcopy(written))
    left = {pod["spec"]["nodeName"]: pod for pod in await bed.api.list(PODS)}
    assert sorted(left) == nodes
    assert [controller_of(pod) for pod in left.values()] == [{}, {}, {}]

    await bed.deploy(written if form == "hand-written" else exported(native))
    after = await bed.runs_on(*nodes)
    assert uids(after) == uids(left)
    assert all(condition(pod, "Ready") == condition(left[node], "Ready") for node, pod in after.items())
    found = await bed.status(desired=3, updated=3, available=3)
    (revision,) = await bed.revisions()
    assert controller_of(revision)["apiVersion"] == "apps.kruise.io/v1beta1"
    hash_ = revision["metadata"]["labels"]["controller-revision-hash"]
    assert found["status"]["updateRevision"] == hash_, "the revision of the native controller is used on"
    assert {pod["metadata"]["labels"]["controller-revision-hash"] for pod in after.values()} == {hash_}

    await bed.update(V2)
    await bed.runs_on(*nodes, image=V2)
    assert bed.journal.deleted == ["node-2", "node-1", "node-0"]


async def test_a_native_daemonset_of_the_same_name_is_a_stranger(
    real_bed: Bed, complete_binaries: Binaries, plane: ControlPlane
) -> None:
    bed = real_bed
    await bed.add_nodes(2)
    process = await plane.start_controller_manager(["daemonset-controller"], name=NATIVE_CONTROLLER)
    try:
        await bed.deploy(daemonset())
        native = daemonset("native")
        native["metadata"]["name"] = "agent"
        await bed.api.create(NATIVE, native)
        await bed.until(PODS, lambda found: "" if len(found) == 4 else f"{len(found)} pods", "two pods of each")
        await bed.idle()
        assert bed.journal.work == []
        assert sorted(await bed.pods()) == ["node-0", "node-1"]
        theirs = [pod for pod in await bed.api.list(PODS) if controller_of(pod)["apiVersion"] == "apps/v1"]
        await bed.api.delete(PODS, theirs[0]["metadata"]["name"])
        await bed.idle()
        assert bed.journal.work == []
    finally:
        await process.stop()
        await bed.api.delete(NATIVE, "agent", options={"propagationPolicy": "Background"})
