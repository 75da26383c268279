"""Makes the JSON Patch operations that prepare one pod for its deletion, and that take this back, for the pod as it
was just read. All are safe to repeat."""

from __future__ import annotations

from collections.abc import Mapping

from controller.api import patch
from controller.api.base import JSONObject
from controller.api.gates import marked, unmarked
from controller.api.meta import rfc3339
from controller.api.pod import PodView
from controller.api.wellknown import (
    KRUISE_POD_READY,
    LIFECYCLE_STATE_LABEL,
    LIFECYCLE_TIMESTAMP_ANNOTATION,
    PREPARING_DELETE,
)


def marking(pod: PodView, now: float, *, mark: bool) -> tuple[JSONObject, ...]:
    """Operations on the status that make the pod not ready if `mark` is set and it has the readiness gate; without
    `mark`, that take this back."""
    if not mark:
        return unmarked(pod.status.conditions or (), rfc3339(now))
    gates = {gate.condition_type for gate in pod.spec.readiness_gates or ()}
    return marked(pod.status.conditions or (), rfc3339(now)) if KRUISE_POD_READY in gates else ()


def preparing(pod: PodView, now: float) -> tuple[JSONObject, ...]:
    """Operations that write the state PreparingDelete and its time; none for a pod that is in this state already."""
    meta = pod.metadata
    if (meta.labels or {}).get(LIFECYCLE_STATE_LABEL) == PREPARING_DELETE:
        return ()
    return (
        *patch.merged("labels", {LIFECYCLE_STATE_LABEL: PREPARING_DELETE}, meta.labels),
        *patch.merged("annotations", {LIFECYCLE_TIMESTAMP_ANNOTATION: rfc3339(now)}, meta.annotations),
    )


def cancelling(pod: PodView, labels: Mapping[str, str]) -> tuple[JSONObject, ...]:
    """Operations that take the state back, and set `labels` again."""
    meta = pod.metadata
    if (meta.labels or {}).get(LIFECYCLE_STATE_LABEL) != PREPARING_DELETE:
        return ()
    return (
        *patch.merged("labels", {LIFECYCLE_STATE_LABEL: None, **labels}, meta.labels),
        *patch.merged("annotations", {LIFECYCLE_TIMESTAMP_ANNOTATION: None}, meta.annotations),
    )
