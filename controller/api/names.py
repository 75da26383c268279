"""All names of labels, annotations, conditions and reasons in one table. They are the public names of OpenKruise and
Kubernetes; names of our own start with `kruise-ds/`.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

GROUP: Final = "apps.kruise.io"
VERSION: Final = "v1beta1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "DaemonSet"
LEASE_NAME: Final = "kruise-ds-controller"
"""The Lease that the leader holds; manifests/base/leader-election.yaml grants it by this name."""


_FULL_QUOTA: Final = re.compile(r'(?:create [^:"]+: )?[a-z.]+ "[^"]*" is forbidden: exceeded quota: ')


def is_quota_exceeded(words: str) -> bool:
    """Whether this is the API server's own message for a ResourceQuota that is used up, also behind `request_words`.
    Such a 403 has no reason of its own. Policies and webhooks may use the same words, but not at the beginning."""
    return _FULL_QUOTA.match(words) is not None


_UNKNOWN_FIELDS: Final = re.compile(r'strict decoding error: .*?unknown field "')
_UNKNOWN_FIELD: Final = re.compile(r'unknown field "((?:[^"\\]|\\.)*)"')


def unknown_fields(words: str) -> tuple[str, ...]:
    """The paths of the fields that the API server does not know, in its own message for `fieldValidation=Strict`;
    empty for any other message. A message that is cut names only the first of them."""
    found = (field.rstrip() for field in _UNKNOWN_FIELD.findall(words))
    return tuple(dict.fromkeys(found)) if _UNKNOWN_FIELDS.search(words) else ()


def request_words(verb: str, what: str) -> str:
    """The beginning of the message of a failed request. The plugin recognises by it which request of the controller
    failed."""
    return f"{verb} {what}"


HASH_LABEL: Final = "controller-revision-hash"
NEVER_RAN_ANNOTATION: Final = "kruise-ds/never-ran"
"""On a ControllerRevision that no pod of the DaemonSet has had yet: no node falls back to it, and its fields are
checked strictly. Removed once a pod has it."""
LIFECYCLE_STATE_LABEL: Final = "lifecycle.apps.kruise.io/state"
OWN_LABELS: Final = frozenset({HASH_LABEL, LIFECYCLE_STATE_LABEL})
"""Labels of pods that the controller writes. A selector that asks for one would lose and find its pods in turn."""
PREPARING_DELETE: Final = "PreparingDelete"
LIFECYCLE_TIMESTAMP_ANNOTATION: Final = "lifecycle.apps.kruise.io/timestamp"
"""On pods: when the state changed, in RFC 3339."""
PRE_DELETE_DEADLINE_ANNOTATION: Final = "kruise-ds/pre-delete-deadline-seconds"
"""On a DaemonSet: seconds after which a pod counts as prepared for too long, a whole number from 1."""
PRE_DELETE_DEADLINE_SECONDS: Final = 3600
"""Seconds if the annotation is missing or cannot be read."""

IN_PLACE_IF_POSSIBLE: Final = "InPlaceIfPossible"
IN_PLACE_UPDATE_READY: Final = "InPlaceUpdateReady"
"""Readiness gate, and condition, of pods that may be updated in place."""
START_IN_PLACE_UPDATE: Final = "StartInPlaceUpdate"
"""Reason of that condition while it is False for an update."""
KRUISE_POD_READY: Final = "KruisePodReady"
"""Readiness gate, and condition, of pods that lose their traffic before they are deleted."""
IN_PLACE_STATE_ANNOTATION: Final = "apps.kruise.io/inplace-update-state"
IN_PLACE_STATE_LEGACY: Final = "inplace-update-state"
NODE_AGENT_ANNOTATION: Final = "apps.kruise.io/runtime-containers-meta"
"""On pods whose containers the node agent of OpenKruise takes care of."""
CONTAINER_BARRIER: Final = "KRUISE_CONTAINER_BARRIER"
"""Environment variable of containers with a launch priority; its key in a ConfigMap is `p_` and the priority."""
RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
"""On a pod template: when a restart of its pods was asked for, as `kubectl rollout restart` writes it."""
RESIZE_GATE: Final = "InPlaceWorkloadVerticalScaling"
"""Feature gate: cpu and memory may change in place."""
ENV_GATE: Final = "InPlaceUpdateEnvFromMetadata"
IN_PLACE_GRACE_ANNOTATION: Final = "kruise-ds/in-place-grace-seconds"
"""On a DaemonSet: seconds between making a pod not ready and updating it in place, for its traffic to leave."""
LONGEST_IN_PLACE_GRACE: Final = 3600
RESIZE_FALLBACK_ANNOTATION: Final = "kruise-ds/resize-fallback"
"""On a DaemonSet: `Recreate` replaces a pod whose resize is refused by a new one; any other value leaves it."""

UNKNOWN_FIELDS_ANNOTATION: Final = "kruise-ds/unknown-fields"
"""On a DaemonSet: with `allow`, fields of the template that the server does not know hold nothing up; pods are made
without them."""

PROGRESSIVE_ANNOTATION: Final = "daemonset.kruise.io/progressive-create-pod"
PROGRESS_DEADLINE_ANNOTATION: Final = "kruise-ds/progress-deadline-seconds"
"""On a DaemonSet: seconds without progress until a rollout is stalled, a whole number from 1 to the next constant."""
LONGEST_PROGRESS_DEADLINE: Final = 2_147_483_647
"""68 years, which Deployments take for "never"."""
PROGRESS_DEADLINE_SECONDS: Final = 600
"""Seconds if the annotation is missing or cannot be read, as for Deployments."""

TAINT_NOT_READY: Final = "node.kubernetes.io/not-ready"
TAINT_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
TAINT_DISK_PRESSURE: Final = "node.kubernetes.io/disk-pressure"
TAINT_MEMORY_PRESSURE: Final = "node.kubernetes.io/memory-pressure"
TAINT_PID_PRESSURE: Final = "node.kubernetes.io/pid-pressure"
TAINT_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
TAINT_NETWORK_UNAVAILABLE: Final = "node.kubernetes.io/network-unavailable"

PROGRESSING: Final = "Progressing"
AVAILABLE: Final = "Available"
DEGRADED: Final = "Degraded"
HOOK_UNMATCHED: Final = "HookUnmatched"
READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"
CONDITION_TYPES: Final = (PROGRESSING, AVAILABLE, DEGRADED, READY, RECONCILING, STALLED, HOOK_UNMATCHED)
"""The condition types that this controller owns; every other entry of `status.conditions` is left alone."""

WRITES_FAIL: Final = "WritesFail"
PODS_UNAVAILABLE: Final = "PodsUnavailable"
PODS_DO_NOT_LAST: Final = "PodsDoNotLast"
"""Condition reasons that no Event has, beside `planner.blocker_texts.WaitReason`. The plugin reads them too."""

EVENT_SOURCE: Final = "daemonset-controller"
SUCCESSFUL_CREATE: Final = "SuccessfulCreate"
FAILED_CREATE: Final = "FailedCreate"
SUCCESSFUL_DELETE: Final = "SuccessfulDelete"
FAILED_DELETE: Final = "FailedDelete"
PREPARED_DELETE: Final = "PreparingDelete"
CANCELLED_DELETE: Final = "CancelledDelete"
UPDATED_IN_PLACE: Final = "SuccessfulUpdatePodInPlace"
FAILED_IN_PLACE: Final = "FailedUpdatePodInPlace"
NOT_IN_PLACE: Final = "InPlaceUpdateNotPossible"
RESIZE_REFUSED: Final = "ResizeRefused"
RESIZE_DEFERRED: Final = "ResizeDeferred"
FAILED_DAEMON_POD: Final = "FailedDaemonPod"
SUCCEEDED_DAEMON_POD: Final = "SucceededDaemonPod"
SELECTING_ALL: Final = "SelectingAll"
INVALID_SPEC: Final = "InvalidSpec"
TEMPLATE_REFUSED: Final = "TemplateRefused"
MALFORMED_OBJECT: Final = "MalformedObject"
PROGRESS_DEADLINE_EXCEEDED: Final = "ProgressDeadlineExceeded"
ROLLOUT_COMPLETE: Final = "RolloutComplete"
ROLLOUT_HELD: Final = "RolloutHeld"
SERVER_WARNING: Final = "ServerWarning"
INVALID_ANNOTATION: Final = "InvalidAnnotation"
CREATED_IMAGE_PULL_JOB: Final = "CreatedImagePullJob"
FAILED_CREATE_IMAGE_PULL_JOB: Final = "FailedCreateImagePullJob"
PRE_DOWNLOAD_DEFERRED: Final = "PreDownloadDeferred"
PARALLELISM_ANNOTATION: Final = "apps.kruise.io/image-predownload-parallelism"
TIMEOUT_ANNOTATION: Final = "apps.kruise.io/image-predownload-timeout-seconds"
MIN_UPDATED_ANNOTATION: Final = "apps.kruise.io/image-predownload-min-updated-ready-pods"
"""On a DaemonSet, for the ImagePullJobs of its rollouts: nodes at a time, seconds for one attempt, and how many
updated pods must be ready before."""
PREDOWNLOAD_WAIT_ANNOTATION: Final = "kruise-ds/image-predownload-wait"
"""On a DaemonSet: whether the update of each node waits for images that are pulled in advance, true or false."""
SERVICE_ACCOUNT_ANNOTATION: Final = "kruise-ds/service-account-name"
"""On an ImagePullJob: the ServiceAccount of its pullers, for its pull secrets."""


class InPlaceRefusal(StrEnum):
    """Why a pod is recreated although an update in place was asked for, by the names of the metrics."""

    TEMPLATE = "Template"
    """A field differs that cannot change in a running pod."""
    RESOURCES = "Resources"
    """Resources differ that cannot change in a running pod, or cpu and memory may not change in place."""
    RESIZE_REFUSED = "ResizeRefused"
    RESTART = "Restart"
    READINESS_GATE = "ReadinessGate"
    """The pod was created without our readiness gate."""
    NODE_AGENT = "NodeAgent"
    """A container reads changed metadata, and no node agent can be relied on to restart it."""
    ADMISSION = "Admission"
    """Admission changed image or resources at creation, and would not change the new ones."""
    OTHER = "Other"
