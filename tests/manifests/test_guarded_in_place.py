"""The pod guard on a real API server, and updates in place: what they write is let through, and nothing beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.beds.api import PODS, STRATEGIC_MERGE_PATCH, Api, Object, Refusal
from tests.beds.objects import owner, pod
from tests.manifests.test_guards import NATIVE, OURS, refused

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

GUARD = "kruise-ds-pod-guard"
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


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def in_force(account: Api) -> None:
    await refused(lambda: account.create(PODS, pod("tried"), dryRun="All"), GUARD)


@pytest_asyncio.fixture(loop_scope="module")
async def of_ours(administrator: Api) -> AsyncIterator[None]:
    await _create(administrator, owner(OURS))
    yield
    await _delete(administrator)


async def _create(administrator: Api, *owners: Object) -> None:
    made = pod(NAME, ownerReferences=list(owners))
    made["spec"] |= {"containers": CONTAINERS, "initContainers": [{"name": "init", "image": "busybox"}]}
    await administrator.create(PODS, made)
    status: Object = {"status": {"phase": "Running", "conditions": CONDITIONS}}
    await administrator.patch(PODS, NAME, status, sub="status", content_type=STRATEGIC_MERGE_PATCH)


async def _delete(administrator: Api) -> None:
    await administrator.patch(PODS, NAME, {"metadata": {"finalizers": None}})
    await administrator.delete(PODS, NAME, options={"gracePeriodSeconds": 0})


async def _patch(api: Api, change: tuple[str, Any], **query: str) -> Object:
    """A list is a JSON Patch."""
    sub, patch = change
    kind = "" if isinstance(patch, list) else STRATEGIC_MERGE_PATCH
    return await api.patch(PODS, NAME, patch, sub=sub, content_type=kind, **query)


@pytest.mark.parametrize("what", CHANGED)
async def test_what_an_update_in_place_writes_is_let_through(of_ours: None, account: Api, what: str) -> None:
    before = await account.get(PODS, NAME)
    after = await _patch(account, CHANGED[what])
    assert after != before
    assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]


@pytest.mark.parametrize("what", REFUSED)
async def test_nothing_else_is(of_ours: None, account: Api, administrator: Api, what: str) -> None:
    await _patch(administrator, REFUSED[what], dryRun="All")
    with pytest.raises(Refusal, match=GUARD):
        await _patch(account, REFUSED[what])


async def test_ready_is_closed_and_never_opened(of_ours: None, account: Api, administrator: Api) -> None:
    closed: Object = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    opened: Object = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await _patch(account, ("status", closed))
    with pytest.raises(Refusal, match=GUARD):
        await _patch(account, ("status", opened))


@pytest.mark.parametrize("what", CHANGED)
@pytest.mark.parametrize("whose", ["a native DaemonSet's", "nobody's"])
async def test_nothing_of_it_happens_to_other_pods(account: Api, administrator: Api, whose: str, what: str) -> None:
    await _create(administrator, *([] if whose == "nobody's" else [owner(NATIVE)]))
    try:
        with pytest.raises(Refusal, match=GUARD):
            await _patch(account, CHANGED[what])
    finally:
        await _delete(administrator)


async def test_a_pod_of_another_controller_is_not_taken_over(account: Api, administrator: Api) -> None:
    """Which would be the first of two steps to another image."""
    await _create(administrator, owner(NATIVE))
    try:
        for change in ({"ownerReferences": [owner(OURS)]}, {"labels": {"app": "other"}}):
            with pytest.raises(Refusal, match="may not change a pod that another controller has"):
                await account.patch(PODS, NAME, {"metadata": change})
    finally:
        await _delete(administrator)
