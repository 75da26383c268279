"""Names of labels, annotations, conditions and reasons (our own: `kruise-ds/`), and texts of API server errors."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

GROUP: Final = "apps.kruise.io"
VERSION: Final = "v1beta1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "DaemonSet"
SYSTEM_NAMESPACE: Final = "kruise-ds-system"
"""Default namespace of the controller and its Lease."""
LEASE_NAME: Final = "kruise-ds-controller"
"""The leader election Lease; manifests/base/leader-election.yaml grants it by this name."""

HASH_LABEL: Final = "controller-revision-hash"
NEVER_RAN_ANNOTATION: Final = "kruise-ds/never-ran"
"""On a ControllerRevision that no pod has run yet: never a fallback for nodes, and validated strictly."""
LIFECYCLE_STATE_LABEL: Final = "lifecycle.apps.kruise.io/state"
OWN_LABELS: Final = frozenset({HASH_LABEL, LIFECYCLE_STATE_LABEL})
"""Pod labels that the controller writes, so that no selector may use them."""
PREPARING_DELETE: Final = "PreparingDelete"
LIFECYCLE_TIMESTAMP_ANNOTATION: Final = "lifecycle.apps.kruise.io/timestamp"
"""On a pod: when its lifecycle state changed (RFC 3339)."""
PRE_DELETE_DEADLINE_ANNOTATION: Final = "kruise-ds/pre-delete-deadline-seconds"
"""On a DaemonSet: seconds (at least 1) after which a pod has been held for deletion for too long."""
PRE_DELETE_DEADLINE_SECONDS: Final = 3600

IN_PLACE_IF_POSSIBLE: Final = "InPlaceIfPossible"
IN_PLACE_UPDATE_READY: Final = "InPlaceUpdateReady"
"""Readiness gate and condition of pods that may be updated in place."""
START_IN_PLACE_UPDATE: Final = "StartInPlaceUpdate"
KRUISE_POD_READY: Final = "KruisePodReady"
"""Readiness gate and condition of pods that lose their traffic before deletion."""
IN_PLACE_STATE_ANNOTATION: Final = "apps.kruise.io/inplace-update-state"
IN_PLACE_STATE_LEGACY: Final = "inplace-update-state"
NODE_AGENT_ANNOTATION: Final = "apps.kruise.io/runtime-containers-meta"
"""On a pod whose containers the OpenKruise node agent restarts."""
CONTAINER_BARRIER: Final = "KRUISE_CONTAINER_BARRIER"
"""Environment variable of a container with a launch priority; its ConfigMap key is `p_<priority>`."""
RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
RESIZE_GATE: Final = "InPlaceWorkloadVerticalScaling"
ENV_GATE: Final = "InPlaceUpdateEnvFromMetadata"
IN_PLACE_GRACE_ANNOTATION: Final = "kruise-ds/in-place-grace-seconds"
"""On a DaemonSet: seconds between marking a pod not ready and updating it in place, to drain traffic."""
LONGEST_IN_PLACE_GRACE: Final = 3600
RESIZE_FALLBACK_ANNOTATION: Final = "kruise-ds/resize-fallback"
"""On a DaemonSet: `Recreate` recreates a pod whose resize is refused."""

UNKNOWN_FIELDS_ANNOTATION: Final = "kruise-ds/unknown-fields"
"""On a DaemonSet: `allow` creates pods without the template fields that the server does not know."""

APPROVE_ANNOTATION: Final = "kruise-ds/approve"
"""On a DaemonSet: `<revision>/<step>` approves this step of this revision's rollout."""
SKIP_STEPS_ANNOTATION: Final = "kruise-ds/skip-steps"
"""On a DaemonSet: the hash of a revision that is rolled out without steps."""
RETRY_ANNOTATION: Final = "kruise-ds/retry"
"""On a DaemonSet: `<revision>` or `<revision>/<anything>` tries this aborted revision again, once for each value."""
LONGEST_SOAK: Final = 30 * 86_400
"""Seconds."""

