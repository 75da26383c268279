"""Liveness: from any healthy world a cluster that does its part becomes quiet, with everything in its place."""

from __future__ import annotations

from hypothesis import given, note
from msgspec.structs import replace

from controller.planner.node_fit import Fit
from controller.planner.revisions import current_revision
from controller.planner.world import World
from tests.beds.random_worlds import worlds
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import CONTINUES, WANTED, picture
from tests.properties.planner_facts import (
    eligible,
    empty,
    is_available,
    is_progressive,
    limit,
    live,
    ours,
    rolling,
    unfit,
    updated,
)
from tests.properties.planner_laws import LAWS
from tests.properties.size import every_day

ROUNDS = 80
"""More than 18 pods one by one, and each of three revisions."""


WAITS_FOR_US = (CONTINUES, WANTED)
"""States of an update in place in which the controller has something to write."""


def kubelets_turn(cluster: ToyCluster) -> None:
    """Terminating pods are gone, live ones ready for long, those of nodes that are gone collected, back-offs over."""
    nodes = {one.name for one in cluster.world.nodes}
    for one in cluster.world.pods:
        if one.terminating or (one.bound and one.node not in nodes):
            cluster.lose(one.name)
    cluster.pass_time(60)
    cluster.change_where(
        lambda one: one.in_progress is not None and one.in_progress not in WAITS_FOR_US, in_progress=None
    )
    cluster.ready()
    cluster.pass_time(60.5)


def settled(start: World) -> ToyCluster:
    cluster = ToyCluster(start)
    for _ in range(ROUNDS):
        before = cluster.world
        said = cluster.step()
        for law in LAWS:
            law(before, cluster.plan)
        acted = cluster.world
        kubelets_turn(cluster)
        if not said and cluster.plan.wake_at is None and cluster.world.pods == acted.pods:
            return cluster
    raise AssertionError(f"not quiet after {ROUNDS} rounds\n{picture(cluster.world, cluster.plan)}")


@every_day(120)
@given(start=worlds(healthy=True))
def test_any_world_becomes_quiet_and_then_everything_is_in_its_place(start: World) -> None:
    cluster = settled(start)
    note(picture(cluster.world, cluster.plan))
    _everything_is_in_its_place(cluster)


@every_day(80)
@given(start=worlds(healthy=True, in_place=True))
def test_updates_in_place_come_to_their_end(start: World) -> None:
    cluster = settled(start)
    note(picture(cluster.world, cluster.plan))
    _everything_is_in_its_place(cluster)
    closed = [one.name for one in cluster.world.pods if one.bound and not all(gate.open for gate in one.gates)]
    assert not closed
    assert not [one.name for one in cluster.world.pods if one.in_progress is not None]


def _everything_is_in_its_place(cluster: ToyCluster) -> None:
    world = cluster.world
    _every_node_has_what_it_should(world)
    _revisions_are_where_they_may_be(world)
    _history_is_tidy(world)
    assert cluster.step() == [], "a quiet world stays quiet"
    status = cluster.status
    assert status.counts is not None
    assert status.counts.number_unavailable == len(empty(world))
    assert status.observed_generation == world.daemonset.generation
    assert cluster.plan.wake_at is None


def _every_node_has_what_it_should(world: World) -> None:
    waiting = _may_wait(world) | unfit(world)
    for node in world.nodes:
        there = live(world, node.name)
        match world.rules.fit(node):
            case Fit.RUN if node.name in waiting and not there:
                pass
            case Fit.RUN:
                assert [is_available(world, one) for one in there] == [True], f"{node.name}: {there}"
            case Fit.STAY:
                assert len(there) <= (2 if rolling(world).max_surge else 1), node.name
            case Fit.LEAVE:
                assert not there, node.name
    assert len(ours(world)) == len(world.pods), "what is not ours was released"
    gone = {one.node for one in world.pods} - {one.name for one in world.nodes}
    assert gone <= {""}, "only pods that are aimed at no node are left alone"


def _may_wait(world: World) -> set[str]:
    """With partitionedScaling: nodes that never had a pod, while there is no room."""
    if not is_progressive(world):
        return set()
    full = len(updated(world)) >= len(eligible(world)) - limit(world, rolling(world).partition, round_up=False)
    return empty(world) - world.predecessors.keys() if full else set()


def _revisions_are_where_they_may_be(world: World) -> None:
    if world.daemonset.rolling_update is None or rolling(world).paused:
        return
    new = updated(world)
    partition = limit(world, rolling(world).partition, round_up=False)
    room = len(new) < len(eligible(world)) - partition
    left = [one.name for one in world.nodes if one.name in eligible(world) - new and world.rules.selects(one)]
    assert not (room and left), f"{left} could be updated"


def _history_is_tidy(world: World) -> None:
    current, older = current_revision(world)
    assert current.uid
    assert current.number == max(one.number for one in world.revisions)
    assert current.identity not in {one.identity for one in older}
    kept = world.daemonset.spec.revision_history_limit
    in_use = {one.hash for one in world.pods}
    idle = [one.name for one in older if one.hash not in in_use]
    most = 10 if kept is None else kept
    empty_nodes = len(empty(world))
    assert len(idle) <= most + 1 + empty_nodes, "more: the usual one for lost pods, and the last one of an empty node"


@every_day(60)
@given(start=worlds(healthy=True))
def test_what_was_done_is_not_done_again(start: World) -> None:
    """Invariant 9: the world that a plan makes never asks for the same pod to be made or deleted again."""
    cluster = ToyCluster(start)
    first = cluster.step()
    done = cluster.plan.actions
    note(f"first {first}, then {cluster.step()}")
    assert not {repr(one) for one in done} & {repr(one) for one in cluster.plan.actions}


@every_day(60)
@given(start=worlds(healthy=True))
def test_a_restart_at_any_point_changes_nothing_that_follows(start: World) -> None:
    """What a controller remembers (who was where, what the server accepts) may be lost after any pass."""
    cluster = ToyCluster(start)
    cluster.step()
    kubelets_turn(cluster)
    forgetful = ToyCluster(replace(cluster.world, predecessors={}, not_before={}, verdicts={}))
    settled(forgetful.world)
