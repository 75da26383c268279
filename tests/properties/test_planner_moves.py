"""Whatever users, nodes and kubelets do between passes: each pass keeps the laws, and in the end all is in place."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from tests.beds.random_worlds import CANARY
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import ds, everywhere, node, taint, world
from tests.properties.planner_laws import LAWS, eligible, limit, rolling, served
from tests.properties.test_planner_settles import settled

COUNT = 5
NAMES = st.sampled_from([f"node-{number}" for number in range(COUNT)])


class Moves(RuleBasedStateMachine):
    cluster: ToyCluster

    @initialize(surge=st.booleans(), limit=st.integers(1, 3), min_ready=st.sampled_from([0, 30]))
    def begin(self, surge: bool, limit: int, min_ready: int) -> None:
        self.rev = 1
        self.limits: dict[str, int | str] = {"max_surge": limit} if surge else {"max_unavailable": limit}
        self.min_ready = min_ready
        self.partition: int | str | None = None
        self.canaries_only = False
        self.paused = self.on_delete = self.partitioned_scaling = False
        self.cluster = ToyCluster(world(self.daemonset(), nodes=COUNT, pods=everywhere(COUNT)))

    def daemonset(self) -> DaemonSet:
        return ds(
            f"v{self.rev}",
            partition=self.partition,
            selector=CANARY if self.canaries_only else None,
            paused=self.paused,
            on_delete=self.on_delete,
            partitioned_scaling=self.partitioned_scaling,
            min_ready=self.min_ready,
            history=1,
            max_unavailable=self.limits.get("max_unavailable"),
            max_surge=self.limits.get("max_surge"),
        )

    @property
    def surging(self) -> bool:
        return bool(self.limits.get("max_surge")) and not self.on_delete

    # the controller

    @rule()
    def a_pass(self) -> None:
        before = self.cluster.world
        down_before = len(eligible(before)) - len(served(before))
        self.cluster.step()
        for law in LAWS:
            law(before, self.cluster.plan)
        after = self.cluster.world
        down = len(eligible(after)) - len(served(after))
        most = max(limit(after, rolling(after).max_unavailable, round_up=True), 0 if self.surging else 1)
        assert down <= max(down_before, most), f"{down} nodes without an available pod, by our hand"

    @rule()
    def the_controller_restarts(self) -> None:
        self.cluster.world = replace(self.cluster.world, predecessors={}, verdicts={}, not_before={})

    # users

    @rule(rev=st.integers(1, 4))
    def a_template_is_applied(self, rev: int) -> None:
        self.rev = rev
        self.cluster.edit(self.daemonset())

    @rule(partition=st.sampled_from([None, 0, 1, 3, "50%", 100]))
    def the_partition_is_set(self, partition: int | str | None) -> None:
        self.partition = partition
        self.cluster.edit(self.daemonset())

    @rule()
    def the_selector_is_switched(self) -> None:
        self.canaries_only = not self.canaries_only
        self.cluster.edit(self.daemonset())

    @rule()
    def the_pause_is_switched(self) -> None:
        self.paused = not self.paused
        self.cluster.edit(self.daemonset())

    @rule()
    def the_type_is_switched(self) -> None:
        self.on_delete = not self.on_delete
        self.cluster.edit(self.daemonset())

    @rule()
    def partitioned_scaling_is_switched(self) -> None:
        self.partitioned_scaling = not self.partitioned_scaling
        self.cluster.edit(self.daemonset())

    @rule(kind=st.sampled_from(["max_unavailable", "max_surge"]), value=st.sampled_from([1, 2, 10_000, "50%"]))
    def the_limit_is_set(self, kind: str, value: int | str) -> None:
        self.limits = {kind: value}
        self.cluster.edit(self.daemonset())

    # nodes and kubelets

    @rule()
    def pods_get_ready(self) -> None:
        self.cluster.pass_time(1)
        self.cluster.ready()

    @rule()
    def time_passes(self) -> None:
        self.cluster.pass_time(40)

    @rule(name=NAMES)
    def a_pod_gets_sick(self, name: str) -> None:
        self.cluster.change_where(lambda one: one.node == name, ready=False, ready_since=None)

    @rule(name=NAMES)
    def a_pod_fails(self, name: str) -> None:
        self.cluster.change_where(lambda one: one.node == name, phase="Failed", ready=False, ready_since=None)

    @rule(name=NAMES)
    def a_pod_is_lost(self, name: str) -> None:
        for one in [one for one in self.cluster.world.pods if one.node == name]:
            self.cluster.lose(one.name)

    @rule(name=NAMES)
    def a_node_dies(self, name: str) -> None:
        self.cluster.dead.add(name)
        self.cluster.change_where(lambda one: one.node == name, ready=False, ready_since=None)

    @precondition(lambda self: self.cluster.dead)
    @rule()
    def dead_nodes_are_back(self) -> None:
        self.cluster.dead.clear()
        for one in [one for one in self.cluster.world.pods if one.dying]:
            self.cluster.lose(one.name)

    @rule(name=NAMES, tainted=st.booleans(), canary=st.booleans())
    def a_node_is_changed(self, name: str, tainted: bool, canary: bool) -> None:
        taints = (taint("x"),) if tainted else ()
        self.cluster.set_nodes(node(name, *taints, labels=CANARY if canary else None))

    @rule(name=NAMES)
    def a_node_is_removed(self, name: str) -> None:
        self.cluster.remove_node(name)

    @invariant()
    def no_node_has_more_pods_than_it_may(self) -> None:
        """Two while surging; also where surge was switched off, until a pass has come that far."""
        pods = self.cluster.world.pods
        for place in {one.node for one in pods}:
            there = [one.name for one in pods if one.node == place and not one.dying and not one.ended]
            assert len(there) <= 2, f"{place}: {there}"

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            self.cluster.dead.clear()
            settled(self.cluster.world)


TestMoves = Moves.TestCase
TestMoves.settings = settings(deadline=None)
