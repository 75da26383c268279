"""The three patch dialects, and the guards that can be told apart."""

from __future__ import annotations

from typing import Any

import pytest

from tests.beds.api import CONFIGMAPS, DAEMONSETS, NODES, PODS, STRATEGIC_MERGE_PATCH, Object, Resource
from tests.beds.objects import configmap, demo, pod
from tests.contract.bed import ApiServer, refused, version_of

CUSTOM_AND_BUILT_IN = pytest.mark.parametrize("resource", [PODS, DAEMONSETS], ids=["pod", "daemonset"])
BAD_PATCH = "the server rejected our request due to an error in our request"


async def make(bed: ApiServer, resource: Resource) -> Object:
    new = pod("demo", labels={"app": "demo"}) if resource is PODS else demo()
    return await bed.api.create(resource, new)


def op(name: str, path: str, *value: Any) -> dict[str, Any]:
    return {"op": name, "path": path} | ({"value": value[0]} if value else {})


@CUSTOM_AND_BUILT_IN
async def test_json_patch_adds_replaces_and_removes(bed: ApiServer, resource: Resource) -> None:
    await make(bed, resource)
    patch = [
        op("add", "/metadata/annotations", {"a/b": "1", "c": "2"}),
        op("add", "/metadata/labels", {"app": "demo"}),
    ]
    await bed.api.patch(resource, "demo", patch)
    patch = [op("replace", "/metadata/annotations/a~1b", "3"), op("remove", "/metadata/annotations/c")]
    patched = await bed.api.patch(resource, "demo", patch)
    assert patched["metadata"]["annotations"] == {"a/b": "3"}


async def test_json_patch_works_on_places_of_a_list(bed: ApiServer) -> None:
    await bed.api.create(CONFIGMAPS, configmap("one", finalizers=["kruise-ds/a", "kruise-ds/c"]))
    patch = [
        op("add", "/metadata/finalizers/1", "kruise-ds/b"),
        op("add", "/metadata/finalizers/-", "kruise-ds/d"),
        op("remove", "/metadata/finalizers/0"),
    ]
    patched = await bed.api.patch(CONFIGMAPS, "one", patch)
    assert patched["metadata"]["finalizers"] == ["kruise-ds/b", "kruise-ds/c", "kruise-ds/d"]
    await bed.api.patch(CONFIGMAPS, "one", {"metadata": {"finalizers": None}})


@CUSTOM_AND_BUILT_IN
async def test_json_patch_guarded_by_the_right_version_and_uid_is_done(bed: ApiServer, resource: Resource) -> None:
    metadata = (await make(bed, resource))["metadata"]
    patch = [
        op("replace", "/metadata/resourceVersion", metadata["resourceVersion"]),
        op("replace", "/metadata/uid", metadata["uid"]),
        op("add", "/metadata/annotations", {"a": "1"}),
    ]
    patched = await bed.api.patch(resource, "demo", patch)
    assert patched["metadata"]["annotations"] == {"a": "1"}
    assert version_of(patched) > int(metadata["resourceVersion"])


@CUSTOM_AND_BUILT_IN
async def test_json_patch_guarded_by_a_stale_version_is_a_conflict(bed: ApiServer, resource: Resource) -> None:
    made = await make(bed, resource)
    await bed.api.patch(resource, "demo", {"metadata": {"annotations": {"a": "1"}}})
    stale = op("replace", "/metadata/resourceVersion", made["metadata"]["resourceVersion"])
    for sub in ("", "status"):
        with refused(409, "Conflict", name="demo", kind=resource.plural) as caught:
            await bed.api.patch(resource, "demo", [stale, op("add", "/metadata/annotations/b", "2")], sub=sub)
        assert "the object has been modified" in caught[0].message


@CUSTOM_AND_BUILT_IN
async def test_json_patch_guarded_by_a_foreign_uid_names_the_uid(bed: ApiServer, resource: Resource) -> None:
    await make(bed, resource)
    with refused(422, "Invalid", name="demo", kind=resource.kind) as caught:
        await bed.api.patch(
            resource, "demo", [op("replace", "/metadata/uid", "00000000-0000-0000-0000-000000000000")]
        )
    assert {(cause["field"], cause["reason"]) for cause in caught[0].causes} == {
        ("metadata.uid", "FieldValueInvalid")
    }
    assert "field is immutable" in caught[0].message


@CUSTOM_AND_BUILT_IN
@pytest.mark.parametrize(
    "patch",
    [
        op("test", "/metadata/labels/app", "other"),
        op("test", "/metadata/labels/missing", "x"),
        op("test", "/metadata/resourceVersion", "1"),
        op("remove", "/metadata/labels/missing"),
        op("add", "/nowhere/at/all", "x"),
        op("remove", "/spec/containers/7"),
    ],
    ids=lambda patch: f"{patch['op']} {patch['path']}",
)
async def test_a_json_patch_that_does_not_fit_is_invalid_without_a_cause(
    bed: ApiServer, resource: Resource, patch: dict[str, Any]
) -> None:
    await make(bed, resource)
    with refused(422, "Invalid", BAD_PATCH) as caught:
        await bed.api.patch(resource, "demo", [patch])
    assert caught[0].body["details"] == {}


