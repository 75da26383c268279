"""The record of a rollout: what counts as progress, when it is late, and that it never moves by itself."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.containers import PodProblem
from controller.api.daemonset import DaemonSetStatus, Phase, Rollout
from controller.api.names import PROGRESS_DEADLINE_ANNOTATION, TAINT_NOT_READY, TAINT_UNREACHABLE
from controller.api.objects import rfc3339
from controller.planner.limits import StepProgress
from controller.planner.plan import plan
from controller.planner.progress import Standing, advance, halted
from controller.planner.world import BackoffKey, World
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import (
    NOW,
    at,
    ds,
    everywhere,
    node,
    numbered,
    pod,
    status_in,
    taint,
    world,
)
from tests.unit.controller.planner.test_partition import CANARY
from tests.unit.controller.planner.written import looked_at, words

DEADLINE = 600.0
GOING = Standing(desired=5, target=5, updated=2, done=1, available=4, left_to_update=3)


def phase_of_world(found: World) -> str:
    status = found.daemonset.status
    return status.rollout.phase if status is not None and status.rollout is not None else ""


class Story:
    """One record, advanced pass by pass; the clock moves only by `after`."""

    def __init__(self, standing: Standing = GOING, before: DaemonSetStatus | None = None) -> None:
        self.now, self.standing, self.status = NOW, standing, before
        self.hash = "v2"

    def after(self, seconds: float = 0.0, **changes: Any) -> Rollout:
        """Time passes, then the standing changes and a pass looks at it."""
        self.now += seconds
        self.standing = replace(self.standing, **changes)
        record = advance(self.status, self.standing, revision_hash=self.hash, deadline=DEADLINE, now=self.now)
        self.status = DaemonSetStatus(update_revision=self.hash, rollout=record)
        return record

    def moves(self, seconds: float, **changes: Any) -> bool:
        """Whether that counts as progress."""
        return self.after(seconds, **changes).last_progress_time == rfc3339(self.now)


def test_a_rollout_starts_with_its_revision() -> None:
    story = Story()
    assert story.after() == Rollout(
        phase="Progressing",
        last_transition_time=rfc3339(NOW),
        start_time=rfc3339(NOW),
        last_progress_time=rfc3339(NOW),
        target=5,
        done=1,
        most_done=1,
        most_updated=2,
    )
    story.after(10, updated=5, done=5, available=5, left_to_update=0)
    story.hash = "v3"
    begun = story.after(100, updated=0, done=0, left_to_update=5)
    assert begun.start_time == begun.last_progress_time == rfc3339(NOW + 110)
    assert (begun.most_done, begun.most_updated, begun.completion_time) == (0, 0, None)


def test_time_alone_changes_nothing() -> None:
    story = Story()
    first = story.after()
    assert story.after(599) == first
    late = story.after(1)
    assert late.phase == Phase.STALLED
    assert story.after(86400) == late


@pytest.mark.parametrize("changes", [{"done": 2}, {"updated": 3}, {"target": 4}, {"target": 6}])
def test_this_is_progress(changes: dict[str, int]) -> None:
    story = Story()
    story.after()
    assert story.moves(300, **changes)
    assert story.after(599).phase == Phase.PROGRESSING
    assert story.after(1).phase == Phase.STALLED


@pytest.mark.parametrize(
    "changes", [{"available": 5}, {"done": 0}, {"updated": 1}, {"left_to_update": 2}, {"held_nodes": 1}]
)
def test_this_is_none(changes: dict[str, int]) -> None:
    story = Story()
    story.after()
    assert not story.moves(300, **changes)


def test_a_pod_that_is_made_or_gets_ready_again_and_again_is_no_progress() -> None:
    story = Story()
    story.after()
    assert story.moves(100, done=2)
    for _ in range(3):
        assert not story.moves(50, done=1, updated=1)
        assert not story.moves(50, done=2, updated=2)
    assert story.after(300).phase == Phase.STALLED


def test_a_stalled_rollout_that_gets_on_is_progressing_again() -> None:
    story = Story()
    story.after()
    assert story.after(600).phase == Phase.STALLED
    again = story.after(1000, done=2)
    assert (again.phase, again.last_transition_time) == (Phase.PROGRESSING, rfc3339(NOW + 1600))


@pytest.mark.parametrize(
    ("there", "back"),
    [
        ({"paused": True}, {"paused": False}),
        ({"on_delete": True}, {"on_delete": False}),
        ({"observed": False}, {"observed": True}),
    ],
)
def test_the_clock_stands_in_any_other_phase(there: dict[str, bool], back: dict[str, bool]) -> None:
    story = Story()
    story.after()
    story.after(599, **there)
    story.after(86400)
    assert story.moves(1, **back)
    assert story.after(599).phase == Phase.PROGRESSING


def test_after_a_refusal_that_is_taken_back_the_clock_starts_anew() -> None:
    story = Story()
    story.after()
    refused = story.after(10, refused="no such field")
    assert (refused.phase, refused.last_progress_time) == (Phase.STALLED, rfc3339(NOW))
    assert story.after(86400) == refused
    assert story.moves(1, refused="")
    assert story.after(599).phase == Phase.PROGRESSING


def test_an_unusable_spec_stalls_and_keeps_the_rest() -> None:
    story = Story()
    first = story.after()
    stopped = halted(story.status, NOW + 10)
    assert stopped == replace(first, phase="Stalled", last_transition_time=rfc3339(NOW + 10))
    assert halted(DaemonSetStatus(rollout=stopped), NOW + 99) == stopped
    assert halted(None, NOW).phase == Phase.STALLED


@pytest.mark.parametrize("refused", [True, False], ids=["refused", "unusable"])
def test_what_follows_a_long_pause_is_not_late_once_mended(refused: bool) -> None:
    story = Story()
    story.after(paused=True)
    if refused:
        story.after(86400, paused=False, refused="no such field")
    else:
        story.now += 86400
        story.status = DaemonSetStatus(update_revision="v2", rollout=halted(story.status, story.now))
    assert story.after(86400, paused=False, refused="").phase == Phase.PROGRESSING


def test_completion_is_the_first_time_that_all_are_available() -> None:
    story = Story()
    story.after()
    assert story.after(10, left_to_update=0, updated=5).completion_time is None
    complete = story.after(10, done=5, available=5)
    assert (complete.phase, complete.completion_time) == (Phase.HEALTHY, rfc3339(NOW + 20))
    worse = story.after(10, done=4, available=4)
    assert (worse.phase, worse.completion_time) == (Phase.DEGRADED, rfc3339(NOW + 20))
    assert story.after(86400).phase == Phase.DEGRADED, "the deadline is for rollouts"


def test_a_rollout_to_no_node_does_not_complete_that_to_the_nodes_after_it() -> None:
    """As of pods that were taken over and have never been ready."""
    story = Story(Standing())
    assert story.after().completion_time == rfc3339(NOW)
    came = story.after(10, desired=4, target=4, updated=4)
    assert (came.phase, came.completion_time) == (Phase.PROGRESSING, None)
    assert story.after(DEADLINE).phase == Phase.STALLED
    assert story.after(10, done=4, available=4).completion_time == rfc3339(NOW + DEADLINE + 20)


def test_with_steps_a_rollout_is_complete_once_its_limits_keep_the_rest() -> None:
    progress = StepProgress(step=1, count=2, allowed=2, needed=2, soak=0.0, unapproved=False, now=NOW)
    story = Story(replace(GOING, step_progress=progress, target=2, done=2, available=5, left_to_update=0))
    assert story.after().completion_time is None, "the step is not over"
    assert story.after(10, target=1, done=0).completion_time is None, "its one node is not done"
    assert story.after(10, done=1).completion_time == rfc3339(NOW + 20), "the partition keeps the other one"
    assert story.after(10, target=2).completion_time is None


def test_a_lower_partition_takes_the_completion_back_and_starts_the_clock() -> None:
    story = Story(Standing(desired=5, target=2, updated=2, done=2, available=5, held_nodes=3))
    assert story.after().phase == Phase.HELD
    on = story.after(86400, target=4, left_to_update=2, held_nodes=1)
    assert (on.phase, on.completion_time, on.start_time) == (Phase.PROGRESSING, None, rfc3339(NOW))
    assert on.last_progress_time == rfc3339(NOW + 86400)


def test_the_phase_remembers_since_when_across_revisions() -> None:
    story = Story(replace(GOING, paused=True))
    story.after()
    story.hash = "v3"
    assert story.after(50).last_transition_time == rfc3339(NOW)


def test_a_status_of_an_older_controller_begins_a_record() -> None:
    known = DaemonSetStatus(update_revision="v2", observed_generation=1)
    done = Standing(desired=5, target=5, updated=5, done=5, available=5)
    record = Story(done, known).after()
    assert (record.phase, record.start_time, record.completion_time) == ("Healthy", rfc3339(NOW), rfc3339(NOW))


def phase(cluster: ToyCluster) -> str:
    return cluster.status.rollout.phase


def progressing(cluster: ToyCluster) -> tuple[str, str, str]:
    [found] = [one for one in cluster.status.conditions if one.type == "Progressing"]
    return found.status, found.reason, found.message


def test_a_first_deployment_is_pending_then_progressing_then_healthy() -> None:
    cluster = ToyCluster(world(nodes=2))
    phases = []
    for _ in range(2):
        cluster.step()
        phases.append(phase(cluster))
    cluster.ready()
    cluster.step()
    assert [*phases, phase(cluster)] == ["Pending", "Progressing", "Healthy"]
    cluster.pass_time(31.0)
    cluster.step()
    assert cluster.plan.wake_at is None, "the revision is stable"


def test_a_lost_pod_makes_no_observed_generation_pending_again() -> None:
    cluster = ToyCluster(at("v1 v1", "v1"))
    cluster.step()
    cluster.lose("node-1-v1")
    cluster.expect("+node-1 v1")
    assert phase(cluster) == "Degraded"


def test_the_plan_wakes_up_at_the_deadline_and_says_what_it_waited_for() -> None:
    cluster = ToyCluster(at("v1 v1 v1", annotations={PROGRESS_DEADLINE_ANNOTATION: "60"}))
    cluster.expect("-node-2 v1", "+node-2 v2", "")
    assert cluster.plan.wake_at == pytest.approx(NOW + 60.05)
    cluster.pass_time(61)
    cluster.expect("")
    assert phase(cluster) == "Stalled"
    assert cluster.plan.wake_at is None
    status, reason, message = progressing(cluster)
    assert (status, reason) == ("False", "ProgressDeadlineExceeded")
    assert message == (
        "1 of 3 nodes has a pod of revision v2; no progress for 60 seconds; no new pod is available on node-2; "
        "1 node counts as unavailable, maxUnavailable is 1"
    )
    cluster.ready()
    cluster.settle()
    assert phase(cluster) == "Progressing"
    assert progressing(cluster)[:2] == ("True", "MaxUnavailableInUse")


GONE = taint(TAINT_UNREACHABLE, "NoExecute")
NOT_READY = taint(TAINT_NOT_READY, "NoExecute")
CRASHING = replace(pod("node-0", "v2", ready=None), problem=PodProblem.CRASH_LOOP)
ONE, TWO, THREE = (f"waits for {one}" for one in ("1 unreachable node: ", "2 unreachable nodes: ", "3 unreachable "))


WAITS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "an old pod": ("v1 v2", "G", {}, f"{ONE}node-0"),
    "an old pod that is not ready": ("v1! v2", "G", {}, f"{ONE}node-0"),
    "a new pod": ("v2! v2", "G", {}, f"{ONE}node-0"),
    "a pod that goes": ("v1† v2", "G", {}, f"{ONE}node-0"),
    "an old pod where the kubelet is not ready": ("v1! v2", "N", {}, f"{ONE}node-0"),
    "a new pod, which may be what makes its node not ready": ("v2! v2", "N", {}, ""),
    "the budget, which one uses up": ("v1 v1 v1", "G", {}, f"{ONE}node-0"),
    "the budget, which two use up": ("v1 v1 v1", "GG", {"max_unavailable": 2}, f"{TWO}node-1, node-0"),
    "the budget, which is overdrawn": ("v1 v1 v1 v1", "GGG", {}, f"{THREE}nodes: node-2, node-1, node-0"),
    "the budget, from a node that the partition keeps": ("v1 v1 v1", "G", {"partition": 2}, f"{ONE}node-0"),
    "the budget of a surge": ("v1+v2! v1", "G", {"max_surge": 1}, f"{ONE}node-0"),
    "another node has its turn": ("v1 v1", "G", {"max_unavailable": 2}, ""),
    "another node's pod starts": ("v1 v2!", "G", {}, ""),
    "its pod failed before": ("v1 v1", "G", {"pods": [CRASHING, pod("node-1")]}, ""),
    "its pod fails and its kubelet is not ready": ("v1 v2", "N", {"pods": [CRASHING, pod("node-1", "v2")]}, ""),
    "no node is silent": ("v2! v1", "", {}, ""),
}


@pytest.mark.parametrize(("state", "taints", "fields", "waits"), WAITS.values(), ids=WAITS)
def test_a_rollout_that_waits_for_nodes_alone_is_never_late(
    state: str, taints: str, fields: dict[str, Any], waits: str
) -> None:
    """The first nodes have taints: G for one that is gone, N for one that is not ready."""
    by_number = dict(enumerate({"G": GONE, "N": NOT_READY}[one] for one in taints))
    places = [[by_number[number]] if number in by_number else [] for number in range(len(state.split()))]
    fleet = [node(f"node-{number}", *taint_) for number, taint_ in enumerate(places)]
    found = looked_at(looked_at(at(state, nodes=fleet, **fields)))
    later = replace(found, now=NOW + 601)
    decided = plan(later)
    status, reason, said = words(looked_at(later), "Progressing")
    assert (waits in said, reason == "NodesUnreachable") == (True, bool(waits)), said
    assert status_in(decided).rollout.phase == ("Progressing" if waits else "Stalled"), said
    assert status == ("True" if waits else "False")
    assert not waits or decided.wake_at is None or decided.wake_at > later.now, "or it would never rest"


def test_a_write_that_fails_elsewhere_is_waited_for_too() -> None:
    in_backoff = {BackoffKey("object", pod("node-1").uid): NOW + 3600}
    fleet = [node("node-0", GONE), node("node-1")]
    found = looked_at(looked_at(world(ds("v2"), nodes=fleet, pods=everywhere(2), in_backoff=in_backoff)))
    assert phase_of_world(looked_at(replace(found, now=NOW + 601))) == "Stalled"


def test_pods_that_fail_again_and_again_stall_beside_a_node_that_is_gone() -> None:
    """Whenever all of them are ready, only that node is left; this is no progress."""
    story = Story(replace(GOING, updated=5, done=4, available=4, left_to_update=1))
    story.after(unreachable_only=("node-4",))
    for _ in range(10):
        story.after(30, done=2, available=2, unreachable_only=())
        last = story.after(60, done=4, available=4, unreachable_only=("node-4",))
        assert last.phase == Phase.PROGRESSING
    assert story.after(10, done=2, available=2, unreachable_only=()).phase == Phase.STALLED
    assert last.nodes_unreachable_since == rfc3339(story.now - 10)


def test_a_node_that_comes_back_after_the_rollout_has_the_whole_deadline() -> None:
    """Only then does a wait for a Degraded rollout end, which counts from the later of both times."""
    story = Story(replace(GOING, updated=5, done=5, available=5, left_to_update=0))
    story.after()
    story.after(100, done=4, available=4, unreachable_only=("node-4",))
    back = story.after(3600, unreachable_only=())
    assert (back.phase, back.last_progress_time) == (Phase.DEGRADED, rfc3339(story.now))
    story.after(30, unreachable_only=("node-4",))
    assert story.after(3600, unreachable_only=()).last_progress_time == rfc3339(story.now - 30)
    story.after(30, unreachable_only=("node-4",))
    story.after(3000, target=6, unreachable_only=("node-4",))
    assert story.after(10, unreachable_only=()).last_progress_time == rfc3339(story.now), "never in the future"


def test_after_waiting_for_a_node_the_deadline_goes_on() -> None:
    pods = (*everywhere(1), pod("node-1", "v2"))
    waiting = looked_at(world(ds("v2"), nodes=[node("node-0", GONE), node("node-1")], pods=pods))
    back = looked_at(looked_at(replace(waiting, nodes=numbered(2), now=NOW + 3600)))
    assert phase_of_world(back) == "Progressing"
    assert phase_of_world(looked_at(replace(back, now=NOW + 3600 + 599))) == "Progressing"
    assert phase_of_world(looked_at(replace(back, now=NOW + 3600 + 601))) == "Stalled"


def test_the_condition_says_complete_only_when_the_last_pod_is_available() -> None:
    cluster = ToyCluster(at("v2?"))
    cluster.step()
    assert progressing(cluster)[1] == "Updating"
    cluster.ready()
    cluster.step()
    assert progressing(cluster)[1] == "RolloutComplete"
    cluster.change_where(lambda _: True, ready=False, ready_since=None)
    cluster.step()
    assert (phase(cluster), progressing(cluster)[1]) == ("Degraded", "RolloutComplete")


def test_with_partition_and_selector_the_condition_names_what_holds() -> None:
    nodes = [node("node-0", labels=CANARY), "node-1", "node-2"]
    for partition, reason in ((1, "SelectorReached"), (2, "PartitionReached")):
        cluster = ToyCluster(at("v2 v1 v1", selector=CANARY, partition=partition, nodes=nodes))
        cluster.step()
        assert (phase(cluster), progressing(cluster)[1]) == ("Held", reason)


def test_a_pass_that_looks_again_wants_the_same_record() -> None:
    cluster = ToyCluster(at("v1 v1 v1"))
    cluster.settle()
    first = cluster.plan.status
    cluster.pass_time(300)
    cluster.step()
    assert cluster.plan.status == first
