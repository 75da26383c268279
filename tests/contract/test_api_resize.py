"""The subresource pods/resize."""

from __future__ import annotations

from typing import Any

import pytest

from tests.beds.api import PODS, STRATEGIC_MERGE_PATCH, Object, Refusal
from tests.beds.nodes import MANUAL
from tests.beds.objects import pod
from tests.contract.bed import ApiServer, refused

BURSTABLE = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"}}
GUARANTEED = {"requests": BURSTABLE["limits"], "limits": BURSTABLE["limits"]}


def asking(resources: Object, **where: str) -> Object:
    new = pod("one", **where)
    new["spec"]["containers"][0]["resources"] = resources
    return new


def main(**fields: Any) -> Object:
    return {"spec": {"containers": [{"name": "main", **fields}]}}


async def resize(bed: ApiServer, **resources: Object) -> Object:
    patch = main(resources=resources)
    return await bed.api.patch(PODS, "one", patch, sub="resize", content_type=STRATEGIC_MERGE_PATCH)


async def test_a_dry_run_shows_what_a_resize_would_store(bed: ApiServer) -> None:
    made = await bed.api.create(PODS, asking(BURSTABLE))
    patch = [{"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": "0.15"}]
    shown = await bed.api.patch(PODS, "one", patch, sub="resize", dryRun="All")
    assert shown["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "150m", "memory": "64Mi"}
    assert await bed.api.get(PODS, "one") == made


async def test_the_server_notes_who_has_resized_which_amount_last(bed: ApiServer) -> None:
    await bed.api.create(PODS, asking(BURSTABLE))

    async def by(manager: str, **amounts: str) -> None:
        patch = main(resources={"requests": amounts})
        options: Any = {"sub": "resize", "content_type": STRATEGIC_MERGE_PATCH, "fieldManager": manager}
        await bed.api.patch(PODS, "one", patch, **options)

    await by("an-autoscaler", cpu="150m", memory="96Mi")
    await by("another", cpu="160m")
    entries = (await bed.api.get(PODS, "one"))["metadata"]["managedFields"]
    path = ("f:spec", "f:containers", 'k:{"name":"main"}', "f:resources", "f:requests")
    noted = {}
    for one in entries:
        fields = one["fieldsV1"]
        for key in path:
            fields = fields.get(key, {})
        if one.get("subresource") == "resize":
            noted[one["manager"]] = sorted(key for key in fields if key != ".")
    assert noted == {"an-autoscaler": ["f:memory"], "another": ["f:cpu"]}


async def test_each_kind_of_patch_resizes(bed: ApiServer) -> None:
    made = await bed.api.create(PODS, asking(BURSTABLE))
    changed = await resize(bed, requests={"cpu": "0.15"})
    assert changed["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "150m", "memory": "64Mi"}
    assert changed["metadata"]["generation"] == made["metadata"]["generation"] + 1
    patch = [{"op": "replace", "path": "/spec/containers/0/resources/limits/memory", "value": "96Mi"}]
    changed = await bed.api.patch(PODS, "one", patch, sub="resize")
    assert changed["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "200m", "memory": "96Mi"}
    merge = main(image="busybox:2", resources=BURSTABLE)
    changed = await bed.api.patch(PODS, "one", merge, sub="resize")
    assert changed["spec"] == made["spec"], "the image is not taken, and no other field is lost"
    assert changed["metadata"]["generation"] == made["metadata"]["generation"] + 3
    changed["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "120m"
    changed = await bed.api.replace(PODS, changed, sub="resize")
    assert changed["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "120m"


async def test_a_resize_takes_nothing_but_resources(bed: ApiServer) -> None:
    made = await bed.api.create(PODS, asking(BURSTABLE))
    metadata = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    patch = {"metadata": metadata, **main(image="busybox:2"), "status": {"phase": "Running"}}
    changed = await bed.api.patch(PODS, "one", patch, sub="resize", content_type=STRATEGIC_MERGE_PATCH)
    assert [changed[part] for part in ("spec", "status")] == [made[part] for part in ("spec", "status")]
    assert changed["metadata"]["generation"] == 1
    assert not {"labels", "annotations"} & set(changed["metadata"])


async def test_a_resize_is_guarded_like_any_write(bed: ApiServer) -> None:
    made = await bed.api.create(PODS, asking(BURSTABLE))
    wanted = {"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": "150m"}
    guard = {"op": "replace", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]}
    await bed.api.patch(PODS, "one", [guard, wanted], sub="resize")
    with refused(409, "Conflict", name="one", kind="pods"):
        await bed.api.patch(PODS, "one", [guard, wanted | {"value": "160m"}], sub="resize")
    foreign = {"op": "replace", "path": "/metadata/uid", "value": "00000000-0000-0000-0000-000000000000"}
    with refused(422, "Invalid") as caught:
        await bed.api.patch(PODS, "one", [foreign, wanted], sub="resize")
    assert {cause["field"] for cause in caught[0].causes} == {"metadata.uid"}


@pytest.mark.parametrize(
    ("before", "patch", "message"),
    [
        (
            GUARANTEED,
            main(resources={"requests": {"cpu": "100m"}}),
            'spec: Invalid value: "Guaranteed": Pod QOS Class may not change as a result of resizing',
        ),
        (
            {},
            main(resources={"requests": {"cpu": "100m"}}),
            'spec: Invalid value: "BestEffort": Pod QOS Class may not change as a result of resizing',
        ),
        (
            BURSTABLE,
            main(resources={"limits": {"memory": None}}),
            "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
        ),
        (
            {"requests": {"cpu": "100m", "memory": "64Mi"}},
            main(resources={"requests": {"memory": None}}),
            "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
        ),
        (
            BURSTABLE,
            main(resources={"requests": {"ephemeral-storage": "1Gi"}}),
            "spec: Forbidden: only cpu and memory resources are mutable",
        ),
        (
            BURSTABLE,
            main(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
            "spec: Forbidden: only cpu and memory resources are mutable",
        ),
        (
            BURSTABLE,
            main(resources={"requests": {"cpu": "300m"}}),
            "spec.containers[0].resources.requests: "
            'Invalid value: "300m": must be less than or equal to cpu limit of 200m',
        ),
        (
            BURSTABLE,
            {"spec": {"containers": [{"name": "more", "image": "busybox"}]}},
            "spec.containers: Forbidden: containers may not be added or removed on resize",
        ),
    ],
)
async def test_what_a_resize_may_not_do(bed: ApiServer, before: Object, patch: Object, message: str) -> None:
    made = await bed.api.create(PODS, asking(before))
    with refused(422, "Invalid", f'Pod "one" is invalid: {message}', kind="Pod", name="one"):
        await bed.api.patch(PODS, "one", patch, sub="resize", content_type=STRATEGIC_MERGE_PATCH)
    assert await bed.api.get(PODS, "one") == made


async def test_a_limit_may_be_added(bed: ApiServer) -> None:
    await bed.api.create(PODS, asking({"requests": {"cpu": "100m"}}))
    changed = await resize(bed, limits={"memory": "128Mi"})
    assert changed["spec"]["containers"][0]["resources"]["limits"] == {"memory": "128Mi"}


async def test_a_sidecar_is_resized_too(bed: ApiServer) -> None:
    new = asking(BURSTABLE)
    sidecar = {"name": "side", "image": "busybox", "restartPolicy": "Always", "resources": BURSTABLE}
    new["spec"]["initContainers"] = [sidecar]
    await bed.api.create(PODS, new)
    patch = {"spec": {"initContainers": [{"name": "side", "resources": {"requests": {"cpu": "150m"}}}]}}
    changed = await bed.api.patch(PODS, "one", patch, sub="resize", content_type=STRATEGIC_MERGE_PATCH)
    assert changed["spec"]["initContainers"][0]["resources"]["requests"]["cpu"] == "150m"
    assert changed["metadata"]["generation"] == 2


async def test_a_node_whose_kubelet_tells_no_resources_cannot_resize(bed: ApiServer) -> None:
    await bed.api.create(PODS, asking(BURSTABLE))
    state = {
        "name": "main",
        "image": "busybox",
        "imageID": "busybox",
        "ready": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": "2026-11-21T12:00:00Z"}},
    }
    await bed.api.patch(PODS, "one", {"status": {"containerStatuses": [state]}}, sub="status")
    message = 'Pod "one" is invalid: spec: Forbidden: Pod running on node without support for resize'
    with refused(422, "Invalid", message):
        await resize(bed, requests={"cpu": "150m"})
    patch = {"status": {"containerStatuses": [state | {"resources": BURSTABLE}]}}
    await bed.api.patch(PODS, "one", patch, sub="status")
    await resize(bed, requests={"cpu": "150m"})


async def test_more_than_the_node_has_is_forbidden(bed: ApiServer) -> None:
    """The admission hears of nodes by a watch of its own."""
    async with bed.nodes(behaviour=MANUAL, allocatable={"cpu": "2", "memory": "4Gi"}) as (_, (name,)):
        made = await bed.api.create(PODS, asking(BURSTABLE, on=name))
        while True:
            try:
                await resize(bed, requests={"cpu": "64", "memory": "64Gi"}, limits={"cpu": "65", "memory": "65Gi"})
            except Refusal as refusal:
                found = refusal
            else:
                raise AssertionError("accepted")
            if "not found" not in found.message:
                break
        assert (found.status, found.reason) == (403, "Forbidden")
        assert found.message == (
            'pods "one" is forbidden: node didn\'t have enough allocatable resources: '
            "cpu, requested: 64000, allocatable: 2000; memory, requested: 68719476736, allocatable: 4294967296"
        )
        assert found.body["details"] == {"name": "one", "kind": "pods", "causes": [{"reason": "NodeCapacity"}]}
        assert (await bed.api.get(PODS, "one"))["spec"]["containers"] == made["spec"]["containers"]


async def test_the_node_must_be_there(bed: ApiServer) -> None:
    await bed.api.create(PODS, asking(BURSTABLE, on=bed.nowhere))
    with refused(403, "Forbidden", f'pods "one" is forbidden: node "{bed.nowhere}" not found'):
        await resize(bed, requests={"cpu": "150m"})
    await resize(bed, requests={"cpu": "100m"})


async def test_pods_tell_that_they_can_be_resized(bed: ApiServer) -> None:
    found = await bed.api.send("GET", "/api/v1")
    (entry,) = [one for one in found["resources"] if one["name"] == "pods/resize"]
    assert (entry["kind"], entry["namespaced"], entry["verbs"]) == ("Pod", True, ["get", "patch", "update"])


async def test_a_resize_of_no_pod_is_not_found(bed: ApiServer) -> None:
    with refused(404, "NotFound", 'pods "one" not found', name="one", kind="pods"):
        await resize(bed, requests={"cpu": "150m"})
