"""What of a pod that is there may change, and what counts as a change of its spec."""

from __future__ import annotations

from typing import Any

import pytest

from tests.beds.api import PODS, STRATEGIC_MERGE_PATCH, Object
from tests.beds.objects import condition, pod
from tests.contract.bed import ApiServer, refused

ONLY = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
GATE = "InPlaceUpdateReady"


def with_init(name: str) -> Object:
    new = pod(name)
    new["spec"]["initContainers"] = [{"name": "init", "image": "busybox"}]
    new["spec"]["readinessGates"] = [{"conditionType": GATE}]
    return new


def op(name: str, path: str, *value: Any) -> Object:
    return {"op": name, "path": path} | ({"value": value[0]} if value else {})


@pytest.mark.parametrize(
    "change",
    [
        op("replace", "/spec/containers/0/image", "busybox:2"),
        op("replace", "/spec/initContainers/0/image", "busybox:2"),
        op("add", "/spec/activeDeadlineSeconds", 600),
        op("add", "/spec/tolerations/-", {"key": "a", "operator": "Exists"}),
        op("replace", "/spec/tolerations/0/tolerationSeconds", 5),
    ],
    ids=lambda change: change["path"],
)
async def test_a_change_of_the_spec_is_a_new_generation(bed: ApiServer, change: Object) -> None:
    made = await bed.api.create(PODS, with_init("one"))
    changed = await bed.api.patch(PODS, "one", [change])
    assert changed["metadata"]["generation"] == made["metadata"]["generation"] + 1
    assert changed["spec"] != made["spec"]
    assert changed["status"] == made["status"]


async def test_metadata_and_conditions_are_no_new_generation(bed: ApiServer) -> None:
    await bed.api.create(PODS, with_init("one"))
    metadata = {"labels": {"a": "b"}, "annotations": {"kruise-ds/a": "b"}}
    changed = await bed.api.patch(PODS, "one", {"metadata": metadata})
    assert changed["metadata"]["generation"] == 1
    gate = {"type": GATE, "status": "False", "reason": "StartInPlaceUpdate", "observedGeneration": 1}
    for value in ("False", "True"):
        patch = {"status": {"conditions": [gate | {"status": value}]}}
        changed = await bed.api.patch(PODS, "one", patch, sub="status", content_type=STRATEGIC_MERGE_PATCH)
        found = condition(changed, GATE)
        assert {key: found[key] for key in gate} == gate | {"status": value}
        assert changed["metadata"]["generation"] == 1


async def test_image_and_metadata_change_in_one_patch(bed: ApiServer) -> None:
    made = await bed.api.create(PODS, pod("one", labels={"hash": "1"}))
    metadata = {"resourceVersion": made["metadata"]["resourceVersion"], "labels": {"hash": "2"}}
    patch = {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
    changed = await bed.api.patch(PODS, "one", patch, content_type=STRATEGIC_MERGE_PATCH)
    assert changed["metadata"]["labels"] == {"hash": "2"}
    assert changed["spec"]["containers"][0]["image"] == "busybox:2"
    assert changed["metadata"]["generation"] == 2
    with refused(409, "Conflict", name="one"):
        await bed.api.patch(PODS, "one", patch, content_type=STRATEGIC_MERGE_PATCH)


@pytest.mark.parametrize(
    "change",
    [
        op("add", "/spec/containers/0/command", ["true"]),
        op("add", "/spec/containers/0/resources/requests", {"cpu": "1m"}),
        op("add", "/spec/restartPolicy", "Never"),
        op("replace", "/spec/terminationGracePeriodSeconds", 3),
        op("add", "/spec/readinessGates/-", {"conditionType": "other"}),
        op("add", "/spec/nodeSelector", {"a": "b"}),
    ],
    ids=lambda change: change["path"],
)
async def test_the_rest_of_the_spec_is_refused(bed: ApiServer, change: Object) -> None:
    made = await bed.api.create(PODS, with_init("one"))
    with refused(422, "Invalid", kind="Pod", name="one") as caught:
        await bed.api.patch(PODS, "one", [change])
    assert caught[0].message.startswith(f'Pod "one" is invalid: spec: Forbidden: {ONLY}')
    assert [(cause["field"], cause["reason"]) for cause in caught[0].causes] == [("spec", "FieldValueForbidden")]
    assert await bed.api.get(PODS, "one") == made


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            op("add", "/spec/containers/-", {"name": "more", "image": "busybox"}),
            "spec.containers: Forbidden: pod updates may not add or remove containers",
        ),
        (
            op("remove", "/spec/initContainers/0"),
            "spec.initContainers: Forbidden: pod updates may not add or remove containers",
        ),
        (op("replace", "/spec/containers/0/image", ""), "spec.containers[0].image: Required value"),
        (
            op("replace", "/spec/containers/0/image", " busybox"),
            'spec.containers[0].image: Invalid value: " busybox": must not have leading or trailing whitespace',
        ),
        (
            op("remove", "/spec/tolerations/2"),
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
        ),
        (
            op("replace", "/spec/activeDeadlineSeconds", 700),
            "spec.activeDeadlineSeconds: Invalid value: 700: must be less than or equal to previous value",
        ),
        (
            op("remove", "/spec/activeDeadlineSeconds"),
            "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
        ),
    ],
    ids=lambda given: given["path"] if isinstance(given, dict) else "",
)
async def test_a_change_that_makes_no_sense_is_refused_with_its_reason(
    bed: ApiServer, change: Object, message: str
) -> None:
    new = with_init("one")
    evictions = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        for key in ("not-ready", "unreachable")
    ]
    new["spec"] |= {"activeDeadlineSeconds": 600, "tolerations": [*evictions, {"key": "a", "operator": "Exists"}]}
    await bed.api.create(PODS, new)
    with refused(422, "Invalid", f'Pod "one" is invalid: {message}', kind="Pod", name="one"):
        await bed.api.patch(PODS, "one", [change])


async def test_the_same_quantity_in_other_words_is_no_change(bed: ApiServer) -> None:
    new = pod("one")
    new["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "0.5", "memory": "1024Mi"}}
    made = await bed.api.create(PODS, new)
    assert made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "500m", "memory": "1Gi"}}
    new["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    patch = [op("replace", "/spec/containers/0/resources/requests/cpu", "0.50")]
    assert await bed.api.patch(PODS, "one", patch) == made


async def test_a_request_above_its_limit_is_refused(bed: ApiServer) -> None:
    new = pod("one")
    new["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}
    message = (
        'Pod "one" is invalid: spec.containers[0].resources.requests: Invalid value: "2": '
        "must be less than or equal to cpu limit of 1500m"
    )
    with refused(422, "Invalid", message):
        await bed.api.create(PODS, new)
