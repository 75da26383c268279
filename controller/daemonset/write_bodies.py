"""Makes the bodies of writes to metadata and to revisions. Nothing here sends."""

from __future__ import annotations

from typing import assert_never

from controller.api import patch, revision
from controller.api.base import JSONObject
from controller.api.daemonset import DaemonSet
from controller.api.wellknown import HASH_LABEL, NEVER_RAN_ANNOTATION
from controller.planner.actions import (
    AdoptPod,
    AdoptRevision,
    CreateRevision,
    RecordRun,
    RelabelPod,
    ReleasePod,
    RenumberRevision,
)
from controller.planner.manifest import owner_reference


def metadata_patch(
    action: AdoptPod | AdoptRevision | ReleasePod | RelabelPod | RenumberRevision | RecordRun, daemonset: DaemonSet
) -> patch.JsonPatch:
    """The patch of an action, with its precondition: the version that was decided about. For a label it is only the
    uid, because the label may be set whatever else has changed."""
    match action:
        case AdoptPod(pod=ref) | AdoptRevision(revision=ref):
            reference = owner_reference(daemonset)
            operations: patch.JsonPatch = (
                patch.add(reference, "metadata", "ownerReferences", "-")
                if action.owners
                else patch.add([reference], "metadata", "ownerReferences"),
            )
            if isinstance(action, AdoptRevision) and action.never_ran:
                have: dict[str, str] | None = {} if action.annotated else None
                operations += patch.merged("annotations", {NEVER_RAN_ANNOTATION: "true"}, have)
        case ReleasePod(pod=ref):
            operations = (patch.remove("metadata", "ownerReferences", str(action.owner_index)),)
        case RenumberRevision(revision=ref):
            operations = (patch.add(action.number, "revision"),)
        case RecordRun(revision=ref):
            operations = (patch.remove("metadata", "annotations", NEVER_RAN_ANNOTATION),)
        case RelabelPod(pod=ref):
            return patch.guarded_by_uid(ref.uid, patch.add(action.hash, "metadata", "labels", HASH_LABEL))
        case _:
            assert_never(action)
    return patch.guarded_by_version(ref.version, *operations)


def revision_body(daemonset: DaemonSet, action: CreateRevision) -> JSONObject:
    """The body of a new revision: labels of the template and the hash, annotations of the DaemonSet."""
    meta = daemonset.spec.template.get("metadata")
    labels = meta.get("labels") if isinstance(meta, dict) else None
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": action.name,
            "namespace": daemonset.namespace,
            "labels": {**(labels if isinstance(labels, dict) else {}), HASH_LABEL: action.hash},
            "annotations": {**daemonset.annotations, NEVER_RAN_ANNOTATION: "true"},
            "ownerReferences": [owner_reference(daemonset)],
        },
        "data": revision.payload(daemonset.spec.template),
        "revision": action.number,
    }
