"""The operations that prepare one pod for its deletion, and that take this back, on the pod as it was just read.
Every one is safe to repeat."""

from __future__ import annotations

from collections.abc import Mapping

from controller.api import patch
from controller.api.base import JSONObject
from controller.api.gates import marked, unmarked
from controller.api.in_place_state import PodDocument
from controller.api.meta import rfc3339
from controller.api.wellknown import (
    KRUISE_POD_READY,
    LIFECYCLE_STATE_LABEL,
    LIFECYCLE_TIMESTAMP_ANNOTATION,
    PREPARING_DELETE,
)


def marking(pod: PodDocument, now: float, *, mark: bool) -> tuple[JSONObject, ...]:
    """On the status: not ready, where that is asked for and the pod has the gate; else that is taken back."""
    if not mark:
        return unmarked(pod.status.conditions, rfc3339(now))
    gates = {gate.condition_type for gate in pod.spec.readiness_gates or ()}
    return marked(pod.status.conditions, rfc3339(now)) if KRUISE_POD_READY in gates else ()


def preparing(pod: PodDocument, now: float) -> tuple[JSONObject, ...]:
    """The state, and since when; a pod that is in it already keeps that."""
    meta = pod.metadata
    if (meta.labels or {}).get(LIFECYCLE_STATE_LABEL) == PREPARING_DELETE:
        return ()
    return (
        *patch.merged("labels", {LIFECYCLE_STATE_LABEL: PREPARING_DELETE}, meta.labels),
        *patch.merged("annotations", {LIFECYCLE_TIMESTAMP_ANNOTATION: rfc3339(now)}, meta.annotations),
    )


def cancelling(pod: PodDocument, labels: Mapping[str, str]) -> tuple[JSONObject, ...]:
    """`labels` are given back with it."""
    meta = pod.metadata
    if (meta.labels or {}).get(LIFECYCLE_STATE_LABEL) != PREPARING_DELETE:
        return ()
    return (
        *patch.merged("labels", {LIFECYCLE_STATE_LABEL: None, **labels}, meta.labels),
        *patch.merged("annotations", {LIFECYCLE_TIMESTAMP_ANNOTATION: None}, meta.annotations),
    )