async def test_replacing_a_missing_key_adds_it(bed: ApiServer) -> None:
    await bed.api.create(CONFIGMAPS, configmap("one", {"a": "1"}))
    patched = await bed.api.patch(CONFIGMAPS, "one", [op("replace", "/data/b", "2")])
    assert patched["data"] == {"a": "1", "b": "2"}


async def test_a_json_patch_is_done_as_a_whole_or_not_at_all(bed: ApiServer) -> None:
    made = await bed.api.create(CONFIGMAPS, configmap("one", {"a": "1"}))
    with refused(422, "Invalid"):
        await bed.api.patch(CONFIGMAPS, "one", [op("replace", "/data/a", "2"), op("remove", "/data/b")])
    assert await bed.api.get(CONFIGMAPS, "one") == made


async def test_a_json_patch_that_is_no_list_is_a_bad_request(bed: ApiServer) -> None:
    await bed.api.create(CONFIGMAPS, configmap("one"))
    with refused(400, "BadRequest"):
        await bed.api.patch(CONFIGMAPS, "one", {"data": {}}, content_type="application/json-patch+json")


async def test_merge_patch_merges_maps_and_null_takes_away(bed: ApiServer) -> None:
    await bed.api.create(CONFIGMAPS, configmap("one", {"a": "1", "b": "2"}, labels={"x": "y"}))
    patched = await bed.api.patch(CONFIGMAPS, "one", {"data": {"b": None, "c": "3"}, "metadata": {"labels": None}})
    assert patched["data"] == {"a": "1", "c": "3"}
    assert "labels" not in patched["metadata"]


@CUSTOM_AND_BUILT_IN
async def test_merge_patch_is_guarded_by_the_version_it_carries(bed: ApiServer, resource: Resource) -> None:
    made = await make(bed, resource)
    version = made["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version, "annotations": {"a": "1"}}}
    await bed.api.patch(resource, "demo", patch)
    with refused(409, "Conflict", name="demo", kind=resource.plural):
        await bed.api.patch(resource, "demo", patch | {"metadata": {"resourceVersion": version, "annotations": None}})
    with refused(422, "Invalid") as caught:
        await bed.api.patch(resource, "demo", {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}})
    assert {cause["field"] for cause in caught[0].causes} == {"metadata.uid"}


async def test_strategic_merge_patch_matches_containers_by_name(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("demo"))
    patch = {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
    patched = await bed.api.patch(PODS, "demo", patch, content_type=STRATEGIC_MERGE_PATCH)
    assert [(c["name"], c["image"]) for c in patched["spec"]["containers"]] == [("main", "busybox:2")]
    assert patched["spec"]["containers"][0]["terminationMessagePath"] == "/dev/termination-log"


async def test_strategic_merge_patch_matches_conditions_by_type(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("demo"))
    for name, value in (("Ready", "False"), ("Initialized", "True"), ("Ready", "True")):
        patch = {"status": {"conditions": [{"type": name, "status": value}]}}
        patched = await bed.api.patch(PODS, "demo", patch, sub="status", content_type=STRATEGIC_MERGE_PATCH)
    found = {condition["type"]: condition["status"] for condition in patched["status"]["conditions"]}
    assert found == {"Ready": "True", "Initialized": "True"}


async def test_strategic_merge_patch_adds_finalizers_and_takes_named_ones_away(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("demo", finalizers=["kruise-ds/a"]))
    patch: dict[str, Any] = {"metadata": {"finalizers": ["kruise-ds/b"]}}
    patched = await bed.api.patch(PODS, "demo", patch, content_type=STRATEGIC_MERGE_PATCH)
    assert sorted(patched["metadata"]["finalizers"]) == ["kruise-ds/a", "kruise-ds/b"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["kruise-ds/a"]}}
    patched = await bed.api.patch(PODS, "demo", patch, content_type=STRATEGIC_MERGE_PATCH)
    assert patched["metadata"]["finalizers"] == ["kruise-ds/b"]


async def test_strategic_merge_patch_of_a_custom_object_is_no_known_type(bed: ApiServer) -> None:
    await bed.api.create(DAEMONSETS, demo())
    with refused(415, "UnsupportedMediaType"):
        await bed.api.patch(DAEMONSETS, "demo", {"spec": {}}, content_type=STRATEGIC_MERGE_PATCH)


async def test_taints_of_a_node_are_replaced_as_a_whole(bed: ApiServer) -> None:
    async with bed.nodes() as (_, (name,)):
        taint = {"key": "a", "value": "1", "effect": "NoSchedule"}
        await bed.api.patch(NODES, name, {"spec": {"taints": [taint]}}, content_type=STRATEGIC_MERGE_PATCH)
        patch = {"spec": {"taints": [taint | {"key": "b"}]}}
        patched = await bed.api.patch(NODES, name, patch, content_type=STRATEGIC_MERGE_PATCH)
        assert [found["key"] for found in patched["spec"]["taints"]] == ["b"]
