"""Our custom kind: two versions of one object, defaults, generation, and the status that no other client touches."""

from __future__ import annotations

from tests.beds.api import DAEMONSETS, DAEMONSETS_ALPHA
from tests.beds.objects import demo
from tests.contract.bed import ApiServer, refused, version_of

REPLACE_IMAGE = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "busybox:2"}]


async def test_defaults_come_from_the_schema(bed: ApiServer) -> None:
    spec = (await bed.api.create(DAEMONSETS, demo()))["spec"]
    assert spec["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"rollingUpdateType": "Standard", "partition": 0},
    }
    assert {key: spec[key] for key in ("revisionHistoryLimit", "burstReplicas", "minReadySeconds")} == {
        "revisionHistoryLimit": 10,
        "burstReplicas": 250,
        "minReadySeconds": 0,
    }


async def test_the_template_is_kept_as_it_was_sent(bed: ApiServer) -> None:
    new = demo()
    new["spec"]["template"]["spec"] |= {"hostNetwork": True, "a-field-of-the-future": {"x": [1, "2", None]}}
    made = await bed.api.create(DAEMONSETS, new)
    assert made["spec"]["template"] == new["spec"]["template"]


async def test_selector_and_template_are_required(bed: ApiServer) -> None:
    for field in ("selector", "template"):
        new = demo()
        del new["spec"][field]
        with refused(422, "Invalid", kind="DaemonSet", group="apps.kruise.io") as caught:
            await bed.api.create(DAEMONSETS, new)
        assert (f"spec.{field}", "FieldValueRequired") in [(c["field"], c["reason"]) for c in caught[0].causes]


async def test_both_versions_show_one_object(bed: ApiServer) -> None:
    made = await bed.api.create(DAEMONSETS_ALPHA, demo(resource=DAEMONSETS_ALPHA))
    assert made["apiVersion"] == "apps.kruise.io/v1alpha1"
    beta = await bed.api.get(DAEMONSETS, "demo")
    assert beta["apiVersion"] == "apps.kruise.io/v1beta1"
    assert beta["spec"] == made["spec"]
    assert beta["metadata"]["uid"] == made["metadata"]["uid"]
    patched = await bed.api.patch(DAEMONSETS, "demo", {"spec": {"minReadySeconds": 5}})
    alpha = await bed.api.get(DAEMONSETS_ALPHA, "demo")
    assert alpha["spec"]["minReadySeconds"] == 5
    assert version_of(alpha) == version_of(patched)
    (listed,) = await bed.api.list(DAEMONSETS_ALPHA)
    assert listed["apiVersion"] == "apps.kruise.io/v1alpha1"


async def test_generation_counts_changes_of_the_spec_only(bed: ApiServer) -> None:
    assert (await bed.api.create(DAEMONSETS, demo()))["metadata"]["generation"] == 1
    assert (await bed.api.patch(DAEMONSETS, "demo", REPLACE_IMAGE))["metadata"]["generation"] == 2
    labelled = await bed.api.patch(DAEMONSETS, "demo", {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["generation"] == 2
    patch = {"status": {"numberReady": 1}}
    status = await bed.api.patch(DAEMONSETS, "demo", patch, sub="status")
    assert status["metadata"]["generation"] == 2
    assert version_of(status) > version_of(labelled)


async def test_a_new_object_has_no_status_and_json_patch_adds_it(bed: ApiServer) -> None:
    made = await bed.api.create(DAEMONSETS, demo() | {"status": {"numberReady": 7}})
    assert (made.get("status") or {}).get("numberReady", 0) == 0
    patch = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]},
        {"op": "add", "path": "/status", "value": {"numberReady": 3, "observedGeneration": 1}},
    ]
    written = await bed.api.patch(DAEMONSETS, "demo", patch, sub="status")
    assert written["status"]["numberReady"] == 3
    with refused(409, "Conflict", name="demo", kind="daemonsets", group="apps.kruise.io"):
        await bed.api.patch(DAEMONSETS, "demo", patch, sub="status")


async def test_main_writes_leave_the_status_and_status_writes_leave_all_else(bed: ApiServer) -> None:
    await bed.api.create(DAEMONSETS, demo())
    await bed.api.patch(DAEMONSETS, "demo", {"status": {"numberReady": 3}}, sub="status")
    patch = {"status": {"numberReady": 9}, "spec": {"minReadySeconds": 5}, "metadata": {"labels": {"a": "b"}}}
    main = await bed.api.patch(DAEMONSETS, "demo", patch)
    assert main["status"]["numberReady"] == 3
    assert main["spec"]["minReadySeconds"] == 5
    patch = {"status": {"numberReady": 4}, "spec": {"minReadySeconds": 6}, "metadata": {"labels": {"a": "c"}}}
    status = await bed.api.patch(DAEMONSETS, "demo", patch, sub="status")
    assert status["status"]["numberReady"] == 4
    assert status["spec"]["minReadySeconds"] == 5
    assert status["metadata"]["labels"] == {"a": "b"}


async def test_put_of_the_status_needs_the_version(bed: ApiServer) -> None:
    made = await bed.api.create(DAEMONSETS, demo())
    made["status"] = {"numberReady": 2}
    written = await bed.api.replace(DAEMONSETS, made, sub="status")
    assert written["status"]["numberReady"] == 2
    with refused(409, "Conflict"):
        await bed.api.replace(DAEMONSETS, made, sub="status")


async def test_a_delete_is_final_unless_a_finalizer_holds(bed: ApiServer) -> None:
    made = await bed.api.create(DAEMONSETS, demo())
    answer = await bed.api.delete(DAEMONSETS, "demo", propagationPolicy="Background")
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {
        "name": "demo",
        "group": "apps.kruise.io",
        "kind": "daemonsets",
        "uid": made["metadata"]["uid"],
    }
    new = demo()
    new["metadata"]["finalizers"] = ["kruise-ds/test"]
    await bed.api.create(DAEMONSETS, new)
    terminating = await bed.api.delete(DAEMONSETS, "demo")
    assert terminating["metadata"]["deletionGracePeriodSeconds"] == 0
    assert terminating["metadata"]["generation"] == 2
    assert await bed.api.delete(DAEMONSETS, "demo") == terminating
    await bed.api.patch(DAEMONSETS, "demo", {"metadata": {"finalizers": None}})
    assert await bed.api.find(DAEMONSETS, "demo") is None


async def test_fields_beside_the_template_are_dropped_or_refused_those_in_it_kept(bed: ApiServer) -> None:
    new = demo()
    new["spec"]["nodeSelector"] = {"a": "b"}
    made = await bed.api.create(DAEMONSETS, new, dryRun="All")
    assert "nodeSelector" not in made["spec"]
    message = (
        'DaemonSet in version "v1beta1" cannot be handled as a DaemonSet: strict decoding error: '
        'unknown field "spec.nodeSelector"'
    )
    with refused(400, "BadRequest", message):
        await bed.api.create(DAEMONSETS, new, dryRun="All", fieldValidation="Strict")
    del new["spec"]["nodeSelector"]
    new["spec"]["template"]["nodeSelector"] = {"a": "b"}
    made = await bed.api.create(DAEMONSETS, new, dryRun="All", fieldValidation="Strict")
    assert made["spec"]["template"]["nodeSelector"] == {"a": "b"}
