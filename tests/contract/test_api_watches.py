"""Watches: what is sent, from where on, and how a client learns that it has missed something."""

from __future__ import annotations

import asyncio

from tests.beds.api import CONFIGMAPS, DAEMONSETS, DAEMONSETS_ALPHA, PODS, Event
from tests.beds.objects import configmap, demo, names, pod
from tests.contract.bed import WAIT_SECONDS, ApiServer, is_initial_end, next_events, refused, version_of

STREAMING = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


def told(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.type, event.object["metadata"]["name"]) for event in events]


async def test_a_watch_tells_every_change_after_the_version(bed: ApiServer) -> None:
    await bed.api.create(CONFIGMAPS, configmap("before"))
    _, events = await bed.follow(CONFIGMAPS)
    made = await bed.api.create(CONFIGMAPS, configmap("one"))
    changed = await bed.api.patch(CONFIGMAPS, "one", {"data": {"a": "1"}})
    await bed.api.delete(CONFIGMAPS, "one")
    found = await next_events(events, 3)
    assert told(found) == [("ADDED", "one"), ("MODIFIED", "one"), ("DELETED", "one")]
    assert found[0].object == made
    assert found[1].object == changed
    assert found[2].object == changed | {"metadata": found[2].object["metadata"]}
    assert version_of(found[2].object) > version_of(changed), "the version of a deletion is its own"


async def test_a_watch_resumes_from_the_version_of_any_event(bed: ApiServer) -> None:
    versions = []
    for number in range(4):
        made = await bed.api.create(CONFIGMAPS, configmap(f"map-{number}"))
        versions.append(made["metadata"]["resourceVersion"])
    _, events = await bed.follow(CONFIGMAPS, resume_from=versions[1])
    assert told(await next_events(events, 2)) == [("ADDED", "map-2"), ("ADDED", "map-3")]


async def test_a_watch_without_version_begins_with_all_there_is(bed: ApiServer) -> None:
    for name in ("b", "a"):
        await bed.api.create(PODS, pod(name))
    for version in ("", "0"):
        await bed.api.page(PODS, resourceVersion="0")
        _, events = await bed.follow(PODS, resume_from=version)
        assert sorted(told(await next_events(events, 2))) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_of_one_namespace_tells_of_no_other(bed: ApiServer) -> None:
    _, events = await bed.follow(CONFIGMAPS)
    await bed.api.create(CONFIGMAPS, configmap(bed.name, namespace="default"))
    await bed.api.create(CONFIGMAPS, configmap("here"))
    assert told(await next_events(events, 1)) == [("ADDED", "here")]
    await bed.api.delete(CONFIGMAPS, bed.name, namespace="default")


async def test_leaving_a_selection_is_a_deletion_and_entering_an_addition(bed: ApiServer) -> None:
    await bed.api.create(CONFIGMAPS, configmap("one", labels={"app": "a"}))
    _, events = await bed.follow(CONFIGMAPS, labelSelector="app=a")
    left = await bed.api.patch(CONFIGMAPS, "one", {"metadata": {"labels": {"app": "b"}}})
    await bed.api.patch(CONFIGMAPS, "one", {"data": {"unseen": "1"}})
    await bed.api.patch(CONFIGMAPS, "one", {"metadata": {"labels": {"app": "a"}}})
    await bed.api.patch(CONFIGMAPS, "one", {"data": {"seen": "1"}})
    await bed.api.delete(CONFIGMAPS, "one")
    found = await next_events(events, 4)
    assert [event.type for event in found] == ["DELETED", "ADDED", "MODIFIED", "DELETED"]
    assert found[0].object["metadata"]["labels"] == {"app": "a"}, "the last state that was selected"
    assert version_of(found[0].object) == version_of(left)


async def test_a_field_selector_follows_pods_to_their_node(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("one"))
    _, events = await bed.follow(PODS, fieldSelector=f"spec.nodeName={bed.nowhere}")
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "one"}}
    target = {"apiVersion": "v1", "kind": "Node", "name": bed.nowhere}
    await bed.api.create(PODS, binding | {"target": target}, sub="binding")
    assert told(await next_events(events, 1)) == [("ADDED", "one")]


