"""What follows from the errors of writes: what counts, what is left, where writes pause, what the status tells,
which writes are made again and again, and how long a node waits whose pods do not last."""

from __future__ import annotations

import itertools
from collections.abc import Container, Mapping
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.inplace.change import InPlaceChange
from controller.kube.errors import (
    RETRY_VERDICTS,
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    MutatedByWebhook,
    UnknownOutcome,
    WriteVerdict,
)
from controller.planner import actions
from controller.planner.actions import Action, CreatePod, DeletePod, DeleteReason
from controller.planner.plan import Plan
from controller.planner.world import BackoffKey
from controller.reconcile.backoff import (
    LASTING_SECONDS,
    LONGEST_DELAY,
    LONGEST_NODE_DELAY,
    MOST_INCONCLUSIVE,
    MOST_REPEATS,
    QUIET_SECONDS,
    REPEAT_SECONDS,
    Delay,
    NodeBackoff,
    WriteBackoff,
)
from controller.reconcile.state import DaemonSetState
from controller.reconcile.write_outcomes import (
    WRITE_OUTCOMES,
    ActionResult,
    RetryDecision,
    RevertedWrites,
    WriteFailure,
    failure_after,
    may_be_done,
    retry_decision,
)
from controller.runtime.expectations import CacheProgress
from tests.beds.worlds import NOW, ds, pod, revision

REF = pod("node-0").ref
DELETE = DeletePod(pod=REF, node="node-0", why=DeleteReason.OUTDATED)


def create(node: str) -> CreatePod:
    return CreatePod(node=node, name=f"demo-of-{node}", revision=revision("v1"))


def refused(action: Action, words: str = "no", error: type[ApiError] = Forbidden) -> ActionResult:
    said = error("create", "pods", words)
    return ActionResult(action=action, error=said, retry_error=said)


# what an error counts as, and what is left to do

ACTIONS: tuple[Action, ...] = (
    create("node-0"),
    DELETE,
    actions.ProbeTemplate(node="node-0", name="demo-dry", revision=revision("v1")),
    actions.CreateRevision(name="demo-v1", hash="v1", number=1),
)
NEVER_DONE = {WriteVerdict.MUTATED, WriteVerdict.NAMESPACE_TERMINATING}
NOTHING, AGAIN, TOLD, DOUBT = RetryDecision.NONE, RetryDecision.RETRY, RetryDecision.REPORT, RetryDecision.CHECK
LEFT = {
    WriteVerdict.NOT_FOUND: (TOLD, RetryDecision.IF_PRESENT, AGAIN, AGAIN),
    WriteVerdict.ALREADY_EXISTS: (AGAIN, AGAIN, NOTHING, AGAIN),
    WriteVerdict.CONFLICT: (AGAIN, AGAIN, AGAIN, AGAIN),
    WriteVerdict.INVALID: (TOLD, TOLD, NOTHING, AGAIN),
    WriteVerdict.UNKNOWN_FIELDS: (TOLD, TOLD, NOTHING, AGAIN),
    WriteVerdict.FORBIDDEN: (TOLD, TOLD, NOTHING, AGAIN),
    WriteVerdict.MUTATED: (TOLD, TOLD, NOTHING, AGAIN),
    WriteVerdict.NAMESPACE_TERMINATING: (NOTHING, NOTHING, NOTHING, NOTHING),
    WriteVerdict.QUOTA_EXCEEDED: (TOLD, TOLD, NOTHING, AGAIN),
    WriteVerdict.FAILED: (TOLD, TOLD, AGAIN, AGAIN),
    WriteVerdict.UNAVAILABLE: (TOLD, TOLD, AGAIN, AGAIN),
    WriteVerdict.UNKNOWN_OUTCOME: (DOUBT, DOUBT, AGAIN, AGAIN),
}


