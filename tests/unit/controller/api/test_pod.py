"""From the bytes of a pod to its record."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.api import pod as pods
from controller.api.containers import PodProblem
from controller.api.names import LIFECYCLE_STATE_LABEL, LIFECYCLE_TIMESTAMP_ANNOTATION, PREPARING_DELETE
from controller.api.objects import Key
from controller.api.pod import Pod, PodView


def owner(**fields: Any) -> dict[str, Any]:
    ours = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "name": "demo", "uid": "uid-ads"}
    return {**ours, "controller": True, **fields}


def decoded(metadata: dict[str, Any] | None = None, spec: Any = None, status: Any = None) -> Pod | None:
    named = {"namespace": "default", "name": "demo-x", "uid": "u", "resourceVersion": "7"}
    raw = {"metadata": {**named, **(metadata or {})}, "spec": spec or {}, "status": status or {}, "unknown": [1]}
    return pods.project(msgspec.json.decode(msgspec.json.encode(raw), type=PodView))


def record(metadata: dict[str, Any] | None = None, spec: Any = None, status: Any = None) -> Pod:
    found = decoded(metadata, spec, status)
    assert found is not None
    return found


def aim(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def by_name(*names: str, operator: str = "In", key: str = "metadata.name") -> dict[str, Any]:
    return {"matchFields": [{"key": key, "operator": operator, "values": list(names)}]}


@pytest.mark.parametrize(
    ("spec", "node"),
    [
        ({"nodeName": "a"}, "a"),
        ({"nodeName": "a", **aim(by_name("b"))}, "a"),
        (aim(by_name("b")), "b"),
        (aim({"matchExpressions": []}, by_name("b")), "b"),
        (aim(by_name("a", "b")), ""),
        (aim(by_name("b", operator="NotIn")), ""),
        (aim(by_name("b", key="metadata.uid")), ""),
        (aim(), ""),
        ({"affinity": {"podAffinity": {}}}, ""),
        ({"affinity": {"nodeAffinity": {}}}, ""),
        ({}, ""),
    ],
)
def test_the_target_node(spec: dict[str, Any], node: str) -> None:
    found = record(spec=spec)
    assert (found.node, found.bound) == (node, "nodeName" in spec)


def test_readiness_is_a_condition_and_its_time() -> None:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T10:00:00Z"}
    ready = record(status={"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, condition]})
    assert (ready.ready, ready.ready_since, ready.phase) == (True, 1795255200.0, "Running")
    unready = record(status={"conditions": [{**condition, "status": "False"}]})
    assert (unready.ready, unready.ready_since) == (False, None)
    assert (ready.unready_since, unready.unready_since) == (None, 1795255200.0)
    later = record(status={"conditions": [condition], "containerStatuses": [started("main", 30)]})
    assert later.ready_since == 1795255230.0, "a container started since"
    closed = {"type": "InPlaceUpdateReady", "status": "False"}
    gates = {"readinessGates": [{"conditionType": "InPlaceUpdateReady"}]}
    assert not record(spec=gates, status={"conditions": [condition, closed]}).ready, "the kubelet is late"
    untold = record(status={"conditions": [{"type": "Ready", "status": "True"}]})
    assert (untold.ready, untold.ready_since) == (True, None)


def restarted(*containers: dict[str, Any], **probes: Any) -> float | None:
    """`probes` by container."""
    spec = [{"name": one["name"], **probes.get(one["name"], {})} for one in containers]
    return record({}, {"containers": spec}, {"containerStatuses": containers}).restarted_at


def started(name: str, second: int, restarts: int = 1) -> dict[str, Any]:
    running = {"startedAt": f"2026-11-21T10:00:{second:02}Z"}
    return {"name": name, "containerID": f"{name}-{second}", "restartCount": restarts, "state": {"running": running}}


def test_the_last_restart_that_no_probe_vouches_for() -> None:
    a, b = started("a", 5), started("b", 30)
    assert restarted(a, b) == 1795255230.0, "whatever the last update restarted"
    assert restarted(a, b, b={"readinessProbe": {"exec": {}}}) == 1795255205.0
    assert restarted(a, started("b", 30, restarts=0)) == 1795255205.0


def test_a_pod_of_another_controller_is_dropped() -> None:
    assert decoded({"ownerReferences": [owner(kind="StatefulSet")]}) is None


def test_what_else_is_kept() -> None:
    found = record(
        {
            "ownerReferences": [owner(apiVersion="v1", kind="Node", controller=False), owner()],
            "labels": {"controller-revision-hash": "v1", LIFECYCLE_STATE_LABEL: PREPARING_DELETE},
            "annotations": {"apps.kruise.io/inplace-update-state": '{"revision":"v2"}'},
            "finalizers": ["demo.io/hold"],
            "creationTimestamp": "2026-11-21T10:00:00Z",
            "deletionTimestamp": "2026-11-21T10:01:00Z",
        }
    )
    assert (found.owner_uid, found.owner_index) == ("uid-ads", 1)
    assert (found.hash, found.held_by_hook, found.updated_in_place) == ("v1", True, True)
    assert found.finalizers == ("demo.io/hold",)
    assert found.created == 1795255200.0
    assert found.terminating
    assert found.key == Key("default", "demo-x")
    assert (found.ref.uid, found.ref.version) == ("u", "7")
    bare = record()
    assert (bare.hash, bare.created, bare.terminating, bare.ready, bare.node) == ("", 0.0, False, False, "")
    assert (bare.owner_uid, bare.held_by_hook, bare.updated_in_place) == ("", False, False)
    assert bare.adoptable
    assert not record({"deletionTimestamp": "2026-11-21T10:01:00Z"}).adoptable
    assert not record(status={"phase": "Failed"}).adoptable


@pytest.mark.parametrize(("labels", "since"), [({LIFECYCLE_STATE_LABEL: PREPARING_DELETE}, 1795255200.0), ({}, None)])
def test_a_pod_is_held_as_long_as_its_label_says_so(labels: dict[str, str], since: float | None) -> None:
    stamp = {LIFECYCLE_TIMESTAMP_ANNOTATION: "2026-11-21T10:00:00Z"}
    assert record({"labels": labels, "annotations": stamp}).held_since == since


OURS, THEIRS = '{"userAgent":"Lifecycle","key":"preDeleteHook"}', '{"userAgent":"other","key":"other"}'


@pytest.mark.parametrize(("entries", "drained"), [(OURS, True), (f"{OURS},{THEIRS}", False), (THEIRS, False)])
def test_a_pod_is_drained_only_if_no_other_writer_holds_it(entries: str, drained: bool) -> None:
    conditions = [
        {"type": "ContainersReady", "status": "True"},
        {"type": "KruisePodReady", "status": "False", "message": f"[{entries}]"},
    ]
    gates = {"readinessGates": [{"conditionType": "KruisePodReady"}]}
    assert record(spec=gates, status={"conditions": conditions}).drained is drained


def test_restarts_do_not_count_where_an_update_in_place_by_another_controller_recorded_none() -> None:
    statuses = {"containerStatuses": [{"name": "main", "restartCount": 4}]}
    state = {"apps.kruise.io/inplace-update-state": '{"revision":"v2","updateTimestamp":"2026-11-21T10:00:00Z"}'}
    assert record({}, None, statuses).restarts == 4
    updated = record({"annotations": state}, None, statuses)
    assert (updated.restarts, updated.updated) == (0, 1795255200.0)


@pytest.mark.parametrize(
    ("opened", "containers", "drained"),
    [(40, "True", True), (60, "True", True), (39, "True", False), (40, "False", False)],
)
def test_a_pod_that_was_to_go_counts_until_the_kubelet_has_seen_that_it_stays(
    opened: int, containers: str, drained: bool
) -> None:
    """It was marked not ready 40 s after the hour. Otherwise it would be marked again before it gets ready."""
    stamp = "2026-11-21T10:00:00Z" if opened == 60 else f"2026-11-21T09:59:{opened}Z"
    conditions = [
        {"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-21T09:59:40Z"},
        {"type": "ContainersReady", "status": containers},
        {"type": "KruisePodReady", "status": "True", "lastTransitionTime": stamp},
    ]
    gates = {"readinessGates": [{"conditionType": "KruisePodReady"}]}
    assert record(spec=gates, status={"conditions": conditions}).drained is drained


def test_label_sets_are_shared_between_pods_in_a_pool_of_bounded_size() -> None:
    kept = record({"labels": {"n": "first"}})
    assert record({"labels": {"n": "first"}}).labels is kept.labels
    for number in range(20_001):
        pods.project(msgspec.convert({"metadata": {"labels": {"n": str(number)}}}, PodView))
    assert kept.labels == {"n": "first"}
    assert record({"labels": {"n": "first"}}).labels is not kept.labels


def waiting(reason: str) -> dict[str, Any]:
    return {"ready": False, "state": {"waiting": {"reason": reason, "message": "any"}}, "lastState": {}}


def ended(code: int, *, ready: bool = False, field: str = "lastState") -> dict[str, Any]:
    there: dict[str, Any] = {"ready": ready, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    return {**there, field: {"terminated": {"exitCode": code, "reason": "OOMKilled"}}}


UP = {"type": "Ready", "status": "True"}


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({"phase": "Pending"}, None),
        ({"phase": "Pending", "containerStatuses": [waiting("ContainerCreating")]}, None),
        ({"phase": "Running", "containerStatuses": [{"ready": False, "state": {"running": {}}}]}, None),
        ({"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff")]}, PodProblem.CRASH_LOOP),
        ({"phase": "Running", "containerStatuses": [ended(137)]}, PodProblem.CRASH_LOOP),
        ({"phase": "Running", "containerStatuses": [ended(1, field="state")]}, PodProblem.CRASH_LOOP),
        ({"phase": "Running", "containerStatuses": [ended(0)]}, None),
        ({"phase": "Running", "containerStatuses": [ended(1, ready=True)]}, None),
        ({"phase": "Running", "conditions": [UP], "containerStatuses": [ended(1)]}, None),
        ({"phase": "Pending", "containerStatuses": [waiting("ErrImagePull")]}, PodProblem.IMAGE_PULL),
        ({"phase": "Pending", "containerStatuses": [waiting("InvalidImageName")]}, PodProblem.IMAGE_PULL),
        ({"phase": "Pending", "containerStatuses": [waiting("CreateContainerConfigError")]}, PodProblem.CONFIG),
        ({"phase": "Running", "containerStatuses": [waiting("RunContainerError")]}, PodProblem.CONFIG),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [waiting("CrashLoopBackOff")],
                "containerStatuses": [waiting("PodInitializing")],
            },
            PodProblem.CRASH_LOOP,
        ),
        (
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]},
            PodProblem.UNSCHEDULABLE,
        ),
        ({"phase": "Failed", "reason": "Evicted", "conditions": [UP]}, PodProblem.EVICTED),
        ({"phase": "Failed", "reason": "OutOfcpu"}, PodProblem.OTHER),
        ({"phase": "Succeeded"}, PodProblem.OTHER),
        ({"phase": "Running", "containerStatuses": None, "initContainerStatuses": None}, None),
        ({"phase": "Running", "containerStatuses": [{"state": None, "lastState": None}]}, None),
    ],
)
def test_why_a_pod_will_not_get_ready_by_waiting(status: dict[str, Any], problem: PodProblem | None) -> None:
    assert record(status=status).problem is problem


def dead(code: int, id_: str = "new") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "containerID": id_}}


BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"state": {"waiting": {"reason": "ErrImagePull", "message": "no such tag"}}}, "ErrImagePull: no such tag"),
        ({"state": {"waiting": {"reason": "ImagePullBackOff", "message": "again"}}}, ""),
        ({"state": dead(1)}, "ended, exit 1 (Error)"),
        ({"state": BACK_OFF, "lastState": dead(1)}, "ended, exit 1 (Error)"),
        ({"state": BACK_OFF, "lastState": dead(0)}, "ended, exit 0 (Completed)"),
        ({"state": dead(0)}, ""),
        ({"state": dead(137, "old")}, ""),
        ({"state": BACK_OFF, "lastState": dead(137, "old")}, ""),
        ({"state": {"waiting": {"reason": "ContainerCreating"}}, "lastState": dead(1)}, ""),
    ],
)
def test_the_problem_of_a_container_that_does_not_start_again(status: dict[str, Any], words: str) -> None:
    """How the one ended that the update has replaced is no news."""
    state = '{"revision":"v2","lastContainerStatuses":{"a":{"imageID":"x","containerID":"old"}}}'
    annotations, spec = {"apps.kruise.io/inplace-update-state": state}, {"containers": [{"name": "a", "image": "x"}]}
    found = record({"annotations": annotations}, spec, {"containerStatuses": [{"name": "a", **status}]})
    assert found.failure_message == (f"container a: {words}" if words else "")


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({"state": {"running": {}}, "lastState": dead(137, "old")}, None),
        ({"state": {"running": {}}, "lastState": dead(137, "new")}, PodProblem.CRASH_LOOP),
        ({"state": BACK_OFF, "containerID": "old"}, PodProblem.IMAGE_PULL),
        ({"state": BACK_OFF, "containerID": "new"}, PodProblem.CRASH_LOOP),
    ],
)
def test_how_the_container_ended_that_an_update_replaced_is_no_problem(
    status: dict[str, Any], problem: PodProblem | None
) -> None:
    """A back-off after it means that the new image cannot be pulled."""
    state = '{"revision":"v2","lastContainerStatuses":{"a":{"imageID":"x","containerID":"old"}}}'
    metadata = {"annotations": {"apps.kruise.io/inplace-update-state": state}}
    assert record(metadata, None, {"containerStatuses": [{"name": "a", **status}]}).problem is problem
