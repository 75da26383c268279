"""Which precondition each kind of write carries, as the server is told it."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from msgspec.structs import replace

from controller.api.gates import ReadinessGate
from controller.daemonset import status_writer
from controller.kube.request import Request
from controller.planner import actions
from controller.planner.in_place.change import InPlaceChange
from controller.planner.plan import plan
from controller.planner.status import Status
from tests.beds.dependencies import Acting, stored
from tests.beds.scripted import ok
from tests.beds.virtual_time import virtually
from tests.beds.worlds import NOW, OURS, ds, everywhere, pod, revision, world

GATE = ReadinessGate(type="InPlaceUpdateReady", open=False, present=True, index=1)
POD = replace(pod("node-0"), version="41").ref
REVISION = revision("v1", version="42").ref
LIVE = stored("demo", uid=OURS, owner="")
"""What is looked at before an adoption."""

GUARDS: list[tuple[actions.Action, dict[str, str]]] = [
    (actions.AdoptPod(pod=POD, owners=0), {"version": "41"}),
    (actions.AdoptPod(pod=POD, owners=2), {"version": "41"}),
    (actions.ReleasePod(pod=POD, owner_index=1), {"version": "41"}),
    (actions.AdoptRevision(revision=REVISION, owners=0), {"version": "42"}),
    (actions.RenumberRevision(revision=REVISION, number=9), {"version": "42"}),
    (actions.RelabelPod(pod=POD, hash="v2"), {"uid": POD.uid}),
    (actions.DeletePod(pod=POD, node="node-0", why=actions.DeleteReason.OUTDATED), {"uid": POD.uid}),
    (
        actions.DeletePod(pod=POD, node="node-0", why=actions.DeleteReason.OUTDATED, as_seen=True),
        {"uid": POD.uid, "resourceVersion": "41"},
    ),
    (actions.DeleteRevision(revision=REVISION), {"uid": REVISION.uid}),
    (actions.CreatePod(node="node-0", name="demo-derived", revision=revision("v1")), {"name": "demo-derived"}),
    (actions.CreateRevision(name="demo-v2", hash="v2", number=2), {"name": "demo-v2"}),
    (actions.ProbeTemplate(node="node-0", name="demo-dry", revision=revision("v1")), {"dry run": "All"}),
    (actions.DrainPod(pod=POD, node="node-0"), {"version": "43"}),
    (
        actions.UpdateInPlace(
            pod=POD, node="node-0", before="v1", revision=revision("v2"), change=InPlaceChange(labels={"a": "b"})
        ),
        {"version": "43"},
    ),
    (actions.ContinueInPlace(pod=POD, node="node-0", revision=revision("v2")), {"version": "43"}),
    (actions.ResizePod(pod=POD, node="node-0"), {"uid": POD.uid}),
    (actions.OpenGates(pod=POD, gates=(GATE,)), {"version": "41"}),
    (
        actions.PrepareDelete(
            pod=POD, node="node-0", why=actions.DeleteReason.OUTDATED, mark=True, held_by="label a=b"
        ),
        {"version": "43"},
    ),
    (actions.CancelDelete(pod=POD), {"version": "43"}),
]
STATE = {"nextContainerImages": {"main": "demo:v2"}, "containerResources": {"main": {"limits": {"cpu": "1"}}}}
FRESH = stored(
    POD.name,
    uid=POD.uid,
    version="43",
    labels={"controller-revision-hash": "v1"},
    annotations={"apps.kruise.io/inplace-update-state": msgspec.json.encode(STATE).decode()},
    spec={
        "containers": [{"name": "main", "image": "demo:v1"}],
        "readinessGates": [{"conditionType": "InPlaceUpdateReady"}],
    },
)
"""What is looked at before an update in place."""
HELD = stored(
    POD.name, uid=POD.uid, version="43", labels={"lifecycle.apps.kruise.io/state": "PreparingDelete"}, annotations={}
)


def guard_of(request: Request) -> dict[str, str]:
    """What the server holds this write to."""
    body: Any = msgspec.json.decode(request.body)
    if request.method == "PATCH":
        words = {"/metadata/resourceVersion": "version", "/metadata/uid": "uid"}
        guards = [one for one in body if one["path"] in words]
        assert guards == body[:1], "the guard comes first, and there is one"
        assert [one["op"] for one in guards] == ["replace"], "a failed test looks like any malformed patch"
        return {words[one["path"]]: one["value"] for one in guards}
    if request.method == "DELETE":
        return dict(body["preconditions"])
    if request.query:
        return {"dry run": dict(request.query)["dryRun"]}
    return {"name": body["metadata"]["name"]}


@pytest.mark.parametrize(("action", "guard"), GUARDS, ids=lambda one: type(one).__name__)
def test_every_write_carries_its_precondition(action: actions.Action, guard: dict[str, str]) -> None:
    acting = Acting()
    looks = [LIVE] if isinstance(action, actions.AdoptPod | actions.AdoptRevision) else []
    looks = (
        [FRESH]
        if isinstance(action, actions.DrainPod | actions.UpdateInPlace | actions.ContinueInPlace | actions.ResizePod)
        else looks
    )
    looks = [FRESH] if isinstance(action, actions.PrepareDelete) else looks
    looks = [HELD] if isinstance(action, actions.CancelDelete) else looks
    assert acting.carry_out([action], *looks, ok()) == ()
    assert guard_of(acting.script.requests[-1]) == guard


def test_no_kind_of_write_is_missing_here() -> None:
    assert {type(action) for action, _ in GUARDS} == set(get_args(actions.Action))


def wanted() -> Status:
    status = plan(world(pods=everywhere(5))).status
    assert status is not None
    return status


def status_guard(acting: Acting, status: Status) -> dict[str, str]:
    change = status_writer.due_status(
        acting.daemonset, status, acting.state.status_writer.own.latest(acting.daemonset), NOW
    )
    assert change is not None
    acting.script.answers[:] = [ok()]
    version = virtually(status_writer.write(acting.dependencies.client, acting.daemonset, change))
    acting.state.status_writer.own.wrote(change.result, version, NOW)
    request = acting.script.requests[-1]
    assert request.path.endswith("/daemonsets/demo/status")
    return guard_of(request)


def written(version: str, *, cached: str) -> Acting:
    """Our last status came out at `version`, and the cache shows the object as it was at `cached`."""
    acting = Acting(daemonset=replace(ds(), version=version))
    status_guard(acting, wanted())
    acting.state.status_writer.own.version = int(version)
    acting.daemonset = replace(acting.daemonset, version=cached, status=acting.state.status_writer.own.status)
    return acting


def other_counts(status: Status) -> Status:
    assert status.counts is not None
    return replace(status, counts=replace(status.counts, number_ready=4))


def other_conditions(status: Status) -> Status:
    first, *others = status.conditions
    return replace(status, conditions=(replace(first, message="told anew"), *others))


def test_the_first_status_is_guarded_by_the_uid() -> None:
    assert status_guard(Acting(), wanted()) == {"uid": OURS}


def test_counts_are_guarded_by_the_uid_because_only_we_write_them() -> None:
    assert status_guard(written("12", cached="10"), other_counts(wanted())) == {"uid": OURS}


@pytest.mark.parametrize(("cached", "guard"), [("10", "12"), ("12", "12"), ("15", "15")])
def test_conditions_are_guarded_by_the_newest_version_known_because_others_write_theirs(
    cached: str, guard: str
) -> None:
    """A patch replaces the whole list: what somebody has added since would be lost."""
    acting = written("12", cached=cached)
    assert status_guard(acting, other_conditions(other_counts(wanted()))) == {"version": guard}