@pytest.mark.parametrize("means", list(WriteVerdict), ids=lambda means: means.name)
def test_what_an_error_leaves_to_ask_and_to_do(means: WriteVerdict) -> None:
    for index, action in enumerate(ACTIONS):
        what = type(action).__name__
        never = NEVER_DONE | ({WriteVerdict.QUOTA_EXCEEDED} if isinstance(action, CreatePod) else set())
        asks = isinstance(action, CreatePod | DeletePod) and means not in never
        assert may_be_done(action, means) is asks, f"{what}: a lost earlier attempt may have succeeded"
        assert retry_decision(action, means, owner_gone=False) is LEFT[means][index], what
        assert retry_decision(action, means, owner_gone=True) is AGAIN, f"{what}: there is nothing to ask and to tell"


ENDS_REUSE = (None, AlreadyExists, MutatedByWebhook)


@pytest.mark.parametrize("error", [None, *RETRY_VERDICTS])
def test_the_name_of_an_unanswered_create_is_used_until_a_pod_may_have_it(error: type[ApiError] | None) -> None:
    """Then the name of the next pod comes from what was there: under the same name it would never be made."""
    daemonset, state, action = ds(), DaemonSetState(), create("node-0")
    state.begin(daemonset, CacheProgress())
    lost = UnknownOutcome("create", "pods", "no answer")
    state.learn(ActionResult(action=action, error=lost, retry_error=lost), daemonset, NOW)
    assert state.pending_names == {"node-0": action.name}
    state.learn(
        ActionResult(action=action, error=None if error is None else error("create", "pods", "no")), daemonset, NOW
    )
    assert (state.pending_names == {}) is (error in ENDS_REUSE)


# for how long a place is left alone


def test_a_key_is_in_backoff_from_its_second_failure_on() -> None:
    backoff: WriteBackoff[str] = WriteBackoff()
    backoff.record_failure("node-3", 100.0)
    assert backoff.in_backoff(100.0) == {}, "the first failure may be chance: it is tried again at once"
    backoff.record_failure("node-3", 100.0)
    assert backoff.in_backoff(100.0) == {"node-3": 101.0}
    assert (backoff.due_again(100.0), backoff.due_again(101.0)) == ({}, {"node-3": 101.0})
    backoff.record_failure("node-3", 101.0)
    assert backoff.in_backoff(102.5) == {"node-3": 103.0}
    assert backoff.in_backoff(103.0) == {}
    for _ in range(20):
        backoff.record_failure("node-3", 200.0)
    assert backoff.in_backoff(200.0) == {"node-3": 200.0 + LONGEST_DELAY}
    backoff.hold("node-3", 9.0, 200.0)
    assert backoff.in_backoff(200.0) == {"node-3": 209.0}, "whatever has failed before"


INCONCLUSIVE = {
    WriteVerdict.NOT_FOUND,
    WriteVerdict.ALREADY_EXISTS,
    WriteVerdict.CONFLICT,
    WriteVerdict.UNKNOWN_FIELDS,
    WriteVerdict.UNAVAILABLE,
    WriteVerdict.UNKNOWN_OUTCOME,
}


@pytest.mark.parametrize("means", list(WriteVerdict), ids=lambda means: means.name)
def test_an_error_counts_if_of_the_object_or_the_third_in_a_row(means: WriteVerdict) -> None:
    backoff: WriteBackoff[str] = WriteBackoff()
    alone = WRITE_OUTCOMES[means].counts
    counts = [backoff.record_error("node-3", NOW, counts=alone) for _ in range(MOST_INCONCLUSIVE)]
    assert counts == [means not in INCONCLUSIVE, means not in INCONCLUSIVE, True]
    assert "node-3" in backoff.failing


def test_server_back_clears_only_failures_the_server_may_have_caused() -> None:
    backoff: WriteBackoff[str] = WriteBackoff()
    for _ in range(MOST_INCONCLUSIVE + 2):
        backoff.record_error("away", NOW, counts=False)
        backoff.record_error("refused", NOW, counts=True)
    backoff.server_back()
    assert list(backoff.failing) == ["refused"]
    assert not backoff.is_suspect("away")


# which failure the status reports

BEFORE = WriteFailure(message="no pods here", without_name="no pods here", kind=CreatePod)
A, B = create("a"), create("b")
CHANGED = refused(A, "changed meanwhile", Conflict)
DONE_A, DONE_DELETE = ActionResult(action=A), ActionResult(action=DELETE)


