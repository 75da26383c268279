"""What is done next for a job, case by case."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import pytest
from msgspec.structs import replace

from controller.api.image_pull_job import ImagePullJobStatus, PullState, Targets
from controller.api.objects import rfc3339
from controller.imagepull.job_plan import (
    FAILED_NODES_KEPT,
    LOST,
    PULLED,
    Attempt,
    DeleteJob,
    EndPuller,
    StartPuller,
    plan,
)
from controller.imagepull.job_state import JobState, new_state, nodes_without_image
from controller.kube.sender import CEILING
from controller.planner.world import Unpullable, Unpulled
from tests.unit.controller.imagepull.worlds import BEGUN, MOMENT, NOW, changed, having, job, puller, started, world

DONE, FAILED = PullState.SUCCEEDED, PullState.FAILED


def failed_once(node: str, *, due: float = MOMENT, failures: int = 1) -> Attempt:
    return Attempt(failures=failures, due=due, why="ErrImagePull", puller=f"old-{node}")


def test_as_many_start_as_are_free() -> None:
    decided = plan(world(job(parallelism=3), "e", "d", "c", "b", "a", pullers=(puller("d"),)))
    assert started(decided) == ["e", "c"]
    assert (decided.status.active, decided.status.desired) == (3, 5)


def test_a_node_whose_create_is_not_answered_takes_a_place() -> None:
    unanswered = world(job(parallelism=2), "b", "a", "c", in_flight={"b"})
    assert started(plan(unanswered)) == ["a"]
    assert started(plan(replace(unanswered, pullers=(puller("b"),)))) == ["a"], "one, though its puller is there"


def test_a_node_whose_answer_was_lost_keeps_its_place_and_is_asked_again() -> None:
    lost = world(job(parallelism=2), "d", "c", "b", "a", pending_creates={"b": inf}, failing={"b": 1})
    assert started(plan(lost)) == ["b", "d"]
    assert started(plan(changed(lost, max_creates=1))) == ["b"]
    assert started(plan(changed(lost, in_backoff={"b"}))) == ["d"]
    assert started(plan(changed(lost, pullers=(puller("b"),)))) == ["d"], "one, now that its puller is there"
    assert started(plan(changed(lost, pending=dict.fromkeys("dca")))) == ["d", "c"], "none for a node that has left"


def test_a_lost_answer_counts_until_the_puller_is_seen_or_cannot_come() -> None:
    memory = chosen("b", "a")
    memory.pending_creates = {"b": 30.0, "a": 40.0}
    memory.observe_pullers("agent:v2", (puller("a"),), 29.9)
    assert memory.pending_creates == {"b": 30.0}
    memory.observe_pullers("agent:v2", (), 30.0)
    assert memory.pending_creates == {}


def test_there_is_never_more_than_one_puller_on_a_node() -> None:
    terminating = puller("a", terminating=True)
    assert started(plan(world(job(parallelism=2), "b", "a", pullers=(terminating,)))) == ["b"]


def test_once_pulled_the_puller_goes_and_the_next_one_comes() -> None:
    decided = plan(world(job(), "b", "a", pullers=(puller("b", DONE),)))
    assert decided.actions == (EndPuller(pod=puller("b").ref), StartPuller(node="a"))
    assert decided.results == {"b": PULLED}


def test_a_failure_is_tried_again_later_and_others_come_first() -> None:
    decided = plan(world(job(), "b", "a", pullers=(puller("b", FAILED, "ErrImagePull"),)))
    assert started(decided) == ["a"]
    assert decided.attempts == {"b": Attempt(failures=1, due=MOMENT + 1, why="ErrImagePull", puller="p-b")}
    assert decided.wake_at == MOMENT + 1


def test_a_failure_is_counted_once_however_often_its_puller_is_seen() -> None:
    known = Attempt(failures=1, due=MOMENT + 1, why="ErrImagePull", puller="p-b")
    decided = plan(world(job(), "b", attempts={"b": known}, pullers=(puller("b", FAILED, "ErrImagePull"),)))
    assert (decided.attempts, decided.results) == ({}, {})
    assert decided.actions == (EndPuller(pod=puller("b").ref),)


@pytest.mark.parametrize(("failures", "wait"), [(1, 2), (2, 4), (4, 16), (5, 30), (9, 30), (9_999, 30)])
def test_the_waits_between_attempts_grow(failures: int, wait: float) -> None:
    known = {"a": failed_once("a", failures=failures)}
    asked = job(pullPolicy={"backoffLimit": 2**31 - 1})
    decided = plan(world(asked, "a", "b", attempts=known, pullers=(puller("a", FAILED, "x"),)))
    assert decided.attempts["a"].due == MOMENT + wait


def test_after_the_last_attempt_the_node_has_failed() -> None:
    known = {"a": failed_once("a", failures=3)}
    decided = plan(world(job(), "a", "b", attempts=known, pullers=(puller("a", FAILED, "ErrImagePull: no"),)))
    assert decided.results == {"a": "ErrImagePull: no"}
    assert (decided.status.failed, decided.status.failed_nodes) == (1, ("a",))
    assert decided.status.message == "job is running, progress 0.0%; a: ErrImagePull: no"
    (note,) = decided.notes
    assert (note.reason, note.message, note.warning) == ("ImagePullFailed", "a: ErrImagePull: no", True)
    known = {"a": failed_once("a", failures=2)}
    assert plan(world(job(), "a", "b", attempts=known, pullers=(puller("a", FAILED, "no"),))).results == {}


def test_a_name_that_no_kubelet_can_read_is_not_tried_again() -> None:
    decided = plan(world(job(), "a", "b", pullers=(puller("a", FAILED, "InvalidImageName: no"),)))
    assert decided.results == {"a": "InvalidImageName: no"}


def test_a_failure_without_words_is_none_the_less_one() -> None:
    decided = plan(world(job(pullPolicy={"backoffLimit": 0}), "a", "b", pullers=(puller("a", FAILED, ""),)))
    assert (decided.results, decided.status.succeeded, decided.status.failed) == ({"a": ""}, 0, 1)


def test_a_node_is_tried_again_only_when_its_time_has_come() -> None:
    assert started(plan(world(job(), "a", attempts={"a": failed_once("a", due=MOMENT + 0.5)}))) == []
    assert started(plan(world(job(), "a", attempts={"a": failed_once("a")}))) == ["a"]


def test_nodes_where_creates_failed_come_last_after_their_backoff() -> None:
    several = world(job(parallelism=2), "c", "b", "a", failing={"c": 1}, in_backoff={})
    assert started(plan(several)) == ["b", "a"]
    assert started(plan(changed(several, pending=dict.fromkeys("cb")))) == ["b", "c"]
    assert started(plan(changed(several, pending=dict.fromkeys("cb"), in_backoff={"c"}))) == ["b"]
    assert started(plan(world(job(), "c", failing={"c": 1}, attempts={"c": failed_once("c")}))) == ["c"]


def test_an_attempt_that_takes_too_long_has_failed() -> None:
    asked = job(pullPolicy={"timeoutSeconds": 60})
    slow = puller("a", why="the scheduler has not bound the pod")
    decided = plan(world(asked, "a", pullers=(slow,), first_seen={"p-a": MOMENT - 59}))
    assert (decided.attempts, decided.wake_at) == ({}, MOMENT + 1)
    decided = plan(world(asked, "a", pullers=(slow,), first_seen={"p-a": MOMENT - 60}))
    assert decided.attempts["a"].why == "not pulled within 60 s: the scheduler has not bound the pod"


@pytest.mark.parametrize(
    "stray", [puller("gone"), puller("a", job_uid="another"), puller("b", DONE), puller("silent")]
)
def test_a_puller_that_is_of_no_use_ends(stray: object) -> None:
    decided = plan(world(job(parallelism=0), "a", "b", "silent", not_ready={"silent"}, pullers=(stray,)))
    assert [type(action) for action in decided.actions] == [EndPuller]
    assert decided.attempts == {}


def test_a_puller_that_ends_already_is_left_alone() -> None:
    pullers = (puller("a", terminating=True), puller("b", DONE), puller("c", DONE))
    decided = plan(world(job(), "a", "b", "c", pullers=pullers, in_flight={"p-b"}, in_backoff={"p-c"}))
    assert decided.actions == ()


def test_it_is_over_when_every_node_is_done_with() -> None:
    settled = {"a": PULLED, "b": "ErrImagePull"}
    decided = plan(world(job(), "a", "b", "c", results=settled, pullers=(puller("c", DONE),)))
    assert decided.status.completion_time == rfc3339(NOW)
    assert (decided.status.succeeded, decided.status.failed, decided.status.active) == (2, 1, 0)
    assert decided.actions == (EndPuller(pod=puller("c").ref),)
    assert decided.results == {"c": PULLED}, "or another puller would come, were the status not stored"
    assert decided.notes[-1].message == "job has completed; b: ErrImagePull"


def test_a_job_without_nodes_is_over_at_once() -> None:
    decided = plan(world(job()))
    assert decided.status.completion_time == rfc3339(NOW)
    assert [note.warning for note in decided.notes] == [False], "nothing has failed"


def test_a_job_of_type_never_is_never_over() -> None:
    decided = plan(world(job(completionPolicy={"type": "Never"}), "a", results=having("a")))
    assert (decided.status.completion_time, decided.actions, decided.wake_at) == (None, (), inf)


ON = {"completionPolicy": {"type": "Never"}}


def test_a_failed_node_of_an_endless_job_has_its_turn_after_all_others() -> None:
    settled, due = {"a": "not found"}, {"a": MOMENT}
    assert started(plan(world(job(**ON), "b", "a", results=settled, retry_at=due))) == ["b"]
    assert started(plan(world(job(parallelism=2, **ON), "b", "a", results=settled, retry_at=due))) == ["b", "a"]
    assert started(plan(world(job(**ON), "a", results=settled))) == ["a"], "who begins to lead does not know when"
    early = plan(world(job(**ON), "a", results=settled, retry_at={"a": MOMENT + 1}))
    assert (early.actions, early.wake_at) == ((), MOMENT + 1)
    assert started(plan(world(job(), "b", "a", results=settled, retry_at=due))) == ["b"], "any other job ends"


def test_a_node_counts_as_failed_until_it_has_the_image() -> None:
    tried = world(job(**ON), "a", results={"a": "not found"}, pullers=(puller("a"),), retry_at={"a": MOMENT})
    assert (plan(tried).status.failed, plan(tried).status.active, plan(tried).actions) == (1, 1, ())
    done = plan(changed(tried, pullers=(puller("a", DONE),)))
    assert (done.results, done.status.failed, done.status.succeeded) == ({"a": PULLED}, 0, 1)
    failed = plan(changed(tried, pullers=(puller("a", FAILED, "denied"),)))
    assert (failed.results, failed.status.failed, failed.status.succeeded) == ({"a": "denied"}, 1, 0)
    assert [note.message for note in failed.notes] == ["a: denied"]
    seen = plan(changed(tried, pullers=(puller("a", FAILED, "denied"),), retry_at={"a": MOMENT + 600}))
    assert (seen.results, seen.notes, seen.actions) == ({}, (), (EndPuller(pod=puller("a").ref),))
    assert plan(changed(tried, pullers=(), lost_pullers={"a": "p-a"})).results == {"a": LOST}


def test_silent_nodes_are_waited_for_as_long_as_one_attempt_may_take() -> None:
    alone = world(job(), "a", "b", results=having("a"), not_ready={"b"})
    assert (plan(alone).only_not_ready, plan(alone).wake_at) == (True, MOMENT + 600)
    assert plan(changed(alone, only_not_ready_since=MOMENT - 600)).status.failed_nodes == ("b",)
    busy = world(job(), "a", "b", not_ready={"b"}, pullers=(puller("a"),))
    assert plan(busy).only_not_ready is False
    assert plan(replace(busy, pullers=())).actions == (StartPuller(node="a"),)
    assert plan(changed(busy, lost_pullers={"b": "p-b"})).attempts == {}, "it went with its node"


def test_nodes_without_the_image_have_failed_at_the_deadline() -> None:
    asked = job(completionPolicy={"activeDeadlineSeconds": 100})
    late = ImagePullJobStatus(start_time=rfc3339(NOW - 100))
    decided = plan(world(asked, "a", "b", results=having("a"), status=late, pullers=(puller("b"),)))
    assert (decided.status.start_time, decided.status.completion_time) == (late.start_time, rfc3339(NOW))
    assert decided.status.failed_nodes == ("b",)
    assert decided.status.message.startswith("job exceeds activeDeadlineSeconds")
    assert decided.actions == (EndPuller(pod=puller("b").ref),)
    early = plan(world(asked, "a", "b", results=having("a"), pullers=(puller("b"),)))
    assert (early.status.completion_time, early.wake_at) == (None, MOMENT + 100)


def test_at_the_deadline_notes_give_the_last_failure_of_each_node() -> None:
    asked = job(parallelism=3, pullPolicy={"backoffLimit": 9}, completionPolicy={"activeDeadlineSeconds": 100})
    late = ImagePullJobStatus(start_time=rfc3339(NOW - 100))
    pullers = (puller("done", DONE), puller("now", FAILED, "ErrImagePull: no"), puller("pulls", why="unbound"))
    nodes = ("done", "now", "pulls", "before", "never")
    decided = plan(world(asked, *nodes, status=late, pullers=pullers, attempts={"before": failed_once("before")}))
    assert (decided.results, decided.status.succeeded) == ({"done": PULLED}, 1), "what is there is there"
    assert [note.message for note in decided.notes if note.reason == "ImagePullFailed"] == [
        "now: ErrImagePull: no",
        "pulls: it was still being pulled: unbound",
        "before: ErrImagePull",
    ]
    assert decided.status.failed_nodes == ("before", "never", "now", "pulls")
    assert decided.status.message == "job exceeds activeDeadlineSeconds; before: ErrImagePull"


def test_what_is_over_leaves_no_puller_and_goes_in_its_time() -> None:
    asked = job(completionPolicy={"ttlSecondsAfterFinished": 60})
    ended = replace(BEGUN, completion_time=rfc3339(NOW - 59))
    assert plan(world(asked, "a", status=ended, pullers=(puller("a"),))).actions == (EndPuller(pod=puller("a").ref),)
    assert plan(world(asked, "a", status=ended)).wake_at == MOMENT + 1
    assert plan(world(asked, "a", status=ended)).actions == ()
    ended = replace(BEGUN, completion_time=rfc3339(NOW - 60))
    assert plan(world(asked, "a", status=ended)).actions == (DeleteJob(job=asked.ref),)
    assert plan(world(asked, "a", status=ended, in_flight={"j1"})).actions == ()
    assert plan(world(job(), "a", status=ended)).actions == (), "without ttl it stays"
    assert plan(world(replace(asked, terminating=True), "a", status=ended)).actions == ()


@pytest.mark.parametrize("completion_time", [None, rfc3339(NOW)])
def test_a_job_left_behind_by_its_daemonset_goes_and_a_users_stays(completion_time: str | None) -> None:
    status, orphan = replace(BEGUN, completion_time=completion_time), replace(job(), hash="v2")
    gone = world(orphan, "a", status=status)
    assert plan(gone).actions == (DeleteJob(job=orphan.ref),)
    assert plan(replace(gone, pullers=(puller("a"),))).actions == (EndPuller(pod=puller("a").ref),)
    for stays in (replace(orphan, owner_uid="d1"), replace(orphan, hash="")):
        assert DeleteJob(job=stays.ref) not in plan(replace(gone, job=stays)).actions


def test_a_job_that_is_being_deleted_starts_nothing() -> None:
    terminating = replace(job(), terminating=True)
    assert plan(world(terminating, "a", "b", pullers=(puller("a"),))).actions == (EndPuller(pod=puller("a").ref),)


def test_the_status_says_why_no_puller_is_created() -> None:
    decided = plan(world(job(), "a", refusal="create pods: exceeded quota", max_creates=0))
    assert decided.status.message == "job is running, progress 0.0%; create pods: exceeded quota"
    assert started(decided) == []


def test_the_status_has_a_bound() -> None:
    nodes = [f"{number:05}" + "x" * 248 for number in range(5000)]
    decided = plan(world(job(), *nodes, results=dict.fromkeys(nodes, "y" * 200)))
    assert decided.status.failed == 5000
    assert len(decided.status.failed_nodes or ()) == FAILED_NODES_KEPT
    assert len(decided.status.message) <= 1024


class Walked(dict[str, None]):
    """Counts how many of its nodes were looked at in a row."""

    steps = 0

    def __iter__(self) -> Iterator[str]:
        for node in super().__iter__():
            self.steps += 1
            yield node


@pytest.mark.parametrize("state", list(PullState))
def test_a_pass_looks_at_as_many_nodes_as_pull_at_a_time(state: PullState) -> None:
    left = Walked({f"{number:05}": None for number in range(10_000)})
    pullers = tuple(puller(f"{number:05}", state, "ErrImagePull") for number in range(50))
    plan(world(job(parallelism=50), pending=left, pullers=pullers))
    assert left.steps <= 200


COMPLETED = ImagePullJobStatus(failed=2, failed_nodes=("a", "b"), completion_time="2027-01-15T08:00:00Z")
OVER = replace(job(), status=COMPLETED)
SEE = Unpullable(why=f"see ImagePullJob {OVER.name}")


def found(memory: JobState | None) -> dict[str, Unpulled]:
    return dict(nodes_without_image(OVER, memory, ("a", "b", "c"), lambda node: True))


def test_nodes_of_a_finished_job_keep_the_error_of_the_registry() -> None:
    memory = new_state(job())
    memory.failed = {"a": "ErrImagePull: not found"}
    memory.clear()
    assert found(memory) == {"a": Unpullable(why="ErrImagePull: not found"), "b": SEE}


def test_a_new_leader_points_to_the_finished_job() -> None:
    memory = new_state(OVER)
    memory.clear()
    assert found(memory) == found(None) == {"a": SEE, "b": SEE}


AGAIN = Attempt(failures=1, due=0.0, why="ErrImagePull", puller="p")


def chosen(*nodes: str, having: frozenset[str] = frozenset()) -> JobState:
    memory = new_state(job())
    memory.set_targets(Targets(nodes=nodes, with_image=having), (1,))
    return memory


def test_a_new_node_inherits_no_results_by_its_name() -> None:
    memory = chosen("d", "c", "b", "a")
    memory.pending.clear()
    memory.pulled, memory.failed, memory.attempts = {"d", "a"}, {"c": "not found"}, {"b": AGAIN}
    memory.retry_at = {"c": 600.0}
    for node in ("d", "c", "b"):
        memory.forget_result(node)
    memory.set_targets(Targets(nodes=("d", "c", "b", "a")), (2,))
    assert (list(memory.pending), memory.pulled, memory.failed, memory.attempts) == (["d", "c", "b"], {"a"}, {}, {})
    assert memory.retry_at == {}


def test_a_failed_node_that_reports_the_image_has_it() -> None:
    memory = chosen("b", "a")
    memory.failed = {"b": "not found", "a": "not found"}
    memory.set_targets(Targets(nodes=("b", "a"), with_image=frozenset("b")), (2,))
    assert (memory.pulled, memory.failed, memory.pending) == ({"b"}, {"a": "not found"}, {})


def test_attempts_on_nodes_that_left_the_job_are_forgotten() -> None:
    memory = chosen("c", "b", "a")
    memory.failed, memory.attempts = {"c": "not found"}, {"b": AGAIN}
    memory.set_targets(Targets(nodes=("a",)), (2,))
    assert (memory.failed, memory.attempts, list(memory.pending)) == ({}, {}, ["a"])


def test_creates_that_are_refused_are_tried_one_by_one_ever_more_seldom() -> None:
    memory = chosen("a")
    assert memory.max_creates(0.0) == CEILING
    memory.create_refused("quota", 10.0)
    memory.create_refused("quota", 20.0)
    assert (memory.refused_since, memory.no_creates_before) == (10.0, 22.0)
    assert (memory.max_creates(21.9), memory.max_creates(22.0)) == (0, 1)
    memory.pause_creates(20.5)
    assert memory.no_creates_before == 22.0
    memory.pause_creates(30.0)
    assert memory.no_creates_before == 31.0
    memory.create_accepted()
    assert (memory.refused_since, memory.max_creates(40.0)) == (inf, CEILING)
    memory.create_refused("quota", 50.0)
    assert memory.no_creates_before == 51.0, "from the beginning"


def test_the_newer_of_two_statuses_counts() -> None:
    memory, written = new_state(job()), ImagePullJobStatus(succeeded=3)
    assert memory.latest_status(OVER) == COMPLETED
    memory.own_status.wrote(written, "8", 0.0)
    assert memory.latest_status(OVER) == written, "the cache has version 7"
    assert memory.latest_status(replace(OVER, version="8")) == COMPLETED


def test_a_node_that_leaves_and_comes_back_pulls_anew() -> None:
    memory = chosen("b", "a")
    memory.pulled = {"b", "a"}
    memory.set_targets(Targets(nodes=("a",)), (2,), updated=())
    assert memory.pulled == {"a"}
    memory.pulled = {"b", "a"}
    memory.set_targets(Targets(nodes=("a",)), (3,), updated=("b",))
    assert memory.pulled == {"b", "a"}, "it has been updated"


@pytest.mark.parametrize(
    ("image", "mutated"), [("", False), ("docker.io/library/agent:v2", False), ("agent:v3", True)]
)
def test_only_another_image_is_admissions(image: str, mutated: bool) -> None:
    memory = new_state(job())
    memory.observe_pullers("agent:v2", (puller("a", image=image),), MOMENT)
    assert memory.mutates_image is mutated
