"""Names of images, which nodes pull them, and their pullers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.api.containers import canonical, digest_of, same_image
from controller.api.image_pull_job import JOB_KIND, Puller, PullState, targets
from controller.api.names import TAINT_NOT_READY, TAINT_UNREACHABLE
from controller.kube.decode import Decoder
from controller.kube.requests import PULLERS
from tests.beds.worlds import node, taint
from tests.unit.controller.imagepull.worlds import job

D, E = "sha256:" + "a" * 64, "sha256:" + "b" * 64


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.29", "docker.io/library/nginx:1.29"),
        ("docker.io/nginx:1.29", "docker.io/library/nginx:1.29"),
        ("index.docker.io/library/nginx", "docker.io/library/nginx:latest"),
        ("someone/tool:2", "docker.io/someone/tool:2"),
        ("registry.example.com/tool", "registry.example.com/tool:latest"),
        ("registry.example.com/a/b/tool:2", "registry.example.com/a/b/tool:2"),
        ("host:5000/tool", "host:5000/tool:latest"),
        ("localhost/tool:2", "localhost/tool:2"),
        (f"nginx@{D}", f"docker.io/library/nginx@{D}"),
        (f"host:5000/tool:2@{D}", f"host:5000/tool@{D}"),
    ],
)
def test_an_image_has_one_canonical_name(reference: str, name: str) -> None:
    assert canonical(reference) == name
    assert canonical(name) == name


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("nginx", "library/nginx:latest", True),
        ("nginx:1", "index.docker.io/library/nginx:1", True),
        (f"nginx:1@{D}", f"nginx:2@{D}", True),
        (f"localhost:5000/agent:1@{D}", f"localhost:5000/agent@{D}", True),
        ("nginx:1", "nginx:2", False),
        ("nginx", "registry.example/nginx", False),
        ("kruise/agent", "library/agent", False),
        ("localhost:5000/agent", "localhost:5001/agent", False),
        ("localhost/agent", "docker.io/localhost/agent", False),
        ("registry.example/agent", "docker.io/registry.example/agent", False),
        (f"nginx@{D}", f"nginx@{E}", False),
        (f"nginx@{D}", "nginx", False),
        ("Nginx", "nginx", False),
        ("", "nginx", False),
    ],
)
def test_whether_two_names_are_of_the_same_image(one: str, other: str, same: bool) -> None:
    assert same_image(one, other) is same_image(other, one) is same


@pytest.mark.parametrize(
    ("reference", "digest"),
    [("nginx:1", ""), (f"nginx@{D}", D), (f"localhost:5000/nginx:1@{D}", D), (D, ""), ("", "")],
)
def test_the_digest_of_a_reference(reference: str, digest: str) -> None:
    assert digest_of(reference) == digest


VIRTUAL = node("v", labels={"type": "virtual-kubelet", "pool": "gpu"})
NODES = (node("a", labels={"pool": "gpu"}), node("c"), node("b", labels={"pool": "cpu"}), VIRTUAL)


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        (None, ["c", "b", "a"]),
        ({}, ["c", "b", "a"]),
        ({"names": ["b", "x"]}, ["b"]),
        ({"names": []}, ["c", "b", "a"]),
        ({"matchLabels": {"pool": "gpu"}}, ["a"]),
        ({"matchExpressions": [{"key": "pool", "operator": "Exists"}]}, ["b", "a"]),
    ],
)
def test_nodes_by_name_or_label_the_last_name_first(selector: dict[str, Any] | None, wanted: list[str]) -> None:
    asked = job() if selector is None else job(selector=selector)
    assert list(targets(asked, NODES, None).nodes) == wanted


def test_nodes_by_their_pods() -> None:
    assert list(targets(job(podSelector={}), NODES, {"a", "gone"}).nodes) == ["a"]
    assert list(targets(job(podSelector={}), NODES, set()).nodes) == []


def test_nodes_on_which_nothing_starts_are_known() -> None:
    away = (node("a", taint(TAINT_UNREACHABLE)), node("b", taint(TAINT_NOT_READY)), node("c", taint("dedicated")))
    assert targets(job(), away, None).not_ready == {"a", "b"}


def test_nodes_that_list_the_image_have_it_unless_always_is_asked() -> None:
    there = replace(node("a"), images=("docker.io/library/agent:v2",))
    assert targets(job(), [there, node("b")], None).with_image == {"a"}
    assert targets(job(imagePullPolicy="Always"), [there], None).with_image == frozenset()


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


PULLED, FAILED, ACTIVE = PullState.SUCCEEDED, PullState.FAILED, PullState.ACTIVE
UNKNOWN = container(state={"terminated": {"reason": "ContainerStatusUnknown"}}) | {"phase": "Failed"}
UNBOUND = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}
INJECTED = {"phase": "Running", "containerStatuses": [{"name": "injected", "imageID": "proxy@sha256:00"}]}


@pytest.mark.parametrize(
    ("status", "state", "why"),
    [
        (container(state={"terminated": START_ERROR}, imageID="agent@sha256:00", containerID="c"), PULLED, ""),
        (container(state={"terminated": START_ERROR}, imageID=""), PULLED, ""),
        (container(state={"running": {}}, imageID="agent@sha256:00"), PULLED, ""),
        (waiting("RunContainerError", lastState={"terminated": START_ERROR}), PULLED, ""),
        (waiting("CreateContainerError", "no command specified"), PULLED, ""),
        (waiting("CreateContainerConfigError", "image will run as root"), PULLED, ""),
        (waiting("CrashLoopBackOff", lastState={"terminated": START_ERROR}), PULLED, ""),
        (waiting("ErrImagePull", NOT_FOUND), FAILED, f"ErrImagePull: {NOT_FOUND}".replace("\n", "")),
        (waiting("ErrImagePull", REFUSED), FAILED, f"ErrImagePull: {REFUSED}"),
        (waiting("ImagePullBackOff", "Back-off"), FAILED, "ImagePullBackOff: Back-off"),
        (waiting("InvalidImageName"), FAILED, "InvalidImageName"),
        (waiting("ErrImageNeverPull"), FAILED, "ErrImageNeverPull"),
        ({"phase": "Failed", "reason": "Evicted", "message": "disk"}, FAILED, "Evicted: disk"),
        ({"phase": "Failed"}, FAILED, "the pod ended"),
        (UNKNOWN, FAILED, "the pod ended"),
        ({}, ACTIVE, ""),
        ({"phase": "Pending"}, ACTIVE, ""),
        (waiting("ContainerCreating"), ACTIVE, ""),
        (UNBOUND, ACTIVE, "the scheduler has not bound the pod"),
        (INJECTED, ACTIVE, ""),
    ],
)
def test_what_a_pullers_status_means(status: dict[str, Any], state: PullState, why: str) -> None:
    found = read(status)
    assert found is not None
    assert (found.state, found.why) == (state, why)


@pytest.mark.parametrize("other", [{"kind": "Job"}, {"apiVersion": "batch/v1"}, {"controller": False}])
def test_a_pod_of_another_owner_is_none(other: dict[str, Any]) -> None:
    assert read({}, ownerReferences=[OWNER | other]) is None


def test_a_puller_names_its_job_and_node_and_why_in_few_words() -> None:
    found = read(waiting("ErrImagePull", "x" * 1_000_000), deletionTimestamp="2026-11-22T10:00:00Z")
    assert found is not None
    assert (found.job, found.job_uid, found.node, found.terminating) == ("pull", "j1", "node-1", True)
    assert len(found.why) <= 500
