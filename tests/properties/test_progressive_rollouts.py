"""Progressive rollouts, whatever happens between passes: no step begins too early, and each pass keeps the laws."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from controller.api.daemonset import (
    Check,
    DaemonSet,
    DaemonSetStatus,
    OnFailure,
    Rollout,
    RolloutStep,
    Topology,
    UnreachableNodes,
    rollout_of,
)
from controller.api.objects import rfc3339
from controller.planner import actions
from controller.planner.revisions import current_revision
from controller.planner.rollout_state import rollout_state
from controller.planner.world import ClockOffset, World
from controller.reconcile.check_evaluation import CheckResults
from controller.reconcile.first_seen import SoakClock
from controller.runtime.clock import Instant
from tests.beds.random_worlds import UNREACHABLE
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import NOW, ago, ds, everywhere, node, world
from tests.properties.planner_facts import (
    eligible,
    is_available,
    last_hash,
    left_out,
    live,
    of_current,
    step_limit,
    updated,
)
from tests.properties.planner_laws import LAWS
from tests.properties.size import every_day

COUNT = 6
NAMES = st.sampled_from([f"node-{number}" for number in range(COUNT)])
SOAKS = (0, 30, 90)
STEPS = st.lists(
    st.builds(
        RolloutStep,
        nodes=st.sampled_from([1, 2, 3, "50%", "100%"]),
        soak=st.sampled_from([f"{seconds}s" for seconds in SOAKS]),
        approval=st.sampled_from(["", "", "Required"]),
    ),
    min_size=1,
    max_size=4,
).map(tuple)


def takes(action: actions.Action) -> bool:
    """Whether it is the first of a node's update."""
    if isinstance(action, actions.DeletePod | actions.PrepareDelete):
        return action.why is actions.DeleteReason.OUTDATED
    return isinstance(action, actions.UpdateInPlace)


