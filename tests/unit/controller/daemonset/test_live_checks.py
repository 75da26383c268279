"""What a look at the server, past the caches, makes of a pass."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from controller.api import revision as revisions
from controller.api.daemonset import DaemonSetStatus
from controller.kube.errors import AlreadyExists, Conflict, NotFound
from controller.kube.request import NotConnected, Response
from controller.planner.actions import (
    Action,
    AdoptPod,
    AdoptRevision,
    CreatePod,
    CreateRevision,
    DeletePod,
    DeleteReason,
)
from controller.planner.world import FormerPod, Predecessor
from controller.runtime.freshness import OF_PODS, Reach
from tests.beds.dependencies import Acting, refusal, stored
from tests.beds.scripted import Answer, ok
from tests.beds.worlds import LABELS, NOW, OURS, ds, pod, revision, template

ADOPTIONS: tuple[Action, ...] = (
    AdoptPod(pod=pod("node-0", owner="").ref, owners=0),
    AdoptRevision(revision=revision("v1", owner_uid="").ref, owners=0),
)
CREATE = CreatePod(node="node-0", name="demo-0", revision=revision("v1"))
DELETE = DeletePod(pod=pod("node-0").ref, node="node-0", why=DeleteReason.OUTDATED)
TAKEN = refusal(409, "AlreadyExists")
NOTHING = refusal(404, "NotFound")
LOST = ConnectionResetError("lost")


@pytest.mark.parametrize("adoption", ADOPTIONS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    ("live", "error"),
    [
        (stored("demo", uid=OURS, owner="", dying=True), Conflict),
        (stored("demo", uid="uid-successor", owner=""), Conflict),
        (NOTHING, NotFound),
    ],
    ids=["dying", "replaced", "gone"],
)
def test_nothing_is_adopted_by_a_daemonset_that_is_not_there_any_more(
    adoption: Action, live: Response, error: type[Exception]
) -> None:
    """The cache does not show it yet. Nothing else of the pass is tried either."""
    acting = Acting()
    (failure,) = acting.carry_out([adoption, CREATE], live)
    assert type(failure.error) is error
    assert acting.asked == ["GET demo"]


def test_one_look_is_enough_for_all_adoptions_of_a_pass() -> None:
    acting = Acting()
    assert acting.carry_out(ADOPTIONS, stored("demo", uid=OURS, owner=""), ok(), ok()) == ()
    assert [one.partition(" ")[0] for one in acting.asked] == ["GET", "PATCH", "PATCH"]


def test_a_look_that_fails_adopts_nothing_and_leaves_the_rest_of_the_pass_alone() -> None:
    acting = Acting()
    failures = acting.carry_out([*ADOPTIONS, CREATE], refusal(500, "InternalError"), ok())
    assert [failure.action for failure in failures] == list(ADOPTIONS)
    assert acting.asked == ["GET demo", "POST pods"]


def waits(acting: Acting, *, pods_at: int, live: bool = True) -> bool:
    """Whether a pass would have to wait, with the cache of pods at that version and the pod in it or not."""
    reached = {OF_PODS: Reach(version=pods_at)}
    return acting.dependencies.ledger.check(OURS, reached, lambda uid: live, NOW) is not None


def test_a_name_that_our_own_pod_has_is_waited_for() -> None:
    """A create without an answer that came through."""
    acting = Acting()
    (failure,) = acting.carry_out([CREATE], TAKEN, stored("demo-0", version="50"))
    assert isinstance(failure.error, AlreadyExists)
    assert waits(acting, pods_at=49)
    assert not waits(acting, pods_at=50)
    assert acting.state.predecessors == {}


@pytest.mark.parametrize("known", [None, FormerPod(hash="v1")], ids=["nobody", "v1"])
def test_a_name_that_somebody_elses_pod_has_is_not_used_again(known: FormerPod | None) -> None:
    acting = Acting()
    if known is not None:
        acting.state.predecessors["node-0"] = Predecessor(uid="uid-before", pod=known)
    acting.carry_out([CREATE], TAKEN, stored("demo-0", owner="uid-of-another"))
    assert acting.state.predecessors == {"node-0": Predecessor(uid="not demo-0", pod=known)}
    assert not waits(acting, pods_at=0)


def test_a_name_that_is_free_again_is_tried_again() -> None:
    acting = Acting()
    acting.carry_out([CREATE], TAKEN, NOTHING)
    assert acting.state.predecessors == {}
    assert not waits(acting, pods_at=0)


@pytest.mark.parametrize(
    ("found", "waited_for"),
    [
        (NOTHING, True),
        (stored("node-0-v1", dying=True), True),
        (stored("node-0-v1", uid="uid-successor"), True),
        (stored("node-0-v1"), False),
    ],
    ids=["gone", "dying", "a successor has its name", "still there"],
)
def test_a_deletion_without_an_answer_that_came_through_is_waited_for(found: Response, waited_for: bool) -> None:
    acting = Acting()
    acting.carry_out([DELETE], LOST, found)
    assert waits(acting, pods_at=0) is waited_for


@pytest.mark.parametrize(
    ("found", "held_back"),
    [
        (NOTHING, False),
        (stored("node-0-v1", dying=True), False),
        (stored("node-0-v1", uid="uid-successor"), False),
        (NotConnected("refused"), False),
        (stored("node-0-v1"), True),
    ],
    ids=["gone", "dying", "a successor has its name", "nobody knows", "still there"],
)
def test_a_pod_whose_deletion_may_have_come_through_is_not_passed_over(found: Answer, held_back: bool) -> None:
    """Its part of the budget would go to the next node."""
    acting = Acting()
    for _ in range(2):
        acting.carry_out([DELETE], refusal(403, "Forbidden"), found)
    assert bool(acting.state.places.held_back(NOW)) is held_back


@pytest.mark.parametrize(("owner", "held_back"), [(OURS, False), ("uid-of-another", True), ("", True)])
def test_a_node_is_passed_over_though_a_stranger_has_the_name_of_its_pod(owner: str, held_back: bool) -> None:
    acting = Acting()
    for _ in range(2):
        acting.carry_out([CREATE], refusal(403, "Forbidden"), stored("demo-0", owner=owner))
    assert bool(acting.state.places.held_back(NOW)) is held_back


NEW = CreateRevision(name="demo-v1", hash="v1", number=1)


def kept(rev: str, *, owner: str = OURS, labelled: bool = True, dying: bool = False) -> Response:
    """A stored revision with the content of `rev`."""
    payload = msgspec.json.decode(revisions.encode(revisions.payload(template(rev))))
    labels = LABELS if labelled else {}
    return stored("demo-v1", owner=owner, version="60", dying=dying, labels=labels, data=payload, revision=1)


@pytest.mark.parametrize(
    ("found", "collisions"),
    [
        (kept("v1"), 0),
        (kept("v1", owner=""), 0),
        (kept("v2"), 1),
        (kept("v1", owner="uid-of-another"), 1),
        (kept("v1", owner="", labelled=False), 1),
        (kept("v1", dying=True), 1),
    ],
    ids=["ours", "an orphan", "other content", "somebody else's", "an orphan without our labels", "on its way out"],
)
def test_a_revisions_name_that_is_taken_is_a_collision_unless_it_is_what_we_wanted(
    found: Response, collisions: int
) -> None:
    acting = Acting(daemonset=ds("v1"))
    (failure,) = acting.carry_out([NEW], TAKEN, found)
    assert isinstance(failure.error, AlreadyExists)
    assert acting.state.collisions == collisions
    behind = acting.dependencies.ledger.check(OURS, {}, lambda uid: False, NOW)
    assert (behind is None) is bool(collisions)


def test_collisions_go_on_from_those_in_the_status() -> None:
    acting = Acting(daemonset=replace(ds("v1"), status=DaemonSetStatus(collision_count=4)))
    acting.carry_out([NEW], TAKEN, kept("v2"))
    assert acting.state.collisions == 5
    acting.carry_out([NEW], TAKEN, kept("v2"))
    assert acting.state.collisions == 6
