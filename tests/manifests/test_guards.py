"""The two optional admission policies on a real API server: what they refuse, and what goes on under them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from controller.imagepull.puller_manifest import body
from tests.beds.api import CRDS, PODS, Api, Object, Refusal
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.process import running
from tests.beds.installed.workspace import bed_on, sample
from tests.beds.manifests import MANIFESTS
from tests.beds.objects import owner, pod
from tests.manifests.conftest import ACCOUNT
from tests.unit.controller.imagepull.worlds import job

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

OURS: Object = {
    "apiVersion": "apps.kruise.io/v1beta1",
    "kind": "DaemonSet",
    "metadata": {"name": "agent", "uid": "6b1f3c1e-9a53-4d57-8c2c-0b8a3c3f4e11"},
}
NATIVE: Object = {**OURS, "apiVersion": "apps/v1"}
CRD = "daemonsets.apps.kruise.io"
IMAGE: list[Object] = [{"op": "replace", "path": "/spec/containers/0/image", "value": "other"}]


async def refused(attempt: Callable[[], Awaitable[object]], policy: str) -> str:
    """Try until this policy refuses, for it is in force only some moments after it was stored; gives its words."""
    async with asyncio.timeout(30):
        while True:
            try:
                await attempt()
            except Refusal as refusal:
                if policy not in str(refusal):
                    raise
                return str(refusal)
            await asyncio.sleep(0.1)  # nothing tells when it is


def with_owners(name: str, *owners: Object) -> Object:
    return pod(name, ownerReferences=list(owners))


async def test_the_controllers_account_starts_no_pod_that_nobody_owns(account: Api) -> None:
    said = await refused(lambda: account.create(PODS, pod("tried"), dryRun="All"), "kruise-ds-pod-guard")
    assert "only pods whose controller" in said
    for what, owners in {
        "no owner": (),
        "a native DaemonSet": (owner(NATIVE),),
        "ours, but not as the controller": (owner(OURS, controller=False),),
        "another kind of our group": (owner({**OURS, "kind": "CloneSet"}),),
        "a group that only begins like ours": (owner({**OURS, "apiVersion": "apps.kruise.io.example/v1"}),),
    }.items():
        with pytest.raises(Refusal, match="kruise-ds-pod-guard"):
            await account.create(PODS, with_owners("refused", *owners))
        assert await account.find(PODS, "refused") is None, what


async def test_the_controllers_account_starts_pods_of_our_daemonsets(account: Api) -> None:
    for version in ("v1beta1", "v1alpha1"):
        ours = owner({**OURS, "apiVersion": f"apps.kruise.io/{version}"})
        await account.create(PODS, with_owners("tried", ours), dryRun="All")


async def test_the_controllers_account_starts_pullers_that_run_nothing(account: Api, administrator: Api) -> None:
    await refused(lambda: account.create(PODS, pod("tried"), dryRun="All"), "kruise-ds-pod-guard")
    puller: Object = {**body(job(), "node-1")}
    puller["metadata"].pop("namespace")
    await account.create(PODS, puller, dryRun="All")
    (container,) = puller["spec"]["containers"]
    runs: list[Object] = [{"containers": [{**container, "command": ["/bin/sh"]}]}]
    for what in [*runs, {"initContainers": [{**container, "name": "first"}]}]:
        with pytest.raises(Refusal, match="kruise-ds-pod-guard"):
            await account.create(PODS, {**puller, "spec": {**puller["spec"], **what}}, dryRun="All")
    name = puller["metadata"]["name"]
    await administrator.create(PODS, puller)
    with pytest.raises(Refusal, match="kruise-ds-pod-guard"):
        await account.patch(PODS, name, IMAGE)
    await administrator.delete(PODS, name, options={"gracePeriodSeconds": 0})


async def test_the_controllers_account_changes_labels_and_owners_but_no_image(
    account: Api, administrator: Api
) -> None:
    """Of a pod that nobody controls."""
    await administrator.create(PODS, pod("running"))
    said = await refused(lambda: account.patch(PODS, "running", IMAGE, dryRun="All"), "kruise-ds-pod-guard")
    assert "may change in the spec of a pod only images" in said
    with pytest.raises(Refusal, match="kruise-ds-pod-guard"):
        await account.patch(PODS, "running", IMAGE)
    with pytest.raises(Refusal, match="kruise-ds-pod-guard"):
        await account.patch(PODS, "running", {"spec": {"activeDeadlineSeconds": 1}})
    wanted = {"labels": {"ver": "v1"}, "ownerReferences": [owner(OURS)]}
    await account.patch(PODS, "running", {"metadata": wanted})
    seen = await account.get(PODS, "running")
    assert seen["spec"]["containers"][0]["image"] == "busybox"
    assert {key: seen["metadata"][key] for key in wanted} == wanted
    await administrator.patch(PODS, "running", IMAGE)
    await administrator.delete(PODS, "running", options={"gracePeriodSeconds": 0})


async def test_the_controllers_account_prepares_a_pod_for_its_deletion(account: Api, administrator: Api) -> None:
    """State, its time, and on the status the readiness gate."""
    ours = [owner({**OURS, "apiVersion": "apps.kruise.io/v1beta1"})]
    await administrator.create(PODS, pod("leaving", labels={"a": "b"}, annotations={"a": "b"}, ownerReferences=ours))
    state, since = "lifecycle.apps.kruise.io~1state", "lifecycle.apps.kruise.io~1timestamp"
    prepared: list[Object] = [
        {"op": "add", "path": f"/metadata/labels/{state}", "value": "PreparingDelete"},
        {"op": "add", "path": f"/metadata/annotations/{since}", "value": "2026-11-22T10:00:00Z"},
    ]
    await account.patch(PODS, "leaving", prepared)
    closed = {"type": "KruisePodReady", "status": "False", "message": "[]"}
    condition: list[Object] = [{"op": "add", "path": "/status/conditions", "value": [closed]}]
    await account.patch(PODS, "leaving", condition, sub="status")
    seen = await account.get(PODS, "leaving")
    assert seen["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] == "PreparingDelete"
    assert "KruisePodReady" in [one["type"] for one in seen["status"]["conditions"]]
    await administrator.delete(PODS, "leaving", options={"gracePeriodSeconds": 0})


async def test_others_start_what_they_like(account: Api, administrator: Api) -> None:
    await refused(lambda: account.create(PODS, pod("tried"), dryRun="All"), "kruise-ds-pod-guard")
    await administrator.create(PODS, pod("tried"), dryRun="All")


async def test_a_rollout_under_the_guard(guarded: ControlPlane, account: Api) -> None:
    await refused(lambda: account.create(PODS, pod("tried"), dryRun="All"), "kruise-ds-pod-guard")
    nodes = ("guarded-1", "guarded-2", "guarded-3")
    async with bed_on(guarded) as bed, running(guarded.folder, guarded.kubeconfig_for(ACCOUNT)) as controller:
        await bed.workers(*nodes)
        demo = sample("ds.demo.yaml")
        await bed.apply(demo)
        first = await bed.serves(*nodes)
        demo["spec"]["template"]["metadata"]["labels"]["ver"] = "v2"
        await bed.apply(demo)
        second = await bed.serves(*nodes, labels={"ver": "v2"})
        for node in nodes:
            assert second[node]["metadata"]["uid"] != first[node]["metadata"]["uid"], node
        assert [line for line in controller.lines if "pod-guard" in str(line)] == []


async def test_the_crd_goes_only_on_purpose(guarded: ControlPlane, administrator: Api) -> None:
    """The last test: afterwards the kind is gone."""
    said = await refused(lambda: administrator.delete(CRDS, CRD, dryRun="All"), "kruise-ds-crd-protection")
    assert "kubectl annotate crd daemonsets.apps.kruise.io kruise-ds/allow-delete=true" in said
    for words in (
        ("crd", CRD),
        ("crd", "--all"),
        ("-k", str(MANIFESTS / "crds")),
        ("-k", str(MANIFESTS / "overlays" / "default")),
    ):
        done = await guarded.run_kubectl("delete", "--dry-run=server", *words)
        assert done.returncode == 1, words
        assert "kruise-ds-crd-protection" in done.stderr, words
    for collection in ({}, {"labelSelector": "app.kubernetes.io/name!=other"}):
        with pytest.raises(Refusal, match="kruise-ds-crd-protection"):
            await administrator.delete_all(CRDS, **collection)
    assert await administrator.find(CRDS, CRD) is not None

    done = await guarded.run_kubectl("annotate", "crd", CRD, "kruise-ds/allow-delete=yes")
    assert done.returncode == 0, done.stderr
    with pytest.raises(Refusal, match="kruise-ds-crd-protection"):
        await administrator.delete(CRDS, CRD)
    done = await guarded.run_kubectl("annotate", "--overwrite", "crd", CRD, "kruise-ds/allow-delete=true")
    assert done.returncode == 0, done.stderr
    done = await guarded.run_kubectl("delete", "--timeout=30s", "-k", str(MANIFESTS / "crds"))
    assert done.returncode == 0, done.stderr
    assert await administrator.find(CRDS, CRD) is None
