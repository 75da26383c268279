"""What becomes of an action by the server's answer, and what the answer says of the template."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from controller.api.names import FAILED_CREATE, FAILED_DELETE, SUCCESSFUL_CREATE
from controller.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    QuotaExceeded,
    ServerError,
    TooManyRequests,
    UnknownOutcome,
    Unreachable,
)
from controller.kube.requests import NotConnected, Request, Response
from controller.kube.sender import CEILING
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
from controller.planner.world import POD_QUOTA, Accepted, BackoffKey, TemplateRefused, TemplateVerdict
from controller.reconcile.backoff import FIRST_DELAY
from controller.reconcile.state import SLOW_START_CREATES
from controller.reconcile.write_outcomes import TERMINATING_SECONDS
from controller.runtime.expectations import OF_PODS, CacheProgress
from controller.runtime.workers import SILENCE_SECONDS
from tests.beds.dependencies import Acting, refusal, stored
from tests.beds.scripted import Answer, Script, Slow, ok
from tests.beds.worlds import NOW, OURS, pod, refusing, revision

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


PROBE = ProbeTemplate(node="node-0", name="demo-dry", revision=revision("v1"))


HELD = FIRST_DELAY
"""Seconds for which a place is left alone after its second failure in a row."""


@pytest.mark.parametrize(
    ("answer", "looks", "error", "seconds"),
    [
        pytest.param(DENIED, [NOTHING], Forbidden, HELD, id="admission says no"),
        pytest.param(refusal(422, "Invalid"), [NOTHING], Invalid, HELD, id="invalid"),
        pytest.param(BROKEN, [NOTHING], ServerError, HELD, id="a server error"),
        pytest.param(BROKEN, [stored("demo-0")], ServerError, 0, id="perhaps it came through"),
        pytest.param(BROKEN, [AWAY], ServerError, 0, id="the look fails too"),
        pytest.param(AWAY, [], Unreachable, 0, id="no connection: no matter of the node"),
        pytest.param(refusal(429, retry_after=99), [], TooManyRequests, 0, id="a busy server: no matter of the node"),
        pytest.param(LOST, [], UnknownOutcome, 0, id="no answer"),
    ],
)
def test_a_node_is_left_alone_after_two_failures_that_are_its_own(
    answer: Answer, looks: list[Answer], error: type[ApiError], seconds: float
) -> None:
    acting = Acting()
    for _ in range(2):
        (failure,) = acting.carry_out([create(0)], answer, *looks)
        assert type(failure.error) is error
        assert failure.action == create(0)
    assert acting.state.write_backoff.in_backoff(NOW) == (
        {BackoffKey("node", "node-0"): NOW + seconds} if seconds else {}
    )


def test_a_full_quota_is_reported_and_is_a_matter_of_all_pods_once_a_pass() -> None:
    """Many creates that are refused at once are one failure: else the next try would be minutes away."""
    acting = Acting()
    for _ in range(2):
        acting.state.accepted, acting.state.accepted_of = SLOW_START_CREATES, "v1"
        failures = acting.carry_out([create(0), create(1)], QUOTA, QUOTA)
        assert [failure.action for failure in failures] == [create(0), create(1)]
    assert acting.state.write_backoff.in_backoff(NOW) == {POD_QUOTA: NOW + HELD}
    assert {note.reason for note in acting.notes} == {FAILED_CREATE}
    assert "exceeded quota" in acting.notes[0].message
    acting.carry_out([create(0)], ok())
    assert acting.state.write_backoff.failing == {}, "there is room"
    assert acting.notes[-1].reason == SUCCESSFUL_CREATE


@pytest.mark.parametrize(
    "action",
    [
        CreateRevision(name="demo-v1", hash="v1", number=1),
        RenumberRevision(revision=revision("v0").ref, number=3),
        DeleteRevision(revision=revision("v0").ref),
        RelabelPod(pod=pod("node-0").ref, hash="v1"),
        PROBE,
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_write_of_any_kind_that_fails_again_is_left_alone(action: Action) -> None:
    acting = Acting()
    for _ in range(2):
        assert len(acting.carry_out([action], BROKEN)) == 1
    assert acting.state.write_backoff.in_backoff(NOW) == {action.backoff_key: NOW + HELD}
    acting.carry_out([action], ok())
    assert acting.state.write_backoff.failing == {}


def test_a_pod_that_cannot_be_deleted_is_left_alone_by_its_uid() -> None:
    acting = Acting()
    for _ in range(2):
        (failure,) = acting.carry_out([delete()], DENIED, stored("node-0-v1"))
        assert isinstance(failure.error, Forbidden)
    assert acting.state.write_backoff.in_backoff(NOW) == {BackoffKey("object", pod("node-0").uid): NOW + HELD}
    assert [(note.reason, note.warning) for note in acting.notes] == [(FAILED_DELETE, True)] * 2
    assert acting.state.write_failure is not None


def test_in_a_namespace_that_ends_a_place_is_left_alone_without_a_report() -> None:
    acting = Acting()
    assert acting.carry_out([create(0)], ENDING) == ()
    assert acting.state.write_backoff.in_backoff(NOW) == {BackoffKey("node", "node-0"): NOW + TERMINATING_SECONDS}
    assert TERMINATING_SECONDS >= 10, "it may end for minutes, and every pass would ask again"
    for _ in range(2):
        assert acting.carry_out([PROBE], ENDING) == ()
    verdicts = acting.state.verdicts
    assert (verdicts.known(NOW), verdicts.retry_dry_run_at) == ({}, 0.0), "it does not refuse the template"
    assert acting.notes == []


def test_not_found_is_a_failure_unless_the_pod_to_delete_is_gone() -> None:
    acting = Acting()
    assert acting.carry_out([delete()], NOTHING, NOTHING) == ()
    (failure,) = acting.carry_out([delete()], NOTHING, stored("node-0-v1"))
    assert failure.action == delete()
    assert Acting().carry_out([delete()], NOTHING, stored("node-0-v1", terminating=True)) == ()
    (failure,) = acting.carry_out([create(0)], NOTHING)
    assert failure.action == create(0), "its namespace is gone"
    (failure,) = Acting().carry_out([delete()], NOTHING, AWAY)
    assert isinstance(failure.error, Unreachable), "the look failed"


def test_for_a_field_that_no_pod_has_no_node_is_left_alone() -> None:
    acting, unknown = Acting(), refusal(400, "BadRequest", 'strict decoding error: unknown field "spec.hostnetwork"')
    for _ in range(2):
        acting.carry_out([replace(create(0), strict=True)], unknown)
    assert acting.state.write_backoff.failing == {}
    assert "unknown field spec.template.spec.hostnetwork (annotation" in acting.notes[0].message


def test_slow_start_doubles_and_ends_with_the_first_batch_that_fails() -> None:
    acting = Acting()
    creates = [create(number) for number in range(10)]
    (failure,) = acting.carry_out(creates, ok(), ok(), ok(), QUOTA, ok(), ok(), ok())
    assert failure.action == creates[3]
    assert len(acting.asked) == 1 + 2 + 4, "the 3 after them are not tried"


def test_a_revision_that_went_through_is_made_at_once_until_one_fails() -> None:
    acting = Acting()
    acting.carry_out([create(0)], ok())
    assert len(acting.carry_out([create(1), create(2)], QUOTA)) == 1, "one pod proves nothing yet"
    acting = Acting()
    acting.carry_out([create(0), replace(create(1), revision=revision("v2"))], ok(), ok())
    assert acting.state.past_slow_start == "", "nor do those of another revision"
    acting = Acting()
    creates = [create(number) for number in range(5)]
    acting.carry_out(creates, *[ok()] * 5)
    assert len(acting.carry_out(creates, *[QUOTA] * 5)) == 5, "all at once: nothing has failed before"
    assert len(acting.carry_out(creates, QUOTA)) == 1, "one at first"


@pytest.mark.parametrize("answer", [refusal(409, "Conflict"), NOTHING, LOST], ids=["conflict", "absent", "lost"])
def test_an_inconclusive_answer_counts_from_the_third_in_a_row_on(answer: Answer) -> None:
    """A webhook may give any. From the third in a row on the place has failed, and it is reported."""
    acting, told = Acting(), []
    for looks in [[], [], [NOTHING], [NOTHING]]:
        (failure,) = acting.carry_out([create(0)], answer, *looks)
        told.append(failure.repeated)
    assert told == [False, False, True, True]
    assert acting.state.write_backoff.in_backoff(NOW) == {BackoffKey("node", "node-0"): NOW + HELD}
    acting.carry_out([create(0)], ok())
    assert (acting.state.write_backoff.failing, acting.state.write_backoff.inconclusive) == ({}, {})


def test_what_failed_before_is_tried_last_and_holds_up_no_other() -> None:
    acting = Acting()
    acting.carry_out([create(number) for number in range(1, 3)], ok(), ok())
    acting.carry_out([create(0)], DENIED, NOTHING)
    creates = [create(number) for number in range(6)]
    (failure,) = acting.carry_out(creates, *[ok()] * 5, DENIED, NOTHING)
    assert failure.action == create(0), "the last one to be tried"
    assert len(acting.carry_out([create(0), create(7), create(8)], ok(), ok(), DENIED, NOTHING)) == 1


def test_every_answer_is_counted() -> None:
    acting = Acting()
    acting.carry_out([create(0), delete()], ok(), QUOTA)
    did = [(action, type(error)) for action, error in acting.did]
    assert did == [(delete(), type(None)), (create(0), QuotaExceeded)]


def test_a_conflict_is_tried_again_and_not_reported() -> None:
    acting = Acting()
    (failure,) = acting.carry_out([delete()], refusal(409, "Conflict"))
    assert isinstance(failure.error, Conflict)
    assert (acting.notes, acting.state.write_backoff.failing) == ([], {})


def test_nothing_is_planned_before_the_caches_show_what_was_written() -> None:
    acting = Acting()
    acting.carry_out([create(0), delete()], ok(), ok())
    expectations = acting.dependencies.expectations
    behind = expectations.check(OURS, {OF_PODS: CacheProgress(version=6)}, lambda uid: False, NOW)
    assert behind is not None
    assert behind.resource == OF_PODS
    assert expectations.check(OURS, {OF_PODS: CacheProgress(version=7)}, lambda uid: False, NOW) is None


@pytest.mark.parametrize(
    ("creates", "answers", "revision_hash"),
    [
        (2, [DENIED, DENIED, NOTHING, NOTHING], ""),
        (2, [DENIED, ok(), NOTHING], "v1"),
        (1, [DENIED, NOTHING], "v1"),
        (1, [QUOTA], ""),
        (2, [Slow(SILENCE_SECONDS + 1, DENIED), Slow(SILENCE_SECONDS + 1, DENIED), NOTHING, NOTHING], "v1"),
    ],
    ids=[
        "all are refused",
        "one is accepted",
        "one alone, perhaps for its node",
        "a full quota",
        "too late",
    ],
)
def test_slow_start_begins_again_once_all_creates_of_a_pass_fail(
    creates: int, answers: list[Answer], revision_hash: str
) -> None:
    acting = Acting(now=1000.0)
    acting.state.accepted, acting.state.accepted_of = SLOW_START_CREATES, "v1"
    acting.carry_out([create(number) for number in range(creates)], *answers)
    assert acting.state.past_slow_start == revision_hash


def test_of_very_many_actions_a_limited_number_is_under_way() -> None:
    """What waits costs memory, and there may be a pass of every DaemonSet that waits."""
    most = 0

    class Watched(Script):
        async def exchange(self, request: Request) -> Response:
            nonlocal most
            most = max(most, len(asyncio.all_tasks()) - 1)
            return await super().exchange(request)

    acting = Acting(script=Watched())
    acting.state.accepted, acting.state.accepted_of = SLOW_START_CREATES, "v1"
    creates = [create(number) for number in range(3 * CEILING)]
    assert acting.carry_out(creates, *[ok()] * len(creates)) == ()
    assert (len(acting.asked), most) == (len(creates), CEILING)


@pytest.mark.parametrize(
    ("answer", "verdict", "failures"),
    [
        pytest.param(ok(), Accepted(), 0, id="accepted"),
        pytest.param(
            refusal(422, "Invalid", "no such field"), TemplateRefused(message="no such field"), 0, id="invalid"
        ),
        pytest.param(DENIED, None, 0, id="forbidden, perhaps for the node"),
        pytest.param(QUOTA, Accepted(), 0, id="a full quota: the pod that goes makes room"),
        pytest.param(refusal(409, "AlreadyExists"), Accepted(), 0, id="its name is taken, which is checked last"),
        pytest.param(BROKEN, None, 1, id="broken"),
        pytest.param(AWAY, None, 1, id="away"),
    ],
)
def test_what_a_dry_run_says_of_the_template(answer: Answer, verdict: TemplateVerdict | None, failures: int) -> None:
    acting = Acting()
    assert len(acting.carry_out([PROBE], answer)) == failures
    assert acting.state.verdicts.known(NOW).get("v1") == verdict


def test_a_template_counts_as_refused_when_two_nodes_may_not_have_it() -> None:
    acting = Acting()
    verdicts = acting.state.verdicts
    for _ in range(2):
        acting.carry_out([PROBE], DENIED)
    assert verdicts.known(NOW) == refusing("v1", "not on this node")
    assert verdicts.retry_dry_run_at == NOW + 60
    for answer in (DENIED, DENIED, ok(), DENIED, DENIED):
        acting.carry_out([PROBE], answer)
    assert verdicts.retry_dry_run_at == NOW + 60, "one that is accepted after all begins anew"
