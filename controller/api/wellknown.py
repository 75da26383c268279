"""Every label, annotation, condition and reason name in one table. Names are the public ones of OpenKruise and
Kubernetes; keys that are ours alone start with `kruise-ds/`."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

GROUP: Final = "apps.kruise.io"
VERSION: Final = "v1beta1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "DaemonSet"
LEASE_NAME: Final = "kruise-ds-controller"
"""The Lease that the leader holds; manifests/base/leader-election.yaml grants it by this name."""


def tells_of_full_quota(words: str) -> bool:
    """Whether these are the server's words for a ResourceQuota that is used up: a 403 without a reason of its own."""
    return "exceeded quota" in words


HASH_LABEL: Final = "controller-revision-hash"
LIFECYCLE_STATE_LABEL: Final = "lifecycle.apps.kruise.io/state"
PREPARING_DELETE: Final = "PreparingDelete"
LIFECYCLE_TIMESTAMP_ANNOTATION: Final = "lifecycle.apps.kruise.io/timestamp"
"""On pods: when the state changed, in RFC 3339."""
PRE_DELETE_DEADLINE_ANNOTATION: Final = "kruise-ds/pre-delete-deadline-seconds"
"""On a DaemonSet: seconds after which a pod counts as prepared for too long, a whole number from 1 on."""
PRE_DELETE_DEADLINE_SECONDS: Final = 3600
"""Where the annotation says nothing, or nothing that can be read."""

IN_PLACE_IF_POSSIBLE: Final = "InPlaceIfPossible"
IN_PLACE_UPDATE_READY: Final = "InPlaceUpdateReady"
"""Readiness gate of pods that may be updated in place, and its condition."""
START_IN_PLACE_UPDATE: Final = "StartInPlaceUpdate"
"""Reason of that condition while it is False for an update."""
KRUISE_POD_READY: Final = "KruisePodReady"
"""Readiness gate of pods that leave their traffic before they are deleted, and its condition."""
IN_PLACE_STATE_ANNOTATION: Final = "apps.kruise.io/inplace-update-state"
IN_PLACE_STATE_LEGACY: Final = "inplace-update-state"
NODE_AGENT_ANNOTATION: Final = "apps.kruise.io/runtime-containers-meta"
"""On pods of whose containers OpenKruise's node agent takes care."""
CONTAINER_BARRIER: Final = "KRUISE_CONTAINER_BARRIER"
"""Environment variable of containers with a launch priority; its key in a ConfigMap is `p_` and the priority."""
RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
"""In the annotations of a pod template: that its pods were to be restarted, and when; as `kubectl rollout restart`
writes it."""
RESIZE_GATE: Final = "InPlaceWorkloadVerticalScaling"
"""Feature gate: cpu and memory are changed in place."""
ENV_GATE: Final = "InPlaceUpdateEnvFromMetadata"
IN_PLACE_GRACE_ANNOTATION: Final = "kruise-ds/in-place-grace-seconds"
"""On a DaemonSet: seconds between "not ready" and the change of a pod in place, for its traffic to go elsewhere."""
LONGEST_IN_PLACE_GRACE: Final = 3600
RESIZE_FALLBACK_ANNOTATION: Final = "kruise-ds/resize-fallback"
"""On a DaemonSet: `Recreate` makes a new pod of one whose resize is refused; anything else leaves it as it is."""

PROGRESSIVE_ANNOTATION: Final = "daemonset.kruise.io/progressive-create-pod"
PROGRESS_DEADLINE_ANNOTATION: Final = "kruise-ds/progress-deadline-seconds"
"""Seconds without progress after which a rollout counts as stalled: a whole number from 1 to the following."""
LONGEST_PROGRESS_DEADLINE: Final = 2_147_483_647
"""Sixty-eight years: what Deployments take for never."""
PROGRESS_DEADLINE_SECONDS: Final = 600
"""Where the annotation says nothing, or nothing that can be read; as for Deployments."""

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
HELD_BY_HOOK: Final = "HeldByLifecycleHook"
MALFORMED_OBJECT: Final = "MalformedObject"
PROGRESS_DEADLINE_EXCEEDED: Final = "ProgressDeadlineExceeded"
ROLLOUT_COMPLETE: Final = "RolloutComplete"
ROLLOUT_HELD: Final = "RolloutHeld"
INVALID_ANNOTATION: Final = "InvalidAnnotation"
CREATED_IMAGE_PULL_JOB: Final = "CreatedImagePullJob"
FAILED_CREATE_IMAGE_PULL_JOB: Final = "FailedCreateImagePullJob"
PRE_DOWNLOAD_DEFERRED: Final = "PreDownloadDeferred"
PARALLELISM_ANNOTATION: Final = "apps.kruise.io/image-predownload-parallelism"
TIMEOUT_ANNOTATION: Final = "apps.kruise.io/image-predownload-timeout-seconds"
MIN_UPDATED_ANNOTATION: Final = "apps.kruise.io/image-predownload-min-updated-ready-pods"
"""Of the ImagePullJobs that a rollout makes: nodes at a time, seconds for one attempt, and how many updated pods have
to be ready before."""
PREDOWNLOAD_WAIT_ANNOTATION: Final = "kruise-ds/image-predownload-wait"
"""Whether the rollout waits on each node for the images that go ahead of it: true or false."""
SERVICE_ACCOUNT_ANNOTATION: Final = "kruise-ds/service-account-name"
"""On an ImagePullJob: the ServiceAccount of its namespace under which its pullers run, for its pull secrets."""


class InPlaceRefusal(StrEnum):
    """Why a pod is recreated although an update in place was asked for, as metrics name it."""

    TEMPLATE = "Template"
    """A field differs that no running pod takes."""
    RESOURCES = "Resources"
    """Resources differ that no running pod takes, or cpu and memory are not to be changed in place."""
    RESIZE_REFUSED = "ResizeRefused"
    RESTART = "Restart"
    READINESS_GATE = "ReadinessGate"
    """The pod was made without."""
    NODE_AGENT = "NodeAgent"
    """None restarts a container that reads changed metadata: there is none, or it is not to be relied on."""
    OTHER = "Other"