PROGRESSIVE_ANNOTATION: Final = "daemonset.kruise.io/progressive-create-pod"
PROGRESS_DEADLINE_ANNOTATION: Final = "kruise-ds/progress-deadline-seconds"
"""On a DaemonSet: seconds without progress until a rollout is stalled, from 1 to `LONGEST_PROGRESS_DEADLINE`."""
LONGEST_PROGRESS_DEADLINE: Final = 2_147_483_647
"""68 years, which Deployments take for "never"."""
PROGRESS_DEADLINE_SECONDS: Final = 600
"""The default, as for Deployments."""

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
"""Condition types that this controller owns; other entries of `status.conditions` are left alone."""

WRITES_FAIL: Final = "WritesFail"
PODS_UNAVAILABLE: Final = "PodsUnavailable"
PODS_DO_NOT_LAST: Final = "PodsDoNotLast"
ALL_AVAILABLE: Final = "AllAvailable"
AS_EXPECTED: Final = "AsExpected"
NO_POD_MATCHES: Final = "NoPodMatches"
"""Condition reasons without an Event, besides phases and `planner.blocker_texts.WaitReason`."""

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
ROLLOUT_ABORTED: Final = "RolloutAborted"
AWAITING_APPROVAL: Final = "AwaitingApproval"
CHECK_FAILING: Final = "CheckFailing"
ROLLOUT_HELD: Final = "RolloutHeld"
SERVER_WARNING: Final = "ServerWarning"
INVALID_ANNOTATION: Final = "InvalidAnnotation"
CREATED_IMAGE_PULL_JOB: Final = "CreatedImagePullJob"
FAILED_CREATE_IMAGE_PULL_JOB: Final = "FailedCreateImagePullJob"
PRE_DOWNLOAD_DEFERRED: Final = "PreDownloadDeferred"
PARALLELISM_ANNOTATION: Final = "apps.kruise.io/image-predownload-parallelism"
TIMEOUT_ANNOTATION: Final = "apps.kruise.io/image-predownload-timeout-seconds"
MIN_UPDATED_ANNOTATION: Final = "apps.kruise.io/image-predownload-min-updated-ready-pods"
"""On a DaemonSet, for its ImagePullJobs: nodes at a time, seconds per attempt, and updated pods needed first."""
PREDOWNLOAD_WAIT_ANNOTATION: Final = "kruise-ds/image-predownload-wait"
"""On a DaemonSet: whether updates wait for predownloaded images, true or false."""
SERVICE_ACCOUNT_ANNOTATION: Final = "kruise-ds/service-account-name"
"""On an ImagePullJob: the ServiceAccount whose pull secrets its pullers use."""


class InPlaceRefusal(StrEnum):
    """Why a pod is recreated instead of updated in place. A metric label."""

    TEMPLATE = "Template"
    RESOURCES = "Resources"
    """A changed resource is immutable in a running pod, or in-place resizing is off."""
    RESIZE_REFUSED = "ResizeRefused"
    RESTART = "Restart"
    READINESS_GATE = "ReadinessGate"
    """The pod was created without our readiness gate."""
    NODE_AGENT = "NodeAgent"
    """A container reads changed metadata, and no node agent restarts it."""
    ADMISSION = "Admission"
    """Admission changed images or resources at creation, but would not change the new ones."""
    OTHER = "Other"


_QUOTA_EXCEEDED: Final = re.compile(r'(?:create [^:"]+: )?[a-z.]+ "[^"]*" is forbidden: exceeded quota: ')
_UNKNOWN_FIELDS: Final = re.compile(r'strict decoding error: .*?unknown field "')
_UNKNOWN_FIELD: Final = re.compile(r'unknown field "((?:[^"\\]|\\.)*)"')


def is_quota_exceeded(message: str) -> bool:
    """Whether a 403 message, with or without its request prefix, is the API server's for an exhausted ResourceQuota.
    Such a 403 has no reason of its own; webhooks may use the same words, but not at the beginning."""
    return _QUOTA_EXCEEDED.match(message) is not None


def unknown_fields(message: str) -> tuple[str, ...]:
    """The unknown fields in an error of `fieldValidation=Strict`, or (). A truncated message lacks the last ones."""
    found = (field.rstrip() for field in _UNKNOWN_FIELD.findall(message))
    return tuple(dict.fromkeys(found)) if _UNKNOWN_FIELDS.search(message) else ()
