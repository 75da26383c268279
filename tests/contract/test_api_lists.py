"""Lists: selectors, pages that show one moment, and versions."""

from __future__ import annotations

import base64

import msgspec
import pytest

from tests.beds.api import CONFIGMAPS, DAEMONSETS, NODES, PODS
from tests.beds.objects import configmap, demo, names, pod
from tests.contract.bed import ApiServer, refused, version_of


async def test_a_list_is_sorted_by_name_and_has_a_version(bed: ApiServer) -> None:
    for name in ("b", "c", "a"):
        last = await bed.api.create(PODS, pod(name))
    page = await bed.api.page(PODS)
    assert (page["kind"], page["apiVersion"]) == ("PodList", "v1")
    assert names(page["items"]) == ["a", "b", "c"]
    assert version_of(page) >= version_of(last)
    assert "continue" not in page["metadata"]


async def test_items_name_their_kind_only_where_it_is_custom(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("one"))
    await bed.api.create(DAEMONSETS, demo())
    (found,) = await bed.api.list(PODS)
    assert "kind" not in found
    assert "apiVersion" not in found
    page = await bed.api.page(DAEMONSETS)
    assert (page["kind"], page["apiVersion"]) == ("DaemonSetList", "apps.kruise.io/v1beta1")
    assert [(item["kind"], item["apiVersion"]) for item in page["items"]] == [("DaemonSet", "apps.kruise.io/v1beta1")]


async def test_an_empty_list_is_a_list(bed: ApiServer) -> None:
    page = await bed.api.page(DAEMONSETS)
    assert page["items"] == []
    assert version_of(page) > 0


async def test_a_list_of_one_namespace_shows_no_other(bed: ApiServer) -> None:
    await bed.api.create(CONFIGMAPS, configmap("here"))
    await bed.api.create(CONFIGMAPS, configmap(bed.name, namespace="default"))
    assert bed.name not in names(await bed.api.list(CONFIGMAPS))
    everywhere = names(await bed.api.list(CONFIGMAPS, namespace=""))
    assert {"here", bed.name} <= set(everywhere)
    await bed.api.delete(CONFIGMAPS, bed.name, namespace="default")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app=a", ["a1", "a2"]),
        ("app==a,track=new", ["a2"]),
        ("app!=a", ["b", "none"]),
        ("app", ["a1", "a2", "b"]),
        ("!app", ["none"]),
        ("app in (b, c)", ["b"]),
        ("app notin (a)", ["b", "none"]),
        ("app in (a,b),track notin (new)", ["a1", "b"]),
        ("app=", []),
    ],
)
async def test_label_selectors(bed: ApiServer, selector: str, expected: list[str]) -> None:
    await bed.api.create(CONFIGMAPS, configmap("a1", labels={"app": "a", "made-by": "us"}))
    await bed.api.create(CONFIGMAPS, configmap("a2", labels={"app": "a", "track": "new", "made-by": "us"}))
    await bed.api.create(CONFIGMAPS, configmap("b", labels={"app": "b", "made-by": "us"}))
    await bed.api.create(CONFIGMAPS, configmap("none", labels={"made-by": "us"}))
    found = await bed.api.list(CONFIGMAPS, labelSelector=f"made-by=us,{selector}")
    assert names(found) == expected


async def test_a_selector_that_cannot_be_read_is_a_bad_request(bed: ApiServer) -> None:
    with refused(400, "BadRequest"):
        await bed.api.list(PODS, labelSelector="a=b=c")
    with refused(400, "BadRequest") as caught:
        await bed.api.list(PODS, fieldSelector="spec.nowhere=1")
    assert "field label not supported: spec.nowhere" in caught[0].message


async def test_field_selectors_of_pods(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("free"))
    await bed.api.create(PODS, pod("bound", on=bed.nowhere))
    await bed.api.patch(PODS, "bound", {"status": {"phase": "Running"}}, sub="status")
    for selector, expected in {
        f"spec.nodeName={bed.nowhere}": ["bound"],
        "spec.nodeName=": ["free"],
        "spec.nodeName!=": ["bound"],
        "status.phase=Running": ["bound"],
        "metadata.name=free": ["free"],
        f"metadata.namespace={bed.name},status.phase!=Pending": ["bound"],
    }.items():
        assert names(await bed.api.list(PODS, fieldSelector=selector)) == expected, selector


