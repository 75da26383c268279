"""From the bytes of a pod to its record."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.api import pod as pods
from controller.api.containers import PodProblem
from controller.api.names import LIFECYCLE_STATE_LABEL, PREPARING_DELETE
from controller.api.objects import Key
from controller.api.pod import Pod, PodView, target_node
from controller.api.readiness_gates import (
    PodCondition,
    ReadinessGate,
    ReadinessGateView,
    gates_of,
    message_of,
    with_our_entry,
    without_our_entry,
    writers,
)
from tests.beds.worlds import pod as built


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


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1", "v9"])
def test_an_owner_of_any_served_version_is_us(version: str) -> None:
    found = record({"ownerReferences": [owner(apiVersion=f"apps.kruise.io/{version}")]})
    assert (found.owner_uid, found.owner_index) == ("uid-ads", 0)


@pytest.mark.parametrize(
    "foreign",
    [
        owner(apiVersion="apps/v1"),
        owner(kind="StatefulSet"),
        owner(apiVersion="v1"),
        owner(apiVersion="kruise.io/v1"),
    ],
)
def test_a_pod_of_another_controller_is_dropped(foreign: dict[str, Any]) -> None:
    assert decoded({"ownerReferences": [foreign]}) is None


def test_an_owner_of_the_same_name_and_another_uid_is_another() -> None:
    assert record({"ownerReferences": [owner(uid="uid-successor")]}).owner_uid == "uid-successor"


def test_an_orphan_remembers_how_many_owners_it_has() -> None:
    assert (record().owner_uid, record().owner_index) == ("", 0)
    plain = [owner(controller=False), owner(apiVersion="v1", kind="Node", controller=None)]
    assert (record({"ownerReferences": plain}).owner_uid, record({"ownerReferences": plain}).owner_index) == ("", 2)


def test_the_place_of_our_reference_is_remembered() -> None:
    owners = [owner(apiVersion="v1", kind="Node", controller=False), owner()]
    assert record({"ownerReferences": owners}).owner_index == 1


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
    assert target_node(msgspec.convert({"metadata": {}, "spec": spec}, PodView).spec) == node


def test_an_aimed_pod_is_not_bound() -> None:
    assert not record(spec=aim(by_name("b"))).bound
    assert record(spec={"nodeName": "b"}).bound


def test_readiness_is_a_condition_and_its_time() -> None:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T10:00:00Z"}
    ready = record(status={"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, condition]})
    assert (ready.ready, ready.ready_since, ready.phase) == (True, 1795255200.0, "Running")
    unready = record(status={"conditions": [{**condition, "status": "False"}]})
    assert (unready.ready, unready.ready_since) == (False, None)
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


def test_whether_a_pod_was_updated_in_place_is_told_by_its_state() -> None:
    state = '{"revision":"v2","lastContainerStatuses":{"a":{"imageID":"x"}}}'
    assert record({"annotations": {"apps.kruise.io/inplace-update-state": state}}).updated_in_place
    assert not record({}).updated_in_place


def test_what_else_is_kept() -> None:
    found = record(
        {
            "labels": {"controller-revision-hash": "v1"},
            "finalizers": ["demo.io/hold"],
            "creationTimestamp": "2026-11-21T10:00:00Z",
            "deletionTimestamp": "2026-11-21T10:01:00Z",
        }
    )
    assert found.hash == "v1"
    assert found.finalizers == ("demo.io/hold",)
    assert found.created == 1795255200.0
    assert found.terminating
    assert found.key == Key("default", "demo-x")
    assert (found.ref.uid, found.ref.version) == ("u", "7")


def test_a_pod_without_anything_is_a_pod() -> None:
    bare = record()
    assert (bare.hash, bare.created, bare.terminating, bare.ready, bare.node) == ("", 0.0, False, False, "")


def test_label_sets_are_shared_between_pods() -> None:
    one, other = record({"labels": {"a": "1", "b": "2"}}), record({"labels": {"b": "2", "a": "1"}})
    assert one.labels is other.labels
    assert record({"labels": {"a": "1"}}).labels is not one.labels


def test_the_pool_of_label_sets_does_not_grow_for_ever() -> None:
    kept = record({"labels": {"n": "first"}})
    for number in range(20_001):
        pods.project(msgspec.convert({"metadata": {"labels": {"n": str(number)}}}, PodView))
    assert kept.labels == {"n": "first"}
    assert record({"labels": {"n": "first"}}).labels is not kept.labels


def test_a_pod_is_held_while_a_hook_was_asked() -> None:
    assert built("a", labels={LIFECYCLE_STATE_LABEL: PREPARING_DELETE}).held_by_hook
    assert not built("a", labels={LIFECYCLE_STATE_LABEL: "Normal"}).held_by_hook


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
def test_what_is_told_of_a_container_that_does_not_start_again(status: dict[str, Any], words: str) -> None:
    """How the one ended that the update has replaced is no news."""
    state = '{"revision":"v2","lastContainerStatuses":{"a":{"imageID":"x","containerID":"old"}}}'
    annotations, spec = {"apps.kruise.io/inplace-update-state": state}, {"containers": [{"name": "a", "image": "x"}]}
    found = record({"annotations": annotations}, spec, {"containerStatuses": [{"name": "a", **status}]})
    assert found.failure_message == (f"container a: {words}" if words else "")


STAMP = "2026-11-22T10:00:00Z"
EARLIER = "2026-11-22T09:00:00Z"
OURS = '[{"userAgent":"Lifecycle","key":"preDeleteHook"}]'
THEIRS = '[{"userAgent":"ContainerRecreateRequest","key":"default/crr"}]'
BOTH = (
    '[{"userAgent":"ContainerRecreateRequest","key":"default/crr"},{"userAgent":"Lifecycle","key":"preDeleteHook"}]'
)
PATH = "/status/conditions"


def condition(status: str, message: str = "", type_: str = "KruisePodReady") -> PodCondition:
    return PodCondition(type=type_, status=status, message=message, last_transition_time=EARLIER)


def gate(*conditions: PodCondition) -> ReadinessGate:
    return gates_of([ReadinessGateView(condition_type="KruisePodReady")], conditions)[0]


def of(status: str, message: str = "", since: str = STAMP) -> dict[str, Any]:
    found = {"type": "KruisePodReady", "status": status, "lastTransitionTime": since}
    return {**found, "message": message} if message else found


def test_the_message_is_that_of_openkruise() -> None:
    assert message_of((), ours=True) == OURS
    assert message_of(writers(THEIRS) or (), ours=True) == BOTH
    assert message_of(writers(BOTH) or (), ours=True) == BOTH
    assert message_of(writers(BOTH) or (), ours=False) == THEIRS
    assert message_of(writers(OURS) or (), ours=False) == ""


@pytest.mark.parametrize("message", ["not a list", "{}", '["a"]', '[{"key":1}]', "[" * 5000])
def test_a_message_that_is_no_such_list_belongs_to_somebody_else(message: str) -> None:
    assert writers(message) is None
    assert not gate(condition("False", message)).to_open


@pytest.mark.parametrize(
    ("status", "message", "due", "ours", "others"),
    [
        ("False", OURS, False, True, False),
        ("False", THEIRS, False, False, True),
        ("False", BOTH, False, True, True),
        ("False", "[]", True, False, False),
        ("", "", True, False, False),
        ("", OURS, False, True, False),
        ("True", BOTH, False, False, False),
    ],
)
def test_a_gate_is_due_to_be_opened_where_nobody_is_left(
    status: str, message: str, due: bool, ours: bool, others: bool
) -> None:
    found = gate(condition(status, message))
    assert (found.to_open, found.marked_not_ready, found.held_by_others) == (due, ours, others)


def test_only_kruise_pod_ready_has_such_a_list() -> None:
    closed = PodCondition(type="InPlaceUpdateReady", status="False", message="words")
    (found,) = gates_of([ReadinessGateView(condition_type="InPlaceUpdateReady")], [closed])
    assert found.to_open


def test_a_gate_that_nobody_has_set_is_due() -> None:
    assert gate(condition("True", type_="Ready")).to_open


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ((), [{"op": "add", "path": PATH, "value": [of("False", OURS)]}]),
        ((condition("False", type_="Ready"),), [{"op": "add", "path": f"{PATH}/-", "value": of("False", OURS)}]),
        ((condition("True", THEIRS),), [{"op": "replace", "path": f"{PATH}/0", "value": of("False", OURS)}]),
        (
            (condition("False", THEIRS),),
            [{"op": "replace", "path": f"{PATH}/0", "value": of("False", BOTH, EARLIER)}],
        ),
        ((condition("", ""),), [{"op": "replace", "path": f"{PATH}/0", "value": of("False", OURS)}]),
        ((condition("False", BOTH),), []),
    ],
    ids=["no conditions", "missing", "open", "closed by somebody else", "without a status", "closed by us"],
)
def test_our_entry_is_written_beside_those_of_others(
    before: tuple[PodCondition, ...], wanted: list[dict[str, Any]]
) -> None:
    assert list(with_our_entry(before, STAMP)) == wanted


def test_with_it_the_pod_is_not_ready_at_once() -> None:
    """Also where an earlier attempt has come half of the way."""
    ready = condition("True", type_="Ready")
    for before in ((condition("True"), ready), (condition("False", OURS), ready)):
        written = {one["path"]: one["value"] for one in with_our_entry(before, STAMP)}
        assert written[f"{PATH}/1/status"] == "False"
        assert written[f"{PATH}/1/reason"] == "ReadinessGatesNotReady"
    assert with_our_entry((condition("False", OURS), condition("False", type_="Ready")), STAMP) == ()


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ((condition("False", OURS),), [{"op": "replace", "path": f"{PATH}/0", "value": of("True")}]),
        (
            (condition("False", BOTH),),
            [{"op": "replace", "path": f"{PATH}/0", "value": of("False", THEIRS, EARLIER)}],
        ),
        ((condition("False", THEIRS),), []),
        ((condition("False", "words"),), []),
        ((condition("True"),), []),
        ((), []),
    ],
    ids=["ours alone", "another one's too", "another one's", "words", "open", "missing"],
)
def test_only_our_entry_is_taken_away_and_it_is_true_when_none_is_left(
    before: tuple[PodCondition, ...], wanted: list[dict[str, Any]]
) -> None:
    assert list(without_our_entry(before, STAMP)) == wanted