@pytest.mark.parametrize(
    ("before", "plan", "answers", "failing", "reported"),
    [
        (None, Plan(actions=(A, B)), [CHANGED, refused(B, "not on b")], (), (CreatePod, "not on b")),
        (None, Plan(actions=(A,)), [CHANGED], {BackoffKey("node", "a")}, (CreatePod, "changed meanwhile")),
        (BEFORE, Plan(actions=(DELETE,)), [refused(DELETE, "not yours")], (), (DeletePod, "not yours")),
        (BEFORE, Plan(actions=(A,)), [CHANGED], (), (CreatePod, "no pods here")),
        (BEFORE, Plan(actions=(DELETE,)), [DONE_DELETE], (), (CreatePod, "no pods here")),
        (BEFORE, Plan(actions=(A,), withheld=True), [DONE_A], (), (CreatePod, "no pods here")),
        (BEFORE, Plan(withheld=True), [], (), (CreatePod, "no pods here")),
        (BEFORE, Plan(), [], (), (CreatePod, "no pods here")),
        (BEFORE, Plan(actions=(A,)), [DONE_A], (), None),
        (BEFORE, Plan(all_written=True), [], (), None),
    ],
    ids=[
        "the first that is not transient",
        "a transient one that repeats",
        "one of another kind",
        "a transient one replaces none",
        "writes of another kind succeed",
        "other nodes get their pods",
        "a back-off allows nothing",
        "the caches are behind",
        "its write succeeds",
        "nothing is left to write",
    ],
)
def test_the_status_reports_a_failure_until_its_kind_of_write_succeeds(
    before: WriteFailure | None,
    plan: Plan,
    answers: list[ActionResult],
    failing: Container[BackoffKey],
    reported: tuple[type[Action], str] | None,
) -> None:
    failure = failure_after(before, plan, answers, failing)
    assert (None if failure is None else (failure.kind, failure.message.rpartition(": ")[2])) == reported


def test_the_message_stays_while_only_the_name_in_it_differs() -> None:
    first = failure_after(None, Plan(actions=(A,)), [refused(A, f"pods {A.name} is forbidden")], ())
    assert failure_after(first, Plan(actions=(B,)), [refused(B, f"pods {B.name} is forbidden")], ()) == first
    other = failure_after(first, Plan(actions=(B,)), [refused(B, f"pods {B.name} exceeds quota")], ())
    assert other is not None
    assert "exceeds quota" in other.message


# writes that are made again and again

PREPARE = actions.PrepareDelete(pod=REF, node="node-0", why=DeleteReason.OUTDATED, mark=True, held_by="label a=b")
CANCEL = actions.CancelDelete(pod=REF)
FAILING = {PREPARE.backoff_key: Delay(until=0.0, delay=REPEAT_SECONDS)}


def repeated(*cycle: Action, times: int = MOST_REPEATS) -> RevertedWrites:
    writes = RevertedWrites()
    for _ in range(times):
        for action in cycle:
            writes.learn(ActionResult(action=action), {}, 0.0)
    return writes


@pytest.mark.parametrize(
    "cycle",
    [
        (PREPARE,),
        (PREPARE, CANCEL),
        (actions.AdoptPod(pod=REF, owners=0), actions.ReleasePod(pod=REF, owner_index=0)),
        (actions.RelabelPod(pod=REF, hash="v1"), actions.RelabelPod(pod=REF, hash="v2"), PREPARE),
        (actions.CreateRevision(name="demo-v1", hash="v1", number=1),),
        (actions.RenumberRevision(revision=REF, number=3),),
    ],
)
def test_a_cycle_of_writes_however_long_counts_as_reverted(cycle: tuple[Action, ...]) -> None:
    fewer, enough = repeated(*cycle, times=MOST_REPEATS - 1), repeated(*cycle)
    for action in cycle:
        assert fewer.reverted(action, {}, 1.0) is None, action
        assert action.name in str(enough.reverted(action, {}, 1.0))


