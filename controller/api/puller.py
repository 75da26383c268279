"""Puller pods: the view, the record, and what each reports about its one image.

A puller runs nothing, because its command does not exist: the kubelet pulls the image, creates the container and
fails to start it. That is success: docs/design/kubelet.md#a-pod-that-only-pulls.
"""

from __future__ import annotations

from enum import StrEnum
from sys import intern
from typing import Final

from controller.api.container import ContainerStateView, ContainerStatusView, WaitingView
from controller.api.image_pull_job import job_of
from controller.api.meta import Named, ObjectMeta, OwnerReference
from controller.api.pod import PodStatusView, PodView, target_node
from controller.api.text import shortened

PULLER_LABEL: Final = "kruise-ds/image-pull-job"
"""Label of every puller: the uid of its job."""
MANAGED: Final = {"app.kubernetes.io/managed-by": "kruise-ds"}
"""Labels of every puller. They identify a puller whose owner reference was removed."""
CONTAINER: Final = "pull"

NOT_PULLED: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
PULLED_REASONS: Final = frozenset(
    {
        "RunContainerError",
        "CreateContainerError",
        "CreateContainerConfigError",
        "PreCreateHookError",
        "CrashLoopBackOff",
    }
)
"""Waiting reasons that prove that the image is on the node. A container of an image without any program keeps one of
them for ever."""
LONGEST_WHY: Final = 500
"""Characters of the message of the kubelet; the answer of the registry is at its end."""
LOST: Final = "ContainerStatusUnknown"
"""The reason in the status of a container whose end the kubelet did not see."""


class Pulling(StrEnum):
    UNDERWAY = "pulling"
    DONE = "pulled"
    FAILED = "failed"


class Puller(Named):
    """A puller as it is cached."""

    job: str
    """The name of its job, in its own namespace; empty: it has lost its owner."""
    job_uid: str
    node: str
    image: str
    """What its container pulls: admission may have changed what the job asked for."""
    dying: bool
    state: Pulling
    why: str
    """What is wrong, in the words of the kubelet or the scheduler; empty: nothing."""


def project(view: PodView) -> Puller | None:
    meta, owner = view.metadata, job_of(view.metadata) or _nobody(view.metadata)
    if owner is None:
        return None
    state, why = _progress(view.status)
    return Puller(
        namespace=intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        job=owner.name,
        job_uid=intern(owner.uid),
        node=intern(target_node(view.spec)),
        image=intern(next((one.image for one in view.spec.containers or () if one.name == CONTAINER), "")),
        dying=meta.deletion_timestamp is not None,
        state=state,
        why=shortened(why, LONGEST_WHY),
    )


def _nobody(meta: ObjectMeta) -> OwnerReference | None:
    """An empty reference for an orphaned puller, as after `kubectl delete --cascade=orphan`; None for other pods."""
    owned = any(owner.controller for owner in meta.owner_references or ())
    ours = (meta.labels or {}).items() >= MANAGED.items()
    return OwnerReference() if ours and not owned else None


def _progress(status: PodStatusView) -> tuple[Pulling, str]:
    one = next((one for one in status.container_statuses or () if one.name == CONTAINER), ContainerStatusView())
    state, last = one.state or ContainerStateView(), one.last_state or ContainerStateView()
    waiting, ended = state.waiting or WaitingView(), state.terminated or last.terminated
    if one.image_id or waiting.reason in PULLED_REASONS or (ended is not None and ended.reason != LOST):
        return Pulling.DONE, ""
    if waiting.reason in NOT_PULLED:
        return Pulling.FAILED, _words(waiting.reason, waiting.message)
    if status.phase in ("Failed", "Succeeded"):
        return Pulling.FAILED, _words(status.reason or "the pod ended", status.message)
    unscheduled = any(one.type == "PodScheduled" and one.status == "False" for one in status.conditions or ())
    return Pulling.UNDERWAY, "the scheduler has not bound the pod" if unscheduled else ""


def _words(reason: str, message: str) -> str:
    line = " ".join(message.split())
    return f"{reason}: {line}" if line else reason