async def test_streaming_begins_with_all_objects_and_a_bookmark(bed: ApiServer) -> None:
    for name in ("b", "a"):
        last = await bed.api.create(DAEMONSETS, demo(name))
    _, events = await bed.follow(DAEMONSETS, resume_from="", **STREAMING)
    *first, end = await next_events(events, 3)
    assert sorted(told(first)) == [("ADDED", "a"), ("ADDED", "b")]
    assert is_initial_end(end)
    assert (end.object["kind"], end.object["apiVersion"]) == ("DaemonSet", "apps.kruise.io/v1beta1")
    assert version_of(end.object) >= version_of(last)
    await bed.api.delete(DAEMONSETS, "a")
    assert told(await next_events(events, 1)) == [("DELETED", "a")]


async def test_streaming_an_empty_collection_ends_at_once(bed: ApiServer) -> None:
    _, events = await bed.follow(PODS, resume_from="", **STREAMING)
    (end,) = await next_events(events, 1)
    assert is_initial_end(end)


async def test_streaming_with_a_selector(bed: ApiServer) -> None:
    await bed.api.create(CONFIGMAPS, configmap("one", labels={"app": "a"}))
    await bed.api.create(CONFIGMAPS, configmap("two", labels={"app": "b"}))
    _, events = await bed.follow(CONFIGMAPS, resume_from="", labelSelector="app=a", **STREAMING)
    first, end = await next_events(events, 2)
    assert told([first]) == [("ADDED", "one")]
    assert is_initial_end(end)


async def test_streaming_without_bookmarks_never_says_that_it_is_complete(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("one"))
    without = {key: value for key, value in STREAMING.items() if key != "allowWatchBookmarks"}
    _, events = await bed.follow(PODS, resume_from="", **without)
    assert told(await next_events(events, 1)) == [("ADDED", "one")]
    await bed.api.create(PODS, pod("two"))
    assert told(await next_events(events, 1)) == [("ADDED", "two")]


async def test_streaming_demands_a_match(bed: ApiServer) -> None:
    message = (
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    )
    with refused(422, "Invalid", message, kind="ListOptions", group="meta.k8s.io") as caught:
        _, events = await bed.follow(PODS, resume_from="", sendInitialEvents="true", allowWatchBookmarks="true")
        await anext(events)
    assert caught[0].causes[0]["field"] == "resourceVersionMatch"


async def test_a_list_does_not_stream(bed: ApiServer) -> None:
    with refused(422, "Invalid", kind="ListOptions") as caught:
        await bed.api.page(PODS, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", resourceVersion="0")
    assert "sendInitialEvents" in {cause["field"] for cause in caught[0].causes}


async def test_a_watch_from_a_forgotten_version_ends_with_an_error_event(bed: ApiServer) -> None:
    await bed.api.create(DAEMONSETS, demo())
    await bed.compact()
    _, events = await bed.follow(DAEMONSETS, resume_from="1")
    async with asyncio.timeout(WAIT_SECONDS):
        rest = [event async for event in events]
    assert [event.type for event in rest] == ["ERROR"]
    status = rest[0].object
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")


async def test_the_server_ends_a_watch_after_the_asked_time(bed: ApiServer) -> None:
    _, events = await bed.follow(PODS, timeoutSeconds="1")
    async with asyncio.timeout(WAIT_SECONDS):
        assert [event async for event in events if event.type != "BOOKMARK"] == []


async def test_both_versions_of_a_kind_tell_of_the_same_objects(bed: ApiServer) -> None:
    _, beta = await bed.follow(DAEMONSETS)
    _, alpha = await bed.follow(DAEMONSETS_ALPHA)
    await bed.api.create(DAEMONSETS_ALPHA, demo(resource=DAEMONSETS_ALPHA))
    (new_beta,), (new_alpha,) = await next_events(beta, 1), await next_events(alpha, 1)
    assert new_beta.object["apiVersion"] == "apps.kruise.io/v1beta1"
    assert new_alpha.object["apiVersion"] == "apps.kruise.io/v1alpha1"
    assert new_beta.object["metadata"]["uid"] == new_alpha.object["metadata"]["uid"]
    assert version_of(new_beta.object) == version_of(new_alpha.object)


async def test_no_event_is_lost_between_list_and_watch(bed: ApiServer) -> None:
    page, _ = await bed.follow(CONFIGMAPS)
    for number in range(20):
        await bed.api.create(CONFIGMAPS, configmap(f"map-{number:02d}"))
    _, events = await bed.follow(CONFIGMAPS, resume_from=page["metadata"]["resourceVersion"])
    found = await next_events(events, 20)
    assert names([event.object for event in found]) == [f"map-{number:02d}" for number in range(20)]
    versions = [version_of(event.object) for event in found]
    assert versions == sorted(set(versions))
