"""What answers of Prometheus mean for a rollout in steps: `rollingUpdate.checks`."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import (
    Check,
    CheckRecord,
    CheckState,
    OnFailure,
    Rollout,
    RolloutStep,
    UnreachableNodes,
)
from controller.api.objects import rfc3339
from controller.planner.checks import CheckNow, CheckRequest, CheckResult, checks_now, query_problem, recorded
from controller.planner.failure import failure_of_checks
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import NOW, node, taint
from tests.unit.controller.planner.test_steps import at, begun, stepped
from tests.unit.controller.planner.test_topology import blocked, said

CHECKS = (Check(name="errors", query="errors > 0"),)
FAILING, UNANSWERED = CheckState.FAILING, CheckState.UNANSWERED


def record_of(state: str, ago: float, message: str = "as recorded") -> Rollout:
    return Rollout(checks=(CheckRecord(name="errors", state=state, since=rfc3339(NOW - ago), message=message),))


def passing(ago: float = 0.0) -> CheckResult:
    return CheckResult(sent_at=NOW - ago)


def failing(ago: float = 0.0, since: float = 0.0, series: str = "{} 1") -> CheckResult:
    return CheckResult(sent_at=NOW - ago, series=series, since=NOW - since)


@pytest.mark.parametrize(
    ("answer", "record", "state", "message"),
    [
        (passing(), Rollout(), None, ""),
        (passing(69), record_of("Failing", 99), None, ""),
        (failing(), Rollout(), FAILING, "{} 1"),
        (failing(69), record_of("Failing", 99), FAILING, "as recorded"),
        (failing(), record_of("Unanswered", 99), FAILING, "{} 1"),
        (replace(passing(40), problem="silent"), Rollout(), None, ""),
        (replace(failing(40), problem="silent"), Rollout(), FAILING, "{} 1"),
        (replace(passing(71), problem="silent"), Rollout(), UNANSWERED, "silent"),
        (replace(failing(71), problem="silent"), record_of("Failing", 99), UNANSWERED, "silent"),
        (passing(71), Rollout(), UNANSWERED, "the last answer is too old"),
        (CheckResult(problem="silent"), record_of("Unanswered", 99), UNANSWERED, "silent"),
        (CheckResult(), record_of("Unanswered", 99), UNANSWERED, "as recorded"),
        (CheckResult(), record_of("Failing", 99), FAILING, "as recorded"),
        (CheckResult(), record_of("OfALaterVersion", 99), UNANSWERED, "as recorded"),
    ],
)
def test_how_a_check_stands(answer: CheckResult, record: Rollout, state: CheckState | None, message: str) -> None:
    (found,) = checks_now(CHECKS, {"errors": answer}, record, NOW)
    assert (found.state, found.message) == (state, message)
    assert recorded([found]) == () if state is None else recorded([found])[0].state == state
    assert found.is_answered == (state is not UNANSWERED and answer.sent_at > -inf)


def test_a_first_answer_is_waited_for_without_a_word() -> None:
    (found,) = checks_now(CHECKS, {}, Rollout(), NOW)
    assert found.state is UNANSWERED
    assert not found.passes_from(None)
    assert recorded([found]) == ()


def test_where_prometheus_is_not_asked_the_status_is_believed() -> None:
    (found,) = checks_now(CHECKS, None, Rollout(), NOW)
    assert found.passes_from(NOW + 99)
    (found,) = checks_now(CHECKS, None, record_of("Failing", 9999), NOW)
    assert found.state is FAILING
    assert failure_of_checks(OnFailure(), [found], began=0.0, now=NOW).why == ""


def test_the_record_changes_only_with_the_state() -> None:
    """Not with the value, which is another one each time."""
    (first,) = recorded(checks_now(CHECKS, {"errors": failing()}, Rollout(), NOW))
    later = failing(-30, since=0.0, series="{} 2")
    (second,) = recorded(checks_now(CHECKS, {"errors": later}, Rollout(checks=(first,)), NOW + 31))
    assert second == first
    (silent,) = recorded(checks_now(CHECKS, {"errors": replace(passing(99), problem="x")}, Rollout(), NOW))
    again = checks_now(CHECKS, {"errors": replace(passing(99), problem="x")}, Rollout(checks=(silent,)), NOW + 60)
    assert recorded(again) == (silent,)


@pytest.mark.parametrize(
    ("asked", "since", "due"), [(NOW - 1, NOW - 61, -inf), (NOW - 1, NOW - 30, 30.0), (-inf, NOW - 999, inf)]
)
def test_only_an_answer_of_late_fails_for_long(asked: float, since: float, due: float) -> None:
    check = CheckNow(
        name="errors", state=FAILING, since=since, message="{} 1", sent_at=asked, is_answered=asked > -inf
    )
    found = failure_of_checks(OnFailure(after="1m"), [check], began=0.0, now=NOW)
    assert found.why == ("check errors fails for longer than 1m: {} 1" if due == -inf else "")
    assert due == -inf or found.due == (NOW + due)
    assert failure_of_checks(OnFailure(after="1m"), [check], began=NOW, now=NOW).why == "", "it is tried again"


@pytest.mark.parametrize(
    ("query", "pods", "rendered"),
    [
        ("a", (), "a"),
        ('a{pod=~"$pods"}', ("x-1.b", "x-2"), 'a{pod=~"(?:x-1[.]b|x-2)"}'),
        ('a{pod=~"$pods"}', (), 'a{pod=~"-"}'),
        ('$namespace/$name/$revision "$$" "b$"', (), 'agents/agent/v2 "$" "b$"'),
        ("$$name $$$name", (), "$name $agent"),
        ("$nope", (), "$nope"),
    ],
)
def test_variables(query: str, pods: tuple[str, ...], rendered: str) -> None:
    asking = CheckRequest(checks=(), revision="v2", pods=pods, checked_from=None)
    assert asking.query(Check(name="a", query=query), "agents", "agent") == rendered


@pytest.mark.parametrize("query", ["$", "$$", "a$ b", 'x=~"a$"', "$pods$name", "$$nope", "$1"])
def test_known_variables(query: str) -> None:
    assert query_problem(query) == ""


@pytest.mark.parametrize("query", ["$nope", "$namespaces", "${pods}", "$$$nope", "$_"])
def test_unknown_variables(query: str) -> None:
    assert "is not one of $namespace, $name, $revision, $pods; write $$" in query_problem(query)


STEPS = (RolloutStep(nodes=1, soak="1m"), RolloutStep())


def answers(cluster: ToyCluster, **answer: float | str) -> None:
    """As of now, unless it says otherwise."""
    now = cluster.world.now
    cluster.world = replace(cluster.world, check_results={"errors": CheckResult(**{"sent_at": now, **answer})})  # type: ignore[arg-type]


def soaking(**rolling: Any) -> ToyCluster:
    rolling |= {"checks": CHECKS, "on_failure": OnFailure(after="2m")}
    cluster = begun(stepped(steps=STEPS, rolling=rolling))
    answers(cluster)
    cluster.settle()
    cluster.ready()
    cluster.settle()
    assert at(cluster) == ("Soaking", 1, 2)
    return cluster


def asked_from(cluster: ToyCluster) -> float | None:
    status = cluster.status
    assert status.check_request is not None
    return status.check_request.checked_from


def test_a_step_ends_by_an_answer_from_after_its_soak() -> None:
    cluster = soaking()
    cluster.pass_time(61)
    cluster.expect("")
    assert at(cluster) == ("Soaking", 1, 2)
    assert cluster.plan.wake_at is None, "it is the answer that wakes it"
    due = asked_from(cluster)
    assert due is not None
    answers(cluster, sent_at=due - 1)
    cluster.expect("")
    assert at(cluster) == ("Soaking", 1, 2)
    answers(cluster, sent_at=due)
    cluster.expect("")
    assert at(cluster) == ("Progressing", 2, 2)
    cluster.expect("-node-2 v1, -node-1 v1, -node-0 v1", "+node-0 v2, +node-1 v2, +node-2 v2", "")
    cluster.ready()
    answers(cluster, sent_at=cluster.world.now + 1)
    cluster.expect("", "")
    assert (at(cluster)[0], cluster.status.check_request) == ("Healthy", None)
    answers(cluster, series="{} 1")
    cluster.expect("")
    assert at(cluster)[0] == "Healthy", "a complete rollout is judged no more"


def test_a_check_that_fails_takes_the_step_back() -> None:
    cluster = soaking()
    cluster.pass_time(61)
    answers(cluster, series="{} 1", since=cluster.world.now)
    cluster.expect("")
    assert said(cluster.plan, "Progressing")[:2] == ("True", "CheckFailing")
    assert asked_from(cluster) is None
    assert cluster.status.fails_at == pytest.approx(cluster.world.now + 120), "onFailure.after"
    assert [note.reason for note in cluster.plan.rollout_events] == ["CheckFailing"]
    cluster.expect("")
    assert cluster.plan.rollout_events == ()
    cluster.pass_time(30)
    answers(cluster)
    cluster.expect("")
    assert at(cluster) == ("Soaking", 1, 2)
    assert asked_from(cluster) == pytest.approx(cluster.world.now + 60, abs=1)
    answers(cluster, series="{} 1", since=cluster.world.now - 121)
    cluster.world = replace(cluster.world, now=cluster.world.now + 121)
    answers(cluster, series="{} 1", since=cluster.world.now - 121)
    cluster.expect("")
    assert at(cluster)[0] == "Aborted"
    assert (cluster.status.check_request, cluster.status.rollout.checks) == (None, None)


def test_a_step_asks_for_its_approval_before_its_checks_are_answered() -> None:
    steps = (RolloutStep(nodes=1, approval="Required"), RolloutStep())
    cluster = begun(stepped(steps=steps, rolling={"checks": CHECKS}))
    answers(cluster)
    cluster.settle()
    cluster.ready()
    cluster.expect("")
    answers(cluster, sent_at=cluster.world.now - 1)
    cluster.expect("")
    assert at(cluster)[0] == "AwaitingApproval"


def test_a_check_without_an_answer_is_never_stalled_alone() -> None:
    cluster = soaking()
    cluster.pass_time(61)
    answers(cluster)
    cluster.expect("")
    cluster.pass_time(71)
    for _ in range(3):
        cluster.expect("")
        assert said(cluster.plan, "Progressing")[:2] == ("True", "CheckUnanswered")
        assert blocked(cluster.plan) == {"CheckUnanswered"}
        cluster.pass_time(900)
    assert at(cluster) == ("Progressing", 2, 2)
    answers(cluster)
    cluster.expect("-node-2 v1, -node-1 v1, -node-0 v1")
    assert at(cluster)[0] == "Progressing", "the deadline begins anew"
    cluster.expect("+node-0 v2, +node-1 v2, +node-2 v2", "")
    cluster.pass_time(700)
    cluster.expect("")
    assert at(cluster)[0] == "Stalled", "pods do not get ready, and they are waited for too"


def test_beside_a_node_that_is_left_out_neither() -> None:
    left_out = UnreachableNodes(leave_out=1)
    cluster = soaking(unreachable_nodes=left_out)
    cluster.pass_time(61)
    answers(cluster)
    cluster.expect("")
    cluster.set_nodes(node("node-3", taint("node.kubernetes.io/unreachable", "NoExecute")))
    cluster.change_where(lambda one: one.node == "node-3", ready=False)
    for _ in range(3):
        cluster.pass_time(900)
        cluster.expect("")
    assert at(cluster)[0] == "Progressing"


@pytest.mark.parametrize(("fails", "comes"), [(True, "v1"), (False, "v2")])
def test_no_node_gets_the_revision_while_a_check_fails(fails: bool, comes: str) -> None:
    """While it has no answer, one that has lost its pod gets what the step allows."""
    cluster = soaking()
    cluster.pass_time(61)
    answers(cluster)
    cluster.expect("")
    assert at(cluster) == ("Progressing", 2, 2)
    cluster.pass_time(71)
    if fails:
        answers(cluster, series="{} 1", since=cluster.world.now)
    for name in ("node-0", "node-3"):
        (pod,) = [one for one in cluster.world.pods if one.node == name]
        cluster.lose(pod.name)
    cluster.expect(f"+node-0 {comes}, +node-3 v2")
    cluster.expect("")