UNREADY: dict[str, Any] = {"pod": REF, "node": "node-0"}
WRITES: tuple[Action, ...] = (
    PREPARE,
    CANCEL,
    DELETE,
    actions.AdoptPod(pod=REF, owners=0),
    actions.ReleasePod(pod=REF, owner_index=0),
    actions.RelabelPod(pod=REF, hash="v1"),
    actions.RelabelPod(pod=REF, hash="v1", reverted=True),
    actions.DrainPod(**UNREADY),
    actions.UpdateInPlace(**UNREADY, before="v1", revision=revision("v2"), change=InPlaceChange()),
    actions.ContinueInPlace(**UNREADY, revision=revision("v2")),
    actions.ResizePod(**UNREADY),
    actions.OpenGates(pod=REF, gates=()),
    actions.CreateRevision(name="demo-v1", hash="v1", number=1),
    actions.AdoptRevision(revision=REF, owners=0),
    actions.RenumberRevision(revision=REF, number=3),
    actions.RecordRun(revision=REF),
    actions.DeleteRevision(revision=REF),
)
"""One of every kind that may be taken back. Each create of a pod makes another object; a dry run makes none."""
HOUR = 3600.0


def test_every_kind_of_write_is_among_them() -> None:
    assert {type(one) for one in WRITES} == {*flattened(Action)} - {CreatePod, actions.ProbeTemplate}


def flattened(alias: Any) -> list[Any]:
    return [kind for one in get_args(alias) for kind in flattened(one)] or [alias]


@given(
    cycle=st.lists(st.sampled_from(WRITES), min_size=1, max_size=4, unique_by=WRITES.index),
    gaps=st.lists(st.floats(0.05, 500.0), min_size=4, max_size=4),
)
@settings(max_examples=200)
def test_whatever_is_taken_back_is_written_ever_less_often(cycle: list[Action], gaps: list[float]) -> None:
    """The law of all writes, alone or in a cycle. `gaps`: seconds from a write until the next one is wanted."""
    state, moment, in_second_hour = DaemonSetState(), 0.0, 0
    daemonset, turns = ds("v2"), itertools.cycle(zip(cycle, gaps, strict=False))
    for action, gap in turns:
        moment = max(moment, state.write_backoff.in_backoff(moment).get(action.backoff_key, 0.0))
        if moment >= 2 * HOUR:
            break
        undone = state.reverted_writes.reverted(action, state.write_backoff.failing, moment)
        counts = undone is not None and state.write_backoff.is_suspect(action.backoff_key)
        state.learn(ActionResult(action=action, error=undone, retry_error=undone, counts=counts), daemonset, moment)
        in_second_hour += moment >= HOUR
        moment += gap
    assert in_second_hour <= len(cycle) * (HOUR / LONGEST_DELAY + 2)


def test_other_writes_and_creates_of_pods_do_not_count() -> None:
    assert repeated(create("node-0")).reverted(create("node-0"), {}, 1.0) is None
    assert repeated(PREPARE).reverted(CANCEL, {}, 1.0) is None
    waiting = [
        actions.ContinueInPlace(pod=REF, node="node-0", revision=revision("v2"), waiting=names)
        for names in (("b", "c"), ("c",))
    ]
    assert repeated(waiting[0]).reverted(waiting[1], {}, 1.0) is None, "the next containers"


def test_a_refused_write_and_one_that_makes_up_for_it_do_not_count() -> None:
    writes = RevertedWrites()
    for _ in range(MOST_REPEATS):
        writes.learn(refused(PREPARE), FAILING, 0.0)
        writes.learn(ActionResult(action=CANCEL), FAILING, 0.0)
    assert writes.reverted(PREPARE, {}, 1.0) is None
    assert writes.reverted(CANCEL, {}, 1.0) is None


def test_long_ago_does_not_count_unless_its_place_was_left_alone() -> None:
    writes = repeated(PREPARE)
    assert writes.reverted(PREPARE, {}, REPEAT_SECONDS) is not None
    assert writes.reverted(PREPARE, {}, REPEAT_SECONDS + 1) is None
    assert writes.reverted(PREPARE, FAILING, REPEAT_SECONDS + 1) is not None


