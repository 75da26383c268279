"""What a puller's status says, as real kubelets write it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.api.image_pull_job import JOB_KIND
from controller.api.puller import Puller, Pulling
from controller.kube.decode import Decoder
from controller.kube.kinds import PULLERS

OWNER = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": JOB_KIND, "name": "pull", "uid": "j1", "controller": True}
NOT_FOUND = 'failed to pull and unpack image "agent:v2":\n not found'
REFUSED = (
    'failed to pull and unpack image "registry.test/agent:v1": failed to resolve image: failed to do request: '
    'Head "http://127.0.0.1:9/v2/agent/manifests/v1?ns=%5BREDACTED%5D": dial tcp 127.0.0.1:9: connect: '
    "connection refused"
)
START_ERROR = {"reason": "StartError", "exitCode": 128, "message": "exec: no such file"}


def read(status: dict[str, Any], **metadata: Any) -> Puller | None:
    meta = {"namespace": "default", "name": "pull-x", "uid": "p1", "ownerReferences": [OWNER], **metadata}
    body = {"metadata": meta, "spec": {"nodeName": "node-1"}, "status": status}
    return Decoder(PULLERS).single(msgspec.json.encode(body))


def container(**fields: Any) -> dict[str, Any]:
    return {"phase": "Pending", "containerStatuses": [{"name": "pull", "image": "agent:v2", **fields}]}


def waiting(reason: str, message: str = "", **fields: Any) -> dict[str, Any]:
    return container(state={"waiting": {"reason": reason, "message": message}}, imageID="", **fields)


@pytest.mark.parametrize(
    "status",
    [
        container(state={"terminated": START_ERROR}, imageID="agent@sha256:00", containerID="c"),
        container(state={"terminated": START_ERROR}, imageID=""),
        container(state={"running": {}}, imageID="agent@sha256:00"),
        waiting("RunContainerError", lastState={"terminated": START_ERROR}),
        waiting("CreateContainerError", "no command specified"),
        waiting("CreateContainerConfigError", "image will run as root"),
        waiting("CrashLoopBackOff", lastState={"terminated": START_ERROR}),
    ],
)
def test_the_image_is_there_once_the_kubelet_has_come_to_the_container(status: dict[str, Any]) -> None:
    found = read(status)
    assert found is not None
    assert (found.state, found.why) == (Pulling.DONE, "")


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (waiting("ErrImagePull", NOT_FOUND), f"ErrImagePull: {NOT_FOUND}".replace("\n", "")),
        (waiting("ErrImagePull", REFUSED), f"ErrImagePull: {REFUSED}"),
        (waiting("ImagePullBackOff", "Back-off"), "ImagePullBackOff: Back-off"),
        (waiting("InvalidImageName"), "InvalidImageName"),
        (waiting("ErrImageNeverPull"), "ErrImageNeverPull"),
        ({"phase": "Failed", "reason": "Evicted", "message": "disk"}, "Evicted: disk"),
        ({"phase": "Failed"}, "the pod ended"),
        (
            container(state={"terminated": {"reason": "ContainerStatusUnknown"}}) | {"phase": "Failed"},
            "the pod ended",
        ),
    ],
)
def test_it_has_failed_in_the_kubelets_words(status: dict[str, Any], why: str) -> None:
    found = read(status)
    assert found is not None
    assert (found.state, found.why) == (Pulling.FAILED, why)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({}, ""),
        ({"phase": "Pending"}, ""),
        (waiting("ContainerCreating"), ""),
        (
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]},
            "the scheduler has not bound the pod",
        ),
        ({"phase": "Running", "containerStatuses": [{"name": "injected", "imageID": "proxy@sha256:00"}]}, ""),
    ],
)
def test_else_it_goes_on(status: dict[str, Any], why: str) -> None:
    found = read(status)
    assert found is not None
    assert (found.state, found.why) == (Pulling.UNDERWAY, why)


def test_a_word_of_a_megabyte_is_cut() -> None:
    found = read(waiting("ErrImagePull", "x" * 1_000_000))
    assert found is not None
    assert len(found.why) <= 500


@pytest.mark.parametrize("other", [{"kind": "Job"}, {"apiVersion": "batch/v1"}, {"controller": False}])
def test_a_pod_of_somebody_else_is_none(other: dict[str, Any]) -> None:
    assert read({}, ownerReferences=[OWNER | other]) is None


def test_a_puller_names_its_job_and_node() -> None:
    found = read({}, deletionTimestamp="2026-11-22T10:00:00Z")
    assert found is not None
    assert (found.job, found.job_uid, found.node, found.dying) == ("pull", "j1", "node-1", True)
