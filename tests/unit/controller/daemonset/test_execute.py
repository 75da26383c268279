"""What becomes of an action by the server's answer: told again, left alone there, or over."""

from __future__ import annotations

import asyncio

import pytest

from controller.api.wellknown import FAILED_CREATE, FAILED_DELETE, SUCCESSFUL_CREATE
from controller.daemonset.places import FAILING_FIRST
from controller.daemonset.state import ENDING_SECONDS, PROOF
from controller.kube.errors import (
    ApiError,
    Busy,
    Conflict,
    Forbidden,
    Invalid,
    QuotaExceeded,
    ServerError,
    Unknown,
    Unreachable,
)
from controller.kube.request import NotConnected, Request, Response
from controller.kube.throttle import CEILING
from controller.planner.actions import (
    Action,
    CreatePod,
    CreateRevision,
    DeletePod,
    DeleteReason,
    DeleteRevision,
    ProbeTemplate,
    RelabelPod,
    RenumberRevision,
)
from controller.planner.place import ROOM, Place
from controller.runtime.freshness import OF_PODS, Reach
from tests.beds.dependencies import Acting, refusal, stored
from tests.beds.scripted import Answer, Script, ok
from tests.beds.worlds import NOW, OURS, pod, revision

QUOTA = refusal(403, "Forbidden", 'pods "demo-0" is forbidden: exceeded quota: pods, requested: pods=1, limited: 4')
DENIED = refusal(403, "Forbidden", "not on this node")
BROKEN = refusal(500, "InternalError")
ENDING = Response(
    status=403,
    body=b'{"kind":"Status","reason":"Forbidden","message":"it ends","details":'
    b'{"causes":[{"reason":"NamespaceTerminating"}]}}',
)
LOST = ConnectionResetError("lost")
AWAY = NotConnected("refused")
NOTHING = refusal(404, "NotFound")


def create(number: int) -> CreatePod:
    return CreatePod(node=f"node-{number}", name=f"demo-{number}", revision=revision("v1"))


def delete(why: DeleteReason = DeleteReason.OUTDATED) -> DeletePod:
    return DeletePod(pod=pod("node-0").ref, node="node-0", why=why)


HELD = FAILING_FIRST
"""Seconds for which a place is left alone after its second failure in a row."""
REFUSED_CREATES: dict[str, tuple[Answer, list[Answer], type[ApiError], float]] = {
    "admission says no": (DENIED, [NOTHING], Forbidden, HELD),
    "the pod is invalid": (refusal(422, "Invalid"), [NOTHING], Invalid, HELD),
    "a server error": (BROKEN, [NOTHING], ServerError, HELD),
    "a server error, and perhaps it came through": (BROKEN, [stored("demo-0")], ServerError, 0),
    "a server error, and nobody can look": (BROKEN, [AWAY], ServerError, 0),
    "no connection: no matter of the node": (AWAY, [], Unreachable, 0),
    "a busy server: no matter of the node": (refusal(429, retry_after=99), [], Busy, 0),
    "no answer": (LOST, [], Unknown, 0),
}


@pytest.mark.parametrize("case", REFUSED_CREATES)
def test_a_node_is_left_alone_after_two_failures_that_are_its_own(case: str) -> None:
    answer, looks, error, seconds = REFUSED_CREATES[case]
    acting = Acting()
    for _ in range(2):
        (failure,) = acting.carry_out([create(0)], answer, *looks)
        assert type(failure.error) is error
        assert failure.action == create(0)
    assert acting.state.places.held_back(NOW) == ({Place.of_node("node-0"): NOW + seconds} if seconds else {})


def test_a_full_quota_is_told_and_is_a_matter_of_all_pods_once_a_pass() -> None:
    """Many creates that are refused at once are one failure: else the next try would be minutes away."""
    acting = Acting()
    for _ in range(2):
        acting.state.accepted, acting.state.accepted_of = PROOF, "v1"
        failures = acting.carry_out([create(0), create(1)], QUOTA, QUOTA)
        assert [failure.action for failure in failures] == [create(0), create(1)]
    assert acting.state.places.held_back(NOW) == {ROOM: NOW + HELD}
    assert {note.reason for note in acting.notes} == {FAILED_CREATE}
    assert "exceeded quota" in acting.notes[0].message


def test_a_pod_that_was_created_shows_that_there_is_room() -> None:
    acting = Acting()
    acting.carry_out([create(0)], QUOTA)
    acting.carry_out([create(0)], ok())
    assert acting.state.places.failing == {}


OLDER = revision("v0")