def test_a_place_is_contested_while_the_last_write_repeated_another() -> None:
    writes = repeated(PREPARE)
    assert writes.reverted_externally == set()
    error = writes.reverted(PREPARE, {}, 1.0)
    writes.learn(ActionResult(action=PREPARE, error=error, retry_error=error), {}, 1.0)
    assert writes.reverted_externally == {PREPARE.backoff_key}
    writes.learn(ActionResult(action=PREPARE), {}, 200.0)
    assert writes.reverted_externally == set()


# how long a node waits whose pods do not last


def lives(backoff: NodeBackoff, *seconds: float) -> list[float]:
    """The waits between a pod's end and the next create, for pods that live for so many seconds."""
    waits, moment = [], 0.0
    for number, lived in enumerate(seconds):
        backoff.created("node-0", f"demo-{number}", moment)
        moment += lived
        backoff.ended(pod("node-0", name=f"demo-{number}"), moment)
        due = max(backoff.not_before(moment).get("node-0", moment), moment)
        waits.append(due - moment)
        moment = due
    return waits


def known(backoff: NodeBackoff, moment: float) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """The nodes that wait, and those that are reported."""
    backoff.forget_lasting(moment)
    return backoff.not_before(moment), backoff.short_lived


def test_the_first_replacement_is_immediate_and_others_wait_ever_longer() -> None:
    assert lives(NodeBackoff(), *[0.0] * 6) == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert lives(NodeBackoff(), *[0.0] * 20)[-1] == LONGEST_NODE_DELAY
    assert lives(NodeBackoff(), *[5.0] * 6) == [0.0, 0.0, 0.0, 0.0, 3.0, 11.0], "the wait is counted from the create"


def test_a_pod_that_lasts_a_minute_and_longer_than_its_wait_ends_back_off() -> None:
    assert lives(NodeBackoff(), 0.0, 0.0, 0.0, LASTING_SECONDS, 0.0, 0.0) == [0.0, 1.0, 2.0, 0.0, 0.0, 1.0]
    grown = NodeBackoff()
    assert lives(grown, *[0.0] * 9)[-1] == 128.0
    assert known(grown, 1000.0) == ({}, {"node-0": 128.0 + QUIET_SECONDS})
    grown.created("node-0", "demo-next", 260.0)
    assert known(grown, 260.0 + 255.0)[1] == {"node-0": 261.0 + 256.0}, "until the pod has lasted for its wait"
    assert known(grown, 260.0 + 256.0) == ({}, {})


@pytest.mark.parametrize("seen_to_end_first", [True, False])
def test_our_own_deletions_are_no_failure_of_a_node(seen_to_end_first: bool) -> None:
    backoff = NodeBackoff()
    for number in range(9):
        name, moment = f"demo-{number}", 5.0 * number
        backoff.created("node-0", name, moment)
        if seen_to_end_first:
            backoff.ended(pod("node-0", name=name, created=NOW + moment), moment + 1)
        backoff.deleted("node-0", name)
        if not seen_to_end_first:
            backoff.ended(pod("node-0", name=name, created=NOW + moment), moment + 1)
        assert known(backoff, moment + 2) == ({}, {})


def test_the_wait_is_counted_from_the_create_that_may_have_made_the_pod() -> None:
    """The first request got no answer, and was not carried out."""
    backoff = NodeBackoff()
    for moment in (0.0, 1.0):
        backoff.created("node-0", f"demo-{moment}", moment)
    backoff.created("node-0", "demo-1.0", 30.0)
    backoff.ended(pod("node-0", name="demo-1.0"), 30.5)
    assert known(backoff, 30.5)[0] == {"node-0": 31.0}
    backoff.created("node-0", "demo-1.0", 40.0)
    assert known(backoff, 40.0)[0] == {}, "a late answer to the create of a pod that is gone"


def test_the_end_of_another_pod_and_a_repeated_create_keep_the_wait() -> None:
    backoff = NodeBackoff()
    backoff.created("node-0", "demo-0", 0.0)
    backoff.ended(pod("node-0", name="demo-old"), 1.0)
    backoff.created("node-0", "demo-0", 2.0)
    assert (backoff.created_on["node-0"].wait, backoff.created_on["node-0"].lasted) == (0.0, None)
    assert known(backoff, 2.0 + LASTING_SECONDS) == ({}, {})
    assert not backoff.created_on, "what lasts is forgotten"