class Walks(RuleBasedStateMachine):
    """Moves of users, nodes, kubelets and controllers on a toy cluster. `moment` is the time that really passes."""

    cluster: ToyCluster

    @initialize(
        steps=STEPS,
        surge=st.booleans(),
        domains=st.sampled_from([None, 1]),
        leave_out=st.sampled_from([0, 1, 2]),
        action=st.sampled_from(["Pause", "RollBack"]),
        checked=st.booleans(),
    )
    def begin(
        self,
        steps: tuple[RolloutStep, ...],
        surge: bool,
        domains: int | None,
        leave_out: int,
        action: str,
        checked: bool,
    ) -> None:
        self.rev, self.steps, self.said = 1, steps, dict[str, str]()
        self.more: dict[str, Any] = {"unreachable_nodes": UnreachableNodes(leave_out=leave_out)}
        self.more["on_failure"] = OnFailure(unavailable_nodes=2, after="30s", restarts=3, action=action)
        if domains is not None:
            self.more["topology"] = Topology(key="zone", max_domains=domains, max_unavailable=2)
        self.more["checks"] = (Check(name="errors", query="errors"),) if checked else ()
        self.answers, self.prometheus = CheckResults(), "passes"
        self.verdict: tuple[str, float] | None = None
        """What the last answer of this process about this revision was, and when it came."""
        self.limit: dict[str, Any] = {"max_surge": 3} if surge else {"max_unavailable": 3}
        self.moment, self.soak = 0.0, SoakClock()
        nodes = [self.node(f"node-{number}") for number in range(COUNT)]
        stable = Rollout(stable_revision="v1", start_time=rfc3339(ago(9999)))
        daemonset = replace(self.daemonset(), status=DaemonSetStatus(update_revision="v1", rollout=stable))
        self.cluster = ToyCluster(world(daemonset, nodes=nodes, pods=everywhere(COUNT)))
        self.reached: float | None = None
        """Since when the present step is reached, as the pods show it."""
        self.held: set[str] = set()
        """The nodes that held the current revision when the spec was edited or the status was lost."""
        self.a_template_is_applied(2)

    def node(self, name: str, *, lost: bool = False) -> Any:
        return node(name, *([UNREACHABLE] if lost else []), labels={"zone": "ab"[int(name[-1]) % 2]})

    def daemonset(self) -> DaemonSet:
        rolling = {**self.more, "steps": self.steps}
        return ds(f"v{self.rev}", annotations=self.said, rolling=rolling, **self.limit)

    def step(self) -> tuple[str, int]:
        status = self.cluster.world.daemonset.status
        record = status.rollout if status is not None else None
        revision = status.update_revision if status is not None else ""
        return revision, (record.step or 0) if record is not None else 0

    # the controller

    @rule()
    def a_pass(self) -> None:
        cluster, before, (revision, step) = self.cluster, self.cluster.world, self.step()
        ahead = NOW + self.moment - before.now
        instant, server = Instant(before.now, self.moment), ClockOffset(ahead=max(ahead, 0.0))
        self.soak.observe(before.daemonset.status, instant, ClockOffset(ahead=min(ahead, 0.0)))
        self.answers.observe(before.daemonset.status, instant)
        answers, reached = self.answers.dated(instant), self.soak.since(instant)
        cluster.world = replace(before, step_reached=reached, check_results=answers, server_offset=server)
        before = cluster.effective
        cluster.step()
        status, instant = cluster.status, Instant(cluster.world.now, self.moment)
        self.soak.record(status.revision_hash, status.rollout, instant, ClockOffset())
        self.no_check_is_passed_over(before)
        for law in LAWS:
            law(before, cluster.plan)
        now = self.step()
        if now[0] == revision and now[1] > step > 0:
            assert now[1] == step + 1
            done = self.steps[min(step, len(self.steps)) - 1]
            assert self.reached is not None, "a step is over that is not reached"
            assert self.moment - self.reached >= float(done.soak.removesuffix("s"))
            approval = f"{current_revision(before)[0].hash}/{step}"
            assert not done.approval or self.said.get("kruise-ds/approve") == approval
            if self.more["checks"]:
                assert self.passed(), "a step is over without a recent answer"
                assert self.verdict is not None
                assert self.verdict[1] >= self.reached + float(done.soak.removesuffix("s"))
        if now != (revision, step):
            self.reached = None
        self.the_step_is_reached_or_not()

    def passed(self) -> bool:
        return self.verdict is not None and self.verdict[0] == "passes" and self.moment - self.verdict[1] <= 70

    def no_check_is_passed_over(self, before: World) -> None:
        """And what is asked next."""
        rollout, status = rollout_state(before), self.cluster.plan.status
        assert status is not None
        if rollout.checks and not self.passed():
            assert not [one for one in self.cluster.plan.actions if takes(one)], "a node is taken in spite of a check"
        known = rollout_of(before.daemonset.status).aborted_message
        if known is None and "check errors" in (status.rollout.aborted_message or ""):
            assert self.verdict is not None
            assert self.verdict[0] == "fails"
            assert self.moment - self.verdict[1] <= 70
        if status.check_request is None:
            self.answers.forget()
            self.verdict = None
        else:
            self.verdict = self.verdict if self.answers.revision == status.check_request.revision else None
            self.answers.prepare(status.check_request, self.moment)

    @rule(how=st.sampled_from(["passes", "passes", "fails", "dead"]))
    def prometheus_is(self, how: str) -> None:
        self.prometheus = how
        self.checks_are_evaluated()

    @rule()
    def checks_are_evaluated(self) -> None:
        for known in self.answers.known.values():
            if self.prometheus == "dead":
                known.problem = "it does not answer"
            else:
                known.answered("{} 1" if self.prometheus == "fails" else "", self.moment, 70.0)
                self.verdict = self.prometheus, self.moment
        self.the_step_is_reached_or_not()
        self.a_pass()

    @rule(seconds=st.sampled_from([1, 10, 40, 100]))
    def the_rollout_goes_on(self, seconds: int) -> None:
        self.checks_are_evaluated()
        for _ in range(3):
            self.a_pass()
        self.pods_get_ready()
        self.the_step_is_reached_or_not()
        self.a_pass()
        self.time_passes(seconds)
        self.a_pass()
        self.checks_are_evaluated()

    @rule(seconds=st.sampled_from([0, 0, -3600, 3600]))
    def the_controller_restarts(self, seconds: int) -> None:
        """Perhaps on another machine, whose clock differs by so much. The server's clock is right."""
        self.set_clock(seconds)
        self.cluster.world = replace(
            self.cluster.world, predecessors={}, verdicts={}, not_before={}, unavailable_since=None
        )
        self.soak, self.answers, self.verdict = SoakClock(), CheckResults(), None

    @rule(seconds=st.sampled_from([-3600, 3600]))
    def the_clock_is_set(self, seconds: int) -> None:
        """Of the controller's machine, while it runs."""
        self.a_pass()
        self.set_clock(seconds)

    def set_clock(self, seconds: int) -> None:
        pods = tuple(
            replace(one, ready_since=one.ready_since and one.ready_since + min(seconds, 0))
            for one in self.cluster.world.pods
        )
        since = self.cluster.world.unavailable_since
        moved = None if since is None else {name: moment + seconds for name, moment in since.items()}
        self.cluster.world = replace(
            self.cluster.world, pods=pods, now=self.cluster.world.now + seconds, unavailable_since=moved
        )

    @rule()
    def the_status_is_lost(self) -> None:
        self.cluster.world = replace(self.cluster.world, daemonset=replace(self.cluster.world.daemonset, status=None))
        self.reached = None
        self.remember_holders()

    # users

    @rule(rev=st.integers(1, 4))
    def a_template_is_applied(self, rev: int) -> None:
        self.rev = rev
        self.edit()

    @rule(steps=STEPS)
    def the_steps_are_edited(self, steps: tuple[RolloutStep, ...]) -> None:
        self.steps = steps
        self.edit()

    @rule(step=st.integers(1, 4))
    def a_step_is_approved(self, step: int) -> None:
        self.said = {"kruise-ds/approve": f"{current_revision(self.cluster.world)[0].hash}/{step}"}
        self.edit()

    def edit(self) -> None:
        self.cluster.edit(self.daemonset())
        self.remember_holders()

    def remember_holders(self) -> None:
        world = self.cluster.world
        current = current_revision(world)[0].hash
        self.held = updated(world) | {name for name in eligible(world) if last_hash(world, name) == current}

    # nodes and kubelets

    @rule()
    def pods_get_ready(self) -> None:
        self.time_passes(1)
        self.cluster.ready()

    @rule(seconds=st.sampled_from([10, 40, 100]))
    def time_passes(self, seconds: int) -> None:
        self.moment += seconds
        self.cluster.pass_time(seconds)

    @rule(name=NAMES)
    def a_pod_gets_sick(self, name: str) -> None:
        self.cluster.change_where(lambda one: one.node == name, ready=False, ready_since=None)

    @rule(name=NAMES)
    def a_pod_crashes_again_and_again(self, name: str) -> None:
        self.cluster.change_where(lambda one: one.node == name, ready=False, ready_since=None, restarts=3)

    @rule(suffix=st.sampled_from(["", "/1", "/2"]))
    def an_aborted_revision_is_tried_again(self, suffix: str) -> None:
        self.said = {"kruise-ds/retry": current_revision(self.cluster.world)[0].hash + suffix}
        self.edit()

    @rule(name=NAMES)
    def a_pod_restarts(self, name: str) -> None:
        """And is ready again before any pass looks."""
        if any(
            one.node == name and one.ready and of_current(self.cluster.world, one) for one in self.cluster.world.pods
        ):
            self.cluster.change_where(lambda one: one.node == name and one.ready, ready_since=self.cluster.world.now)
            self.reached = None if self.reached is None else self.moment

    @rule(name=NAMES)
    def a_pod_is_lost(self, name: str) -> None:
        for one in [one for one in self.cluster.world.pods if one.node == name]:
            self.cluster.lose(one.name)

    @rule(name=NAMES)
    def a_node_is_lost(self, name: str) -> None:
        self.cluster.dead.add(name)
        self.cluster.set_nodes(self.node(name, lost=True))
        self.a_pod_gets_sick(name)

    @rule()
    def lost_nodes_are_back(self) -> None:
        self.cluster.set_nodes(*[self.node(name) for name in self.cluster.dead])
        self.cluster.dead.clear()
        for one in [one for one in self.cluster.world.pods if one.terminating]:
            self.cluster.lose(one.name)

    @invariant()
    def the_step_is_reached_or_not(self) -> None:
        """Worked out from the pods alone after each move."""
        if not hasattr(self, "cluster"):
            return
        world = self.cluster.effective
        waited_for = eligible(world) - left_out(world)
        done, ill = set(), False
        for name in waited_for:
            pods = live(world, name)
            new = [one for one in pods if of_current(world, one)]
            if new and len(new) == len(pods) and any(is_available(world, one) for one in new):
                done.add(name)
            elif new:
                ill = True
        least = 1 if self.step()[1] else COUNT + 1
        fails = self.verdict is not None and self.verdict[0] == "fails" and self.moment - self.verdict[1] <= 70
        if ill or fails or len(done) < least:
            self.reached = None
        elif self.reached is None:
            self.reached = self.moment

    @invariant()
    def no_more_nodes_hold_the_revision_than_the_step_allows(self) -> None:
        if hasattr(self, "cluster"):
            world = self.cluster.effective
            new = updated(world)
            assert new <= self.held or len(new) <= max(step_limit(world), len(self.held))

    def teardown(self) -> None:
        """Once all pods get ready and no node is lost, no node keeps an aborted revision that goes back."""
        if not hasattr(self, "cluster"):
            return
        self.lost_nodes_are_back()
        self.prometheus = "passes"
        for _ in range(60):
            self.checks_are_evaluated()
            self.pods_get_ready()
            self.the_step_is_reached_or_not()
        if aborted := self.cluster.effective.daemonset.rolled_back:
            kept = [one.name for one in self.cluster.world.pods if one.hash == aborted and not one.terminating]
            assert not kept, f"{aborted} was to go back"


TestWalks = Walks.TestCase
TestWalks.settings = every_day(50, steps=40)