async def test_field_selectors_of_other_kinds(bed: ApiServer) -> None:
    await bed.api.create(DAEMONSETS, demo("one"))
    await bed.api.create(DAEMONSETS, demo("two"))
    assert names(await bed.api.list(DAEMONSETS, fieldSelector="metadata.name=two")) == ["two"]
    async with bed.nodes(2) as (_, (first, _)):
        assert names(await bed.api.list(NODES, fieldSelector=f"metadata.name={first}")) == [first]


async def test_pages_show_the_moment_of_the_first_one(bed: ApiServer) -> None:
    for number in range(5):
        await bed.api.create(CONFIGMAPS, configmap(f"map-{number}", labels={"made-by": "us"}))
    ours = {"labelSelector": "made-by=us"}
    first = await bed.api.page(CONFIGMAPS, limit="2", **ours)
    assert names(first["items"]) == ["map-0", "map-1"]
    await bed.api.delete(CONFIGMAPS, "map-3")
    await bed.api.patch(CONFIGMAPS, "map-2", {"data": {"a": "late"}})
    await bed.api.create(CONFIGMAPS, configmap("map-22", labels={"made-by": "us"}))
    second = await bed.api.page(CONFIGMAPS, limit="2", **{"continue": first["metadata"]["continue"]}, **ours)
    assert names(second["items"]) == ["map-2", "map-3"]
    assert not second["items"][0].get("data")
    third = await bed.api.page(CONFIGMAPS, limit="2", **{"continue": second["metadata"]["continue"]}, **ours)
    assert names(third["items"]) == ["map-4"]
    assert "continue" not in third["metadata"]
    versions = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert len(versions) == 1


async def test_a_page_without_selector_counts_what_remains(bed: ApiServer) -> None:
    for number in range(3):
        await bed.api.create(PODS, pod(f"pod-{number}"))
    page = await bed.api.page(PODS, limit="1")
    assert page["metadata"]["remainingItemCount"] == 2
    page = await bed.api.page(PODS, limit="3")
    assert "continue" not in page["metadata"]
    assert "remainingItemCount" not in page["metadata"]


async def test_a_continue_token_that_is_too_old_is_gone(bed: ApiServer) -> None:
    for number in range(3):
        await bed.api.create(DAEMONSETS, demo(f"demo-{number}"))
    token = {"v": "meta.k8s.io/v1", "rv": 1, "start": "/demo-0\0"}
    await bed.compact()
    await bed.api.create(DAEMONSETS, demo("late"))
    encoded = base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")
    with refused(410, "Expired") as caught:
        await bed.api.page(DAEMONSETS, limit="1", **{"continue": encoded})
    assert caught[0].message.startswith(
        "The provided continue parameter is too old to display a consistent list result."
    )
    fresh = caught[0].body["metadata"]["continue"]
    rest = await bed.api.page(DAEMONSETS, **{"continue": fresh})
    assert names(rest["items"]) == ["demo-1", "demo-2", "late"], "not consistent: what has come since is there"


async def test_a_continue_token_that_is_none_is_a_bad_request(bed: ApiServer) -> None:
    with refused(400, "BadRequest"):
        await bed.api.page(PODS, **{"continue": "no token"})


async def test_a_version_that_is_not_reached_yet_is_a_timeout(bed: ApiServer) -> None:
    page = await bed.api.page(PODS)
    with refused(504, "Timeout") as caught:
        await bed.api.page(
            PODS, resourceVersion=str(version_of(page) + 1_000_000), resourceVersionMatch="NotOlderThan"
        )
    assert caught[0].message.startswith("Timeout: Too large resource version:")
    assert [cause["reason"] for cause in caught[0].causes] == ["ResourceVersionTooLarge"]


async def test_version_0_is_any_version(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("one"))
    await bed.api.page(PODS)
    assert version_of(await bed.api.page(PODS, resourceVersion="0")) > 0


async def test_a_match_without_a_version_is_refused(bed: ApiServer) -> None:
    with refused(422, "Invalid", kind="ListOptions", group="meta.k8s.io") as caught:
        await bed.api.page(PODS, resourceVersionMatch="NotOlderThan")
    assert caught[0].causes[0]["field"] == "resourceVersionMatch"