@pytest.mark.parametrize(
    "action",
    [
        CreateRevision(name="demo-v1", hash="v1", number=1),
        RenumberRevision(revision=OLDER.ref, number=3),
        DeleteRevision(revision=OLDER.ref),
        RelabelPod(pod=pod("node-0").ref, hash="v1"),
        ProbeTemplate(node="node-0", name="demo-dry", revision=revision("v1")),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_write_of_any_kind_that_fails_again_is_left_alone_at_its_place(action: Action) -> None:
    acting = Acting()
    for _ in range(2):
        assert len(acting.carry_out([action], BROKEN)) == 1
    assert acting.state.places.held_back(NOW) == {action.place: NOW + HELD}
    acting.carry_out([action], ok())
    assert acting.state.places.failing == {}


def test_a_pod_that_cannot_be_deleted_is_left_alone_by_its_uid() -> None:
    acting = Acting()
    for _ in range(2):
        (failure,) = acting.carry_out([delete()], DENIED, stored("node-0-v1"))
        assert isinstance(failure.error, Forbidden)
    assert acting.state.places.held_back(NOW) == {Place.of_object(pod("node-0").uid): NOW + HELD}
    assert [note.reason for note in acting.notes] == [FAILED_DELETE] * 2


def test_in_a_namespace_that_ends_a_node_is_left_alone_at_once_and_nothing_is_told() -> None:
    acting = Acting()
    assert acting.carry_out([create(0)], ENDING) == ()
    assert acting.state.places.held_back(NOW) == {Place.of_node("node-0"): NOW + ENDING_SECONDS}
    assert ENDING_SECONDS >= 10, "it may end for minutes, and every pass would ask again"
    assert acting.notes == []


def test_a_write_that_goes_through_ends_what_was_before() -> None:
    acting = Acting()
    for _ in range(3):
        acting.carry_out([create(0)], DENIED, NOTHING)
    acting.carry_out([create(0)], ok())
    assert acting.state.places.failing == {}
    assert [note.reason for note in acting.notes][-1] == SUCCESSFUL_CREATE


def test_what_is_gone_needs_no_deletion_and_a_place_to_create_in_that_is_gone_is_told() -> None:
    acting = Acting()
    assert acting.carry_out([delete()], NOTHING, NOTHING) == ()
    (failure,) = acting.carry_out([create(0)], NOTHING)
    assert failure.action == create(0)


def test_slow_start_doubles_and_ends_with_the_first_batch_that_fails() -> None:
    acting = Acting()
    creates = [create(number) for number in range(10)]
    (failure,) = acting.carry_out(creates, ok(), ok(), ok(), QUOTA, ok(), ok(), ok())
    assert failure.action == creates[3]
    assert len(acting.asked) == 1 + 2 + 4, "the 3 after them are not tried"


def test_a_revision_that_went_through_whole_is_made_at_once_until_something_fails() -> None:
    acting = Acting()
    creates = [create(number) for number in range(5)]
    acting.carry_out(creates, *[ok()] * 5)
    assert len(acting.carry_out(creates, *[QUOTA] * 5)) == 5, "all at once: nothing has failed before"
    assert len(acting.carry_out(creates, QUOTA)) == 1, "one at first"


def test_one_pod_proves_nothing_yet() -> None:
    acting = Acting()
    acting.carry_out([create(0)], ok())
    assert len(acting.carry_out([create(1), create(2)], QUOTA)) == 1


@pytest.mark.parametrize("answer", [refusal(409, "Conflict"), refusal(404, "NotFound"), LOST], ids=str)
def test_an_answer_that_says_nothing_of_the_place_does_when_it_comes_again_and_again(answer: Answer) -> None:
    """A webhook may give any. From the third in a row on the place has failed, and it is told."""
    acting, told = Acting(), []
    for looks in [[], [], [NOTHING], [NOTHING]]:
        (failure,) = acting.carry_out([create(0)], answer, *looks)
        told.append(failure.repeated)
    assert told == [False, False, True, True]
    assert acting.state.places.held_back(NOW) == {Place.of_node("node-0"): NOW + HELD}
    acting.carry_out([create(0)], ok())
    assert (acting.state.places.failing, acting.state.places.inconclusive) == ({}, {})


def test_not_found_for_a_pod_that_is_there_is_a_failure() -> None:
    acting = Acting()
    (failure,) = acting.carry_out([delete()], NOTHING, stored("node-0-v1"))
    assert failure.action == delete()


def test_what_failed_before_neither_stops_the_others_nor_makes_them_start_slowly() -> None:
    acting = Acting()
    acting.carry_out([create(number) for number in range(1, 3)], ok(), ok())
    acting.carry_out([create(0)], DENIED, NOTHING)
    creates = [create(number) for number in range(6)]
    (failure,) = acting.carry_out(creates, *[ok()] * 5, DENIED, NOTHING)
    assert failure.action == create(0), "the last one to be tried"
    assert len(acting.carry_out([create(0), create(7), create(8)], ok(), ok(), DENIED, NOTHING)) == 1


def test_every_answer_is_told_to_those_who_count() -> None:
    acting = Acting()
    acting.carry_out([create(0), delete()], ok(), QUOTA)
    assert [(action, type(error)) for action, error in acting.did] == [
        (delete(), type(None)),
        (create(0), QuotaExceeded),
    ]


def test_a_conflict_is_tried_again_and_not_told_to_anybody() -> None:
    acting = Acting()
    (failure,) = acting.carry_out([delete()], refusal(409, "Conflict"))
    assert isinstance(failure.error, Conflict)
    assert acting.notes == []
    assert acting.state.places.failing == {}


def test_nothing_is_planned_before_the_caches_show_what_was_written() -> None:
    acting = Acting()
    acting.carry_out([create(0), delete()], ok(), ok())
    behind = acting.dependencies.ledger.check(OURS, {OF_PODS: Reach(version=6)}, lambda uid: False, NOW)
    assert behind is not None
    assert behind.resource == OF_PODS
    assert acting.dependencies.ledger.check(OURS, {OF_PODS: Reach(version=7)}, lambda uid: False, NOW) is None


def test_of_very_many_actions_only_so_many_are_under_way_as_there_are_places() -> None:
    """What waits costs memory, and there may be a pass of every DaemonSet that waits."""
    acting = Acting()
    acting.state.accepted, acting.state.accepted_of = PROOF, "v1"
    most = 0
    creates = [create(number) for number in range(3 * CEILING)]

    class Watched(Script):
        async def exchange(self, request: Request) -> Response:
            nonlocal most
            most = max(most, len(asyncio.all_tasks()) - 1)
            return await super().exchange(request)

    acting.script = Watched()
    acting.__post_init__()
    assert acting.carry_out(creates, *[ok()] * len(creates)) == ()
    assert len(acting.asked) == len(creates)
    assert most == CEILING
