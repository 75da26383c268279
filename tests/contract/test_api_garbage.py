"""Owners and what they own: background, foreground and orphaning deletes."""

from __future__ import annotations

from tests.beds.api import CONFIGMAPS, DAEMONSETS, PODS, REVISIONS, Object, Resource
from tests.beds.objects import NO_UID, configmap, demo, names, owner, pod
from tests.contract.bed import ApiServer


async def family(bed: ApiServer) -> Object:
    """A DaemonSet with two pods on a node, one without, and a revision."""
    head = await bed.api.create(DAEMONSETS, demo())
    for name in ("one", "two"):
        await bed.api.create(PODS, pod(name, on=bed.nowhere, ownerReferences=[owner(head)]))
    await bed.api.create(PODS, pod("free", ownerReferences=[owner(head)]))
    revision = {"metadata": {"name": "demo-1", "ownerReferences": [owner(head)]}, "revision": 1, "data": {}}
    await bed.api.create(REVISIONS, revision)
    await bed.garbage_collector_knows(PODS, REVISIONS)
    return head


async def gone(bed: ApiServer, resource: Resource, name: str) -> None:
    await bed.api.wait_for(resource, lambda found: name not in names(found), f"{name} is gone")


async def terminating(bed: ApiServer, *expected: str) -> list[Object]:
    def are_terminating(found: list[Object]) -> bool:
        return sorted(item["metadata"]["name"] for item in found) == sorted(expected) and all(
            item["metadata"].get("deletionTimestamp") for item in found
        )

    return await bed.api.wait_for(PODS, are_terminating, f"only {expected} are there, and terminating")


async def test_background_the_owner_goes_first_and_its_pods_gracefully(bed: ApiServer) -> None:
    await bed.needs_garbage_collector()
    await family(bed)
    await bed.api.delete(DAEMONSETS, "demo", options={"propagationPolicy": "Background"})
    assert await bed.api.find(DAEMONSETS, "demo") is None
    found = await terminating(bed, "one", "two")
    assert {item["metadata"]["deletionGracePeriodSeconds"] for item in found} == {30}
    await gone(bed, REVISIONS, "demo-1")


async def test_foreground_the_owner_goes_last(bed: ApiServer) -> None:
    await bed.needs_garbage_collector()
    await family(bed)
    head = await bed.api.delete(DAEMONSETS, "demo", options={"propagationPolicy": "Foreground"})
    assert head["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert head["metadata"]["deletionTimestamp"]
    await terminating(bed, "one", "two")
    assert await bed.api.find(DAEMONSETS, "demo") is not None
    for name in ("one", "two"):
        await bed.api.delete(PODS, name, options={"gracePeriodSeconds": 0})
    await gone(bed, DAEMONSETS, "demo")


async def test_foreground_does_not_wait_for_what_does_not_block(bed: ApiServer) -> None:
    await bed.needs_garbage_collector()
    head = await bed.api.create(DAEMONSETS, demo())
    await bed.api.create(PODS, pod("one", on=bed.nowhere, ownerReferences=[owner(head, block=False)]))
    await bed.api.delete(DAEMONSETS, "demo", options={"propagationPolicy": "Foreground"})
    await gone(bed, DAEMONSETS, "demo")
    await terminating(bed, "one")


async def test_orphan_lets_the_pods_live(bed: ApiServer) -> None:
    await bed.needs_garbage_collector()
    await family(bed)
    head = await bed.api.delete(DAEMONSETS, "demo", options={"propagationPolicy": "Orphan"})
    assert head["metadata"]["finalizers"] == ["orphan"]
    await gone(bed, DAEMONSETS, "demo")
    found = await bed.api.list(PODS)
    assert names(found) == ["free", "one", "two"]
    assert not any(item["metadata"].get("ownerReferences") for item in found)
    assert not any(item["metadata"].get("deletionTimestamp") for item in found)
    (revision,) = await bed.api.list(REVISIONS)
    assert "ownerReferences" not in revision["metadata"]


async def test_a_pod_of_an_owner_that_never_was_is_garbage(bed: ApiServer) -> None:
    await bed.needs_garbage_collector()
    head = await bed.api.create(DAEMONSETS, demo())
    reference = owner(head) | {"uid": NO_UID}
    await bed.api.create(PODS, pod("one", ownerReferences=[reference]))
    await gone(bed, PODS, "one")


async def test_one_living_owner_keeps_an_object_and_the_dead_one_is_forgotten(bed: ApiServer) -> None:
    await bed.needs_garbage_collector()
    first = await bed.api.create(CONFIGMAPS, configmap("first"))
    second = await bed.api.create(CONFIGMAPS, configmap("second"))
    references = [owner(first), owner(second, controller=False)]
    await bed.api.create(CONFIGMAPS, configmap("child", ownerReferences=references))
    await bed.api.delete(CONFIGMAPS, "first")

    def is_kept(found: list[Object]) -> bool:
        return any(
            item["metadata"]["name"] == "child"
            and [reference["name"] for reference in item["metadata"].get("ownerReferences") or []] == ["second"]
            for item in found
        )

    await bed.api.wait_for(CONFIGMAPS, is_kept, "child has one owner left")


async def test_an_owner_in_another_namespace_is_no_owner(bed: ApiServer) -> None:
    await bed.needs_garbage_collector()
    foreign = await bed.api.create(CONFIGMAPS, configmap(bed.name, namespace="default"))
    await bed.api.create(CONFIGMAPS, configmap("child", ownerReferences=[owner(foreign)]))
    await gone(bed, CONFIGMAPS, "child")
    await bed.api.delete(CONFIGMAPS, bed.name, namespace="default")
