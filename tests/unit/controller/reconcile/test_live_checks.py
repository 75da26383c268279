"""Which precondition each write carries, and what a look at the server, past the caches, makes of a pass."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from msgspec.structs import replace

from controller.api import revision as revisions
from controller.api.daemonset import DaemonSetStatus
from controller.api.names import HASH_LABEL
from controller.api.readiness_gates import ReadinessGate
from controller.inplace.change import InPlaceChange
from controller.kube.errors import AlreadyExists, Conflict, MutatedByWebhook, NotFound
from controller.kube.requests import NotConnected, Request, Response
from controller.planner import actions
from controller.planner.world import FormerPod, Predecessor
from controller.reconcile.in_place_writes import PodChanged
from controller.runtime.expectations import OF_PODS, CacheProgress
from tests.beds.dependencies import Acting, refusal, stored
from tests.beds.scripted import Answer, ok
from tests.beds.worlds import LABELS, NOW, OURS, ds, pod, revision, template

DENIED = refusal(403, "Forbidden")
NOTHING = refusal(404, "NotFound")
OUTDATED = actions.DeleteReason.OUTDATED
GATE = ReadinessGate(type="InPlaceUpdateReady", open=False, present=True, index=1)
POD = replace(pod("node-0"), version="41").ref
REVISION = revision("v1", version="42").ref
DELETE = actions.DeletePod(pod=POD, node="node-0", why=OUTDATED)
CREATE = actions.CreatePod(node="node-0", name="demo-0", revision=revision("v1"))
NEW = actions.CreateRevision(name="demo-v1", hash="v1", number=1)
LIVE = stored("demo", uid=OURS, owner="")
"""What is looked at before an adoption."""

STATE = {"nextContainerImages": {"main": "demo:v2"}, "containerResources": {"main": {"limits": {"cpu": "1"}}}}
SPEC = {
    "containers": [{"name": "main", "image": "demo:v1"}],
    "readinessGates": [{"conditionType": "InPlaceUpdateReady"}],
}
FRESH = stored(
    POD.name,
    uid=POD.uid,
    version="43",
    labels={"app": "demo", "controller-revision-hash": "v1", "lifecycle.apps.kruise.io/state": "PreparingDelete"},
    annotations={"apps.kruise.io/inplace-update-state": msgspec.json.encode(STATE).decode()},
    spec=SPEC,
)
"""What is looked at before a pod is changed in place, or its deletion is prepared or called off."""
CHANGE = InPlaceChange(labels={"a": "b"})
UPDATE = actions.UpdateInPlace(pod=POD, node="node-0", before="v1", revision=revision("v2"), change=CHANGE)

GUARDS: list[tuple[actions.Action, dict[str, str], list[Response]]] = [
    # the write, its precondition, what is looked at before
    (actions.AdoptPod(pod=POD, owners=0), {"version": "41"}, [LIVE]),
    (actions.AdoptPod(pod=POD, owners=2), {"version": "41"}, [LIVE]),
    (actions.ReleasePod(pod=POD, owner_index=1), {"version": "41"}, []),
    (actions.AdoptRevision(revision=REVISION, owners=0), {"version": "42"}, [LIVE]),
    (actions.RenumberRevision(revision=REVISION, number=9), {"version": "42"}, []),
    (actions.RecordRun(revision=REVISION), {"version": "42"}, []),
    (actions.RelabelPod(pod=POD, hash="v2"), {"uid": POD.uid}, []),
    (DELETE, {"uid": POD.uid}, []),
    (replace(DELETE, as_seen=True), {"uid": POD.uid, "resourceVersion": "41"}, []),
    (actions.DeleteRevision(revision=REVISION), {"uid": REVISION.uid}, []),
    (CREATE, {"name": "demo-0"}, []),
    (NEW, {"name": "demo-v1"}, []),
    (actions.ProbeTemplate(node="node-0", name="demo-dry", revision=revision("v1")), {"dry run": "All"}, []),
    (actions.DrainPod(pod=POD, node="node-0"), {"version": "43"}, [FRESH]),
    (UPDATE, {"version": "43"}, [FRESH]),
    (actions.ContinueInPlace(pod=POD, node="node-0", revision=revision("v2")), {"version": "43"}, [FRESH]),
    (actions.ResizePod(pod=POD, node="node-0"), {"uid": POD.uid}, [FRESH]),
    (actions.OpenGates(pod=POD, gates=(GATE,)), {"version": "41"}, []),
    (
        actions.PrepareDelete(pod=POD, node="node-0", why=OUTDATED, mark=True, held_by="label a=b"),
        {"version": "43"},
        [replace(FRESH, body=FRESH.body.replace(b"PreparingDelete", b"Normal"))],
    ),
    (actions.CancelDelete(pod=POD), {"version": "43"}, [FRESH]),
]


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


@pytest.mark.parametrize(("action", "guard", "looks"), GUARDS, ids=lambda one: type(one).__name__)
def test_every_write_carries_its_precondition(
    action: actions.Action, guard: dict[str, str], looks: list[Response]
) -> None:
    acting = Acting()
    assert acting.carry_out([action], *looks, stored("a", labels={"app": "demo", HASH_LABEL: "v1"})) == ()
    assert guard_of(acting.script.requests[-1]) == guard
    unseen = acting.dependencies.expectations.check(OURS, {}, lambda uid: True, NOW)
    assert (unseen is None) is isinstance(action, actions.DeleteRevision | actions.ProbeTemplate)


RAN = "/metadata/annotations/kruise-ds~1never-ran"


@pytest.mark.parametrize(
    ("action", "looks", "writes"),
    [
        (actions.AdoptPod(pod=POD, owners=0), [LIVE], ["add /metadata/ownerReferences"]),
        (actions.AdoptPod(pod=POD, owners=2), [LIVE], ["add /metadata/ownerReferences/-"]),
        (actions.ReleasePod(pod=POD, owner_index=1), [], ["remove /metadata/ownerReferences/1"]),
        (
            actions.AdoptRevision(revision=REVISION, owners=0, never_ran=True),
            [LIVE],
            ["add /metadata/ownerReferences", "add /metadata/annotations"],
        ),
        (
            actions.AdoptRevision(revision=REVISION, owners=0, annotated=True, never_ran=True),
            [LIVE],
            ["add /metadata/ownerReferences", f"add {RAN}"],
        ),
        (actions.RecordRun(revision=REVISION), [], [f"remove {RAN}"]),
    ],
    ids=str,
)
def test_what_other_clients_wrote_beside_it_stays(
    action: actions.Action, looks: list[Response], writes: list[str]
) -> None:
    acting = Acting()
    acting.carry_out([action], *looks, ok())
    _, *operations = msgspec.json.decode(acting.script.requests[-1].body)
    assert [f"{one['op']} {one['path']}" for one in operations] == writes


def test_a_new_revision_says_why_it_was_made_and_that_no_pod_has_had_it() -> None:
    acting = Acting(daemonset=ds(annotations={"kubernetes.io/change-cause": "v1 at last"}))
    acting.carry_out([NEW], ok())
    annotations = msgspec.json.decode(acting.script.requests[-1].body)["metadata"]["annotations"]
    assert annotations == {"kubernetes.io/change-cause": "v1 at last", "kruise-ds/never-ran": "true"}


@pytest.mark.parametrize("action", [CREATE, actions.ProbeTemplate(node="node-0", name="d", revision=revision("v1"))])
@pytest.mark.parametrize("labels", [{"app": "other", HASH_LABEL: "v1"}, {"app": "demo", HASH_LABEL: "v0"}])
def test_a_pod_whose_labels_a_webhook_changes_is_a_failure(labels: dict[str, str], action: actions.Action) -> None:
    acting = Acting()
    acting.carry_out([action], stored("a", uid="uid-a", labels=labels))
    ((_, error),) = acting.did
    assert isinstance(error, MutatedByWebhook)
    is_stray = action is CREATE and labels["app"] == "other"
    assert acting.state.strays == ({"uid-a"} if is_stray else set())


RESIZE = replace(UPDATE, change=InPlaceChange(resources={"main": {"limits": {"cpu": "1"}}}))


@pytest.mark.parametrize(
    ("answers", "resized"), [([FRESH] * 3, ["PATCH resize"]), ([refusal(403, "Forbidden"), FRESH], [])]
)
def test_a_resize_follows_the_update_that_records_it_in_the_same_pass(
    answers: list[Response], resized: list[str]
) -> None:
    acting = Acting()
    acting.carry_out([RESIZE], labelled("v1"), *answers)
    assert acting.asked == [f"GET {POD.name}", f"PATCH {POD.name}", f"GET {POD.name}", *resized]


def test_no_kind_of_write_is_missing_here() -> None:
    assert {type(action) for action, _, _ in GUARDS} == set(get_args(actions.Action))


def labelled(rev: str, app: str = "demo", **fields: Any) -> Response:
    labels = {"app": app, HASH_LABEL: rev}
    return stored(POD.name, **{"uid": POD.uid, "labels": labels, "spec": SPEC, **fields})


@pytest.mark.parametrize(
    ("found", "words"),
    [
        pytest.param(labelled("v1", terminating=True), "it was deleted meanwhile", id="terminating"),
        pytest.param(labelled("v1", uid="uid-successor"), "it was deleted meanwhile", id="replaced"),
        pytest.param(labelled("v0"), "it is of revision v0 by now", id="another revision"),
        pytest.param(labelled("v1", app="other"), "spec.selector does not match it any more", id="relabelled"),
        pytest.param(labelled("v2"), None, id="updated by an earlier attempt"),
    ],
)
def test_a_pod_that_the_cache_shows_otherwise_is_not_updated_in_place(found: Response, words: str | None) -> None:
    acting = Acting()
    failures = acting.carry_out([UPDATE], found)
    assert [type(one.error) for one in failures] == ([] if words is None else [PodChanged])
    assert all(str(words) in str(one.error) for one in failures)
    assert acting.asked == [f"GET {POD.name}"], "nothing is written"


def with_conditions(*conditions: dict[str, str]) -> Response:
    body = {**msgspec.json.decode(FRESH.body), "status": {"conditions": conditions}}
    return replace(FRESH, body=msgspec.json.encode(body))


CLOSED = {"type": "InPlaceUpdateReady", "status": "False"}


def test_a_write_to_a_pod_that_changes_meanwhile_is_made_again_from_what_it_is_now() -> None:
    acting = Acting()
    assert acting.carry_out([UPDATE], labelled("v1"), refusal(409, "Conflict"), FRESH, labelled("v2")) == ()
    assert acting.asked == [f"GET {POD.name}", f"PATCH {POD.name}"] * 2
    assert guard_of(acting.script.requests[-1]) == {"version": "43"}


def test_a_pod_that_an_update_takes_from_the_selector_is_a_stray() -> None:
    acting = Acting()
    acting.carry_out([UPDATE], labelled("v1"), labelled("v2", app="other"))
    assert isinstance(acting.did[0][1], MutatedByWebhook)
    assert acting.state.strays == {POD.uid}


def test_a_deletion_is_called_off_by_its_gate_first_and_each_write_knows_the_one_before() -> None:
    """A pass repeats both while the label is there."""
    ours = '[{"userAgent":"Lifecycle","key":"preDeleteHook"}]'
    seen = with_conditions({"type": "KruisePodReady", "status": "False", "message": ours})
    acting = Acting()
    acting.carry_out([actions.CancelDelete(pod=POD)], seen, stored(POD.name, version="44"), FRESH)
    assert acting.asked == [f"GET {POD.name}", "PATCH status", f"PATCH {POD.name}"]
    assert guard_of(acting.script.requests[-1]) == {"version": "44"}


@pytest.mark.parametrize(
    ("present", "answers", "asked"),
    [
        (True, [refusal(409, "Conflict")], ["PATCH status"]),
        (False, [refusal(409, "Conflict"), FRESH, FRESH], ["PATCH status", f"GET {POD.name}", "PATCH status"]),
        (False, [refusal(409, "Conflict"), with_conditions(CLOSED)], ["PATCH status", f"GET {POD.name}"]),
    ],
    ids=["it may have been closed since", "it has never been written", "it is closed by now"],
)
def test_a_gate_of_a_pod_that_has_changed_is_opened_only_where_it_is_new(
    present: bool, answers: list[Response], asked: list[str]
) -> None:
    acting = Acting()
    acting.carry_out([actions.OpenGates(pod=POD, gates=(replace(GATE, present=present),))], *answers)
    assert acting.asked == asked


def test_a_second_try_is_a_dry_run_first() -> None:
    """Otherwise a refused one would take the traffic of the pod again."""
    acting = Acting()
    acting.carry_out([replace(UPDATE, tried=True)], labelled("v1"), labelled("v2"), labelled("v2"))
    assert [dict(one.query) for one in acting.script.requests[1:]] == [{"dryRun": "All"}, {}]


def test_a_resize_that_is_done_is_not_made_again() -> None:
    acting = Acting()
    assert acting.carry_out([actions.ResizePod(pod=POD, node="node-0")], labelled("v1")) == ()
    assert acting.asked == [f"GET {POD.name}"]


def test_on_a_server_without_resizes_an_update_is_made_all_the_same() -> None:
    old: dict[str, Any] = {"main": {"limits": {"cpu": "3"}}}
    spec = {**SPEC, "containers": [{"name": "main", "image": "demo:v1", "resources": {"limits": {"cpu": "5"}}}]}
    action = replace(RESIZE, change=replace(RESIZE.change, old_resources=old))
    acting = Acting()
    acting.carry_out([action], labelled("v1", spec=spec), NOTHING, FRESH, labelled("v1"))
    assert acting.asked[1:3] == ["PATCH resize", f"PATCH {POD.name}"], "the first is a dry run"


ADOPTIONS: tuple[actions.Action, ...] = (
    actions.AdoptPod(pod=pod("node-0", owner="").ref, owners=0),
    actions.AdoptRevision(revision=revision("v1", owner_uid="").ref, owners=0),
)
TAKEN = refusal(409, "AlreadyExists")
LOST = ConnectionResetError("lost")


@pytest.mark.parametrize("adoption", ADOPTIONS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    ("live", "error"),
    [
        pytest.param(stored("demo", uid=OURS, owner="", terminating=True), Conflict, id="terminating"),
        pytest.param(stored("demo", uid="uid-successor", owner=""), Conflict, id="replaced"),
        pytest.param(NOTHING, NotFound, id="gone"),
    ],
)
def test_nothing_is_adopted_by_a_daemonset_that_is_not_there_any_more(
    adoption: actions.Action, live: Response, error: type[Exception]
) -> None:
    """The cache does not show it yet. Nothing else of the pass is tried either."""
    acting = Acting()
    (failure,) = acting.carry_out([adoption, CREATE], live)
    assert type(failure.error) is error
    assert acting.asked == ["GET demo"]


def test_a_pass_looks_once_for_all_adoptions() -> None:
    acting = Acting()
    assert acting.carry_out(ADOPTIONS, LIVE, ok(), ok()) == ()
    assert [one.partition(" ")[0] for one in acting.asked] == ["GET", "PATCH", "PATCH"]
    failures = acting.carry_out([*ADOPTIONS, CREATE], refusal(500, "InternalError"), ok())
    assert [failure.action for failure in failures] == list(ADOPTIONS), "the look failed"
    assert acting.asked == ["GET demo", "POST pods"], "the rest of the pass goes on"


def waits(acting: Acting, *, pods_at: int, live: bool = True) -> bool:
    """Whether a pass would have to wait, with the cache of pods at that version and the pod in it or not."""
    reached = {OF_PODS: CacheProgress(version=pods_at)}
    return acting.dependencies.expectations.check(OURS, reached, lambda uid: live, NOW) is not None


def test_a_name_that_our_own_pod_has_is_waited_for() -> None:
    """A create without an answer that came through."""
    acting = Acting()
    (failure,) = acting.carry_out([CREATE], TAKEN, stored("demo-0", version="50"))
    assert isinstance(failure.error, AlreadyExists)
    assert waits(acting, pods_at=49)
    assert not waits(acting, pods_at=50)
    assert acting.state.predecessors == {}


def test_a_name_that_is_free_again_is_tried_again() -> None:
    acting = Acting()
    acting.carry_out([CREATE], TAKEN, NOTHING)
    assert acting.state.predecessors == {}
    assert not waits(acting, pods_at=0)


@pytest.mark.parametrize("known", [None, FormerPod(hash="v1")], ids=["none", "v1"])
def test_a_name_that_the_pod_of_another_has_is_not_used_again(known: FormerPod | None) -> None:
    acting = Acting()
    if known is not None:
        acting.state.predecessors["node-0"] = Predecessor(uid="uid-before", pod=known)
    acting.carry_out([CREATE], TAKEN, stored("demo-0", owner="uid-of-another"))
    assert acting.state.predecessors == {"node-0": Predecessor(uid="not demo-0", pod=known)}
    assert not waits(acting, pods_at=0)


@pytest.mark.parametrize(
    ("found", "is_there"),
    [
        pytest.param(NOTHING, False, id="gone"),
        pytest.param(stored("node-0-v1", terminating=True), False, id="terminating"),
        pytest.param(stored("node-0-v1", uid="uid-successor"), False, id="a successor has its name"),
        pytest.param(stored("node-0-v1"), True, id="still there"),
        pytest.param(NotConnected("refused"), None, id="unknown"),
    ],
)
def test_a_deletion_that_failed_may_have_come_through(found: Answer, is_there: bool | None) -> None:
    """Else its part of the budget would go to the next node."""
    acting = Acting()
    for _ in range(2):
        acting.carry_out([DELETE], DENIED, found)
    assert bool(acting.state.write_backoff.in_backoff(NOW)) is (is_there is True), "passed over"
    if is_there is not None:
        acting = Acting()
        acting.carry_out([DELETE], LOST, found)
        assert waits(acting, pods_at=0) is not is_there


PREPARE = actions.PrepareDelete(pod=POD, node="node-0", why=OUTDATED, mark=False, held_by="label a=b")


@pytest.mark.parametrize(
    ("action", "found", "done"),
    [
        (UPDATE, labelled("v2"), True),
        (UPDATE, labelled("v1"), False),
        (PREPARE, FRESH, True),
        (PREPARE, labelled("v1"), False),
        (PREPARE, labelled("v1", terminating=True), True),
    ],
)
def test_so_may_an_update_and_a_preparation(action: actions.Action, found: Response, done: bool) -> None:
    acting = Acting()
    for _ in range(2):
        acting.carry_out([action], labelled("v1"), DENIED, found)
    assert bool(acting.state.write_backoff.in_backoff(NOW)) is not done
    acting = Acting()
    acting.carry_out([action], labelled("v1"), LOST, found)
    assert waits(acting, pods_at=0) is (action is PREPARE)


@pytest.mark.parametrize(("owner", "held_back"), [(OURS, False), ("uid-of-another", True), ("", True)])
def test_a_node_is_passed_over_where_another_has_the_name_of_its_pod(owner: str, held_back: bool) -> None:
    acting = Acting()
    for _ in range(2):
        acting.carry_out([CREATE], DENIED, stored("demo-0", owner=owner))
    assert bool(acting.state.write_backoff.in_backoff(NOW)) is held_back


def kept(rev: str, *, owner: str = OURS, labelled: bool = True, terminating: bool = False) -> Response:
    """A stored revision with the content of `rev`."""
    payload = msgspec.json.decode(revisions.encode(revisions.payload(template(rev))))
    labels = LABELS if labelled else {}
    return stored(
        "demo-v1", owner=owner, version="60", terminating=terminating, labels=labels, data=payload, revision=1
    )


@pytest.mark.parametrize(
    ("found", "collisions"),
    [
        pytest.param(kept("v1"), 0, id="ours"),
        pytest.param(kept("v1", owner=""), 0, id="an orphan"),
        pytest.param(kept("v2"), 1, id="other content"),
        pytest.param(kept("v1", owner="uid-of-another"), 1, id="of another"),
        pytest.param(kept("v1", owner="", labelled=False), 1, id="an orphan without our labels"),
        pytest.param(kept("v1", terminating=True), 1, id="terminating"),
    ],
)
def test_a_revisions_name_is_a_collision_unless_it_is_what_we_wanted(found: Response, collisions: int) -> None:
    acting = Acting(daemonset=ds("v1"))
    (failure,) = acting.carry_out([NEW], TAKEN, found)
    assert isinstance(failure.error, AlreadyExists)
    assert acting.state.collisions == collisions
    behind = acting.dependencies.expectations.check(OURS, {}, lambda uid: False, NOW)
    assert (behind is None) is bool(collisions)


@pytest.mark.parametrize(("live", "left"), [(NOTHING, 0), (kept("v1"), 1), (kept("v1", terminating=True), 0)])
def test_a_revision_reported_absent_is_gone_only_if_a_look_finds_none(live: Response, left: int) -> None:
    assert len(Acting().carry_out([actions.DeleteRevision(revision=REVISION)], NOTHING, live)) == left


def test_collisions_go_on_from_those_in_the_status() -> None:
    acting = Acting(daemonset=replace(ds("v1"), status=DaemonSetStatus(collision_count=4)))
    for collisions in (5, 6):
        acting.carry_out([NEW], TAKEN, kept("v2"))
        assert acting.state.collisions == collisions
