"""The two optional admission policies on a real API server: what they refuse, and what goes on under them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from controller.imagepull.wanted import puller_manifest
from tests.beds.api import CRDS, PODS, STRATEGIC_MERGE_PATCH, Api, Object, Refusal
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
GUARD, PROTECTION = "kruise-ds-pod-guard", "kruise-ds-crd-protection"
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


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def in_force(account: Api) -> None:
    await refused(lambda: account.create(PODS, pod("tried"), dryRun="All"), GUARD)


def with_owners(name: str, *owners: Object) -> Object:
    return pod(name, ownerReferences=list(owners))


async def test_the_controllers_account_starts_no_pod_without_an_owner(account: Api) -> None:
    said = await refused(lambda: account.create(PODS, pod("tried"), dryRun="All"), GUARD)
    assert "only pods whose controller" in said
    for what, owners in {
        "no owner": (),
        "a native DaemonSet": (owner(NATIVE),),
        "ours, but not as the controller": (owner(OURS, controller=False),),
        "another kind of our group": (owner({**OURS, "kind": "CloneSet"}),),
        "a group that only begins like ours": (owner({**OURS, "apiVersion": "apps.kruise.io.example/v1"}),),
    }.items():
        with pytest.raises(Refusal, match=GUARD):
            await account.create(PODS, with_owners("refused", *owners))
        assert await account.find(PODS, "refused") is None, what


async def test_the_controllers_account_starts_pods_of_our_daemonsets(account: Api) -> None:
    for version in ("v1beta1", "v1alpha1"):
        ours = owner({**OURS, "apiVersion": f"apps.kruise.io/{version}"})
        await account.create(PODS, with_owners("tried", ours), dryRun="All")


async def test_the_controllers_account_starts_pullers_that_run_nothing(account: Api, administrator: Api) -> None:
    puller: Object = {**puller_manifest(job(), "node-1")}
    puller["metadata"].pop("namespace")
    await account.create(PODS, puller, dryRun="All")
    (container,) = puller["spec"]["containers"]
    runs: list[Object] = [{"containers": [{**container, "command": ["/bin/sh"]}]}]
    for what in [*runs, {"initContainers": [{**container, "name": "first"}]}]:
        with pytest.raises(Refusal, match=GUARD):
            await account.create(PODS, {**puller, "spec": {**puller["spec"], **what}}, dryRun="All")
    name = puller["metadata"]["name"]
    await administrator.create(PODS, puller)
    with pytest.raises(Refusal, match=GUARD):
        await account.patch(PODS, name, IMAGE)
    await administrator.delete(PODS, name, options={"gracePeriodSeconds": 0})


async def test_others_start_what_they_like(account: Api, administrator: Api) -> None:
    await administrator.create(PODS, pod("tried"), dryRun="All")


async def test_a_rollout_under_the_guard(guarded: ControlPlane, account: Api) -> None:
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
    said = await refused(lambda: administrator.delete(CRDS, CRD, dryRun="All"), PROTECTION)
    assert "kubectl annotate crd daemonsets.apps.kruise.io kruise-ds/allow-delete=true" in said
    for words in (
        ("crd", CRD),
        ("crd", "--all"),
        ("-k", str(MANIFESTS / "crds")),
        ("-k", str(MANIFESTS / "overlays" / "default")),
    ):
        done = await guarded.run_kubectl("delete", "--dry-run=server", *words)
        assert done.returncode == 1, words
        assert PROTECTION in done.stderr, words
    for collection in ({}, {"labelSelector": "app.kubernetes.io/name!=other"}):
        with pytest.raises(Refusal, match=PROTECTION):
            await administrator.delete_all(CRDS, **collection)
    assert await administrator.find(CRDS, CRD) is not None

    done = await guarded.run_kubectl("annotate", "crd", CRD, "kruise-ds/allow-delete=yes")
    assert done.returncode == 0, done.stderr
    with pytest.raises(Refusal, match=PROTECTION):
        await administrator.delete(CRDS, CRD)
    done = await guarded.run_kubectl("annotate", "--overwrite", "crd", CRD, "kruise-ds/allow-delete=true")
    assert done.returncode == 0, done.stderr
    done = await guarded.run_kubectl("delete", "--timeout=30s", "-k", str(MANIFESTS / "crds"))
    assert done.returncode == 0, done.stderr
    assert await administrator.find(CRDS, CRD) is None


NAME = "served"
CONTAINERS: list[Object] = [
    {
        "name": name,
        "image": "busybox",
        "resources": {"requests": {"cpu": "100m", "memory": "16Mi"}, "limits": {"cpu": "1", "memory": "32Mi"}},
    }
    for name in ("main", "side")
]
CONDITIONS: list[Object] = [
    {"type": type_, "status": status, "lastTransitionTime": "2026-11-22T10:00:00Z"}
    for type_, status in (("Ready", "True"), ("ContainersReady", "True"), ("InPlaceUpdateReady", "True"))
]
CHANGED: dict[str, Any] = {
    "an image": ("", {"spec": {"containers": [{"name": "side", "image": "other"}]}}),
    "all images, with labels, annotations and finalizers": (
        "",
        {
            "metadata": {
                "labels": {"ver": "v2"},
                "annotations": {"apps.kruise.io/inplace-update-state": "{}"},
                "finalizers": ["kruise.example/kept"],
            },
            "spec": {"containers": [{"name": name, "image": "other"} for name in ("main", "side")]},
        },
    ),
    "cpu and memory": (
        "resize",
        {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "200m", "memory": "24Mi"}}}]}},
    ),
    "a gate closed, and Ready with it": (
        "status",
        {
            "status": {
                "conditions": [
                    {"type": "InPlaceUpdateReady", "status": "False", "reason": "StartInPlaceUpdate"},
                    {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"},
                ]
            }
        },
    ),
    "a gate that was missing": ("status", {"status": {"conditions": [{"type": "KruisePodReady", "status": "True"}]}}),
}
REFUSED: dict[str, Any] = {
    "a deadline": ("", {"spec": {"activeDeadlineSeconds": 60}}),
    "a toleration": ("", [{"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}]),
    "an init container's image": ("", {"spec": {"initContainers": [{"name": "init", "image": "other"}]}}),
    "the phase": ("status", {"status": {"phase": "Succeeded"}}),
    "a container's status": ("status", {"status": {"containerStatuses": [{"name": "main", "image": "x"}]}}),
    "another condition": ("status", {"status": {"conditions": [{"type": "ContainersReady", "status": "False"}]}}),
    "a condition of others": ("status", {"status": {"conditions": [{"type": "example.com/x", "status": "True"}]}}),
}
"""Each is something that the server itself takes."""


@pytest_asyncio.fixture(loop_scope="module", params=[OURS])
async def served(request: pytest.FixtureRequest, administrator: Api) -> AsyncIterator[None]:
    """A pod that runs; a test may name another owner than ours, or none."""
    made = pod(NAME, ownerReferences=[owner(request.param)] if request.param else [])
    made["spec"] |= {"containers": CONTAINERS, "initContainers": [{"name": "init", "image": "busybox"}]}
    await administrator.create(PODS, made)
    status: Object = {"status": {"phase": "Running", "conditions": CONDITIONS}}
    await administrator.patch(PODS, NAME, status, sub="status", content_type=STRATEGIC_MERGE_PATCH)
    yield
    await administrator.patch(PODS, NAME, {"metadata": {"finalizers": None}})
    await administrator.delete(PODS, NAME, options={"gracePeriodSeconds": 0})


async def _patch(api: Api, change: tuple[str, Any], **query: str) -> Object:
    """A list is a JSON Patch."""
    sub, patch = change
    kind = "" if isinstance(patch, list) else STRATEGIC_MERGE_PATCH
    return await api.patch(PODS, NAME, patch, sub=sub, content_type=kind, **query)


PREPARED: list[Object] = [
    {"op": "add", "path": "/metadata/labels", "value": {"lifecycle.apps.kruise.io/state": "PreparingDelete"}},
    {"op": "add", "path": "/metadata/annotations", "value": {"lifecycle.apps.kruise.io/timestamp": "x"}},
]


@pytest.mark.parametrize("change", [*CHANGED.values(), ("", PREPARED)], ids=[*CHANGED, "a deletion prepared"])
async def test_what_the_controller_writes_to_its_pods_is_let_through(
    served: None, account: Api, change: tuple[str, Any]
) -> None:
    before = await account.get(PODS, NAME)
    after = await _patch(account, change)
    assert after != before
    assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]


@pytest.mark.parametrize("what", REFUSED)
async def test_nothing_else_is(served: None, account: Api, administrator: Api, what: str) -> None:
    await _patch(administrator, REFUSED[what], dryRun="All")
    with pytest.raises(Refusal, match=GUARD):
        await _patch(account, REFUSED[what])


async def test_ready_is_closed_and_never_opened(served: None, account: Api, administrator: Api) -> None:
    closed: Object = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    opened: Object = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await _patch(account, ("status", closed))
    with pytest.raises(Refusal, match=GUARD):
        await _patch(account, ("status", opened))


@pytest.mark.parametrize("what", CHANGED)
@pytest.mark.parametrize("served", [NATIVE, None], indirect=True, ids=["a native DaemonSet's", "nobody's"])
async def test_nothing_of_it_happens_to_other_pods(served: None, account: Api, what: str) -> None:
    with pytest.raises(Refusal, match=GUARD):
        await _patch(account, CHANGED[what])


@pytest.mark.parametrize("served", [None], indirect=True, ids=["nobody's"])
async def test_a_pod_without_an_owner_is_adopted_with_the_image_that_it_has(served: None, account: Api) -> None:
    wanted = {"labels": {"ver": "v1"}, "ownerReferences": [owner(OURS)]}
    with pytest.raises(Refusal, match="may change in the spec of a pod only images"):
        await account.patch(PODS, NAME, IMAGE)
    seen = await account.patch(PODS, NAME, {"metadata": wanted})
    assert {key: seen["metadata"][key] for key in wanted} == wanted


@pytest.mark.parametrize("served", [NATIVE], indirect=True, ids=["a native DaemonSet's"])
@pytest.mark.parametrize("change", [{"ownerReferences": [owner(OURS)]}, {"labels": {"app": "other"}}], ids=str)
async def test_a_pod_of_another_controller_is_not_taken_over(served: None, account: Api, change: Object) -> None:
    """Which would be the first of two steps to another image."""
    with pytest.raises(Refusal, match="may not change a pod that another controller has"):
        await account.patch(PODS, NAME, {"metadata": change})
