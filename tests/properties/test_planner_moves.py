"""Whatever users, nodes and kubelets do between passes: each pass keeps the laws, and in the end all is in place."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.planner.revisions import current_revision
from controller.planner.rollout_state import rollout_state
from controller.planner.world import World
from tests.beds.random_worlds import CANARY, POOL
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import ds, everywhere, node, taint, world
from tests.properties.planner_facts import eligible, limit, rolling, served, unfit
from tests.properties.planner_laws import LAWS
from tests.properties.test_planner_settles import settled

COUNT = 5
PLACED: dict[int, dict[str, Any]] = {4: {"nodeSelector": POOL}}
"""Revisions that do not run everywhere."""
NAMES = st.sampled_from([f"node-{number}" for number in range(COUNT)])


def down(world: World) -> set[str]:
    """Nodes that use maxUnavailable."""
    return eligible(world) - served(world) - unfit(world)


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
        nodes = [node(f"node-{number}", labels=POOL if number % 2 else None) for number in range(COUNT)]
        self.cluster = ToyCluster(world(self.daemonset(), nodes=nodes, pods=everywhere(COUNT)))

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
            **PLACED.get(self.rev, {}),
        )

    @property
    def surging(self) -> bool:
        return bool(self.limits.get("max_surge")) and not self.on_delete

    # the controller

    @rule()
    def a_pass(self) -> None:
        before = self.cluster.world
        down_before = len(eligible(before) - served(before))
        self.cluster.step()
        for law in LAWS:
            law(before, self.cluster.plan)
        after = self.cluster.world
        most = max(limit(after, rolling(after).max_unavailable, round_up=True), 0 if self.surging else 1)
        assert len(down(after)) <= max(down_before, most), f"{down(after)} without an available pod, by our hand"

    @rule()
    def the_controller_restarts(self) -> None:
        self.cluster.world = replace(self.cluster.world, predecessors={}, verdicts={}, not_before={})

    # users

    @rule(rev=st.integers(1, 4))
    def a_template_is_applied(self, rev: int) -> None:
        self.rev = rev
        self.cluster.edit(self.daemonset())

    @rule()
    def the_template_goes_back(self) -> None:
        """To the revision before, and the partition stays."""
        older = [int(one.hash[1:]) for one in current_revision(self.cluster.world)[1]]
        if older:
            self.a_template_is_applied(older[0])

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
        for one in [one for one in self.cluster.world.pods if one.terminating]:
            self.cluster.lose(one.name)

    @rule(name=NAMES, tainted=st.booleans(), canary=st.booleans(), pooled=st.booleans())
    def a_node_is_changed(self, name: str, tainted: bool, canary: bool, pooled: bool) -> None:
        taints = (taint("x"),) if tainted else ()
        labels = {**(CANARY if canary else {}), **(POOL if pooled else {})}
        self.cluster.set_nodes(node(name, *taints, labels=labels))

    @rule(name=NAMES)
    def a_node_is_removed(self, name: str) -> None:
        self.cluster.remove_node(name)

    @invariant()
    def no_node_has_more_pods_than_it_may(self) -> None:
        """Two while surging; also where surge was switched off, until a pass has come that far."""
        pods = self.cluster.world.pods
        for place in {one.node for one in pods}:
            there = [one.name for one in pods if one.node == place and not one.terminating and not one.ended]
            assert len(there) <= 2, f"{place}: {there}"

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            self.cluster.dead.clear()
            settled(self.cluster.world)


TestMoves = Moves.TestCase
TestMoves.settings = settings(deadline=None)


def begun(partition: int) -> Moves:
    moves = Moves()
    moves.begin(surge=False, limit=3, min_ready=0)
    moves.the_partition_is_set(partition)
    return moves


def passes(moves: Moves, count: int = 6) -> None:
    for _ in range(count):
        moves.a_pass()
        moves.pods_get_ready()


def test_the_moves_can_exclude_a_node_from_the_older_revision() -> None:
    moves = begun(0)
    moves.a_template_is_applied(4)
    passes(moves)
    moves.the_controller_restarts()
    moves.the_partition_is_set(100)
    moves.a_template_is_applied(2)
    passes(moves)
    assert set(rollout_state(moves.cluster.world).unplaceable) == {"node-0", "node-2", "node-4"}
    moves.teardown()


def test_the_moves_can_revert_under_a_partition_and_lose_a_pod_then() -> None:
    moves = begun(4)
    moves.a_template_is_applied(2)
    passes(moves)
    moves.the_template_goes_back()
    passes(moves)
    assert moves.rev == 1
    moves.a_pod_is_lost("node-0")
    moves.the_controller_restarts()
    passes(moves)
    assert moves.cluster.revisions() == {f"node-{n}": "v1" if n < 4 else "v2" for n in range(COUNT)}
    moves.teardown()
