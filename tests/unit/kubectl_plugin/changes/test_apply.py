"""What apply sends, and what it makes of field managers, case by case."""

from __future__ import annotations

from controller.api.objects import JSON, JSONObject, Key, fields_of, value_at
from kubectl_plugin.changes.apply import (
    KEEPS_NOTE,
    application_of,
    applied_fields,
    apply,
    note_of,
    taken_from_client_side,
)
from kubectl_plugin.changes.edit import Application, Edit, with_operations
from kubectl_plugin.rollout.snapshot import LAST_APPLIED
from tests.unit.kubectl_plugin.changes.documents import live, rolling, seen

ME = "kubectl"
SPEC: JSONObject = {"f:spec": {"f:template": {}}}
NOTED: JSONObject = {"f:metadata": {"f:annotations": {f"f:{LAST_APPLIED}": {}}}}


def entry(manager: str, operation: str, fields: JSONObject, **more: JSON) -> JSONObject:
    return {"manager": manager, "operation": operation, "fieldsV1": fields, **more}


def managed(*entries: JSON, **metadata: JSON) -> JSONObject:
    document = live(rolling())
    return {**document, "metadata": {**fields_of(document["metadata"]), "managedFields": [*entries], **metadata}}


def change(before: JSONObject, after: JSONObject) -> Edit:
    sent = Application(manager=ME, body=after, manifest=after)
    return apply(seen(before), sent, after, None, show_values=False)


def test_the_fields_of_a_subresource_are_no_part_of_a_manifest() -> None:
    of_status = entry(ME, "Apply", {"f:status": {}}, subresource="status")
    document = managed(of_status, entry("other", "Apply", {}), entry(ME, "Update", {}), entry(ME, "Apply", SPEC))
    assert applied_fields(document, ME) == SPEC
    assert applied_fields(managed(of_status), ME) == {}


def test_what_was_applied_on_the_client_is_taken_over_and_others_keep_theirs() -> None:
    other = entry("operator", "Update", {"f:metadata": {"f:labels": {}}})
    document = managed(entry("kubectl-client-side-apply", "Update", {**SPEC, **NOTED}), other)
    assert taken_from_client_side(document, ME) == [
        entry(ME, "Apply", SPEC),
        entry(KEEPS_NOTE, "Apply", NOTED),
        other,
    ]


def test_kubectls_copy_in_a_file_is_not_sent() -> None:
    metadata: JSONObject = {"name": "demo", "annotations": {LAST_APPLIED: "{}", "a": "b"}}
    sent = application_of({"metadata": metadata}, Key("default", "demo"), {}, ME)
    kept: JSONObject = {"name": "demo", "annotations": {"a": "b"}, "namespace": "default"}
    assert sent.body == sent.manifest == {"metadata": kept}
    assert note_of(sent.manifest).endswith("}\n")


def test_finalizers_that_go_are_removed() -> None:
    before = managed(finalizers=["a/b"])
    edit = change(before, managed())
    assert value_at(with_operations(before, edit.operations), "metadata", "finalizers") is None
    assert edit.result == "configured"


def test_only_a_manager_that_changes_is_a_change() -> None:
    document = managed(entry(ME, "Apply", SPEC))
    assert change(document, document).result == "unchanged"
    on_client = managed(entry(ME, "Apply", SPEC), entry("kubectl-client-side-apply", "Update", NOTED))
    assert change(on_client, on_client).details == (f"only the manager of its fields changes: {ME}",)
