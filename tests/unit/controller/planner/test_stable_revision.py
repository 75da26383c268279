"""The last revision that was rolled out completely, and the one before: when they are recorded, that they are never
guessed, nor trimmed."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, DaemonSetStatus, Rollout, RolloutStep
from controller.api.names import RESTARTED_AT
from controller.api.template_identity import identity
from controller.planner.plan import plan
from controller.planner.world import ClockOffset, World
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import (
    NOW,
    ago,
    at,
    check,
    ds,
    everywhere,
    node,
    revision,
    served,
    status_in,
    taint,
    template,
    world,
)

Recorded: TypeAlias = tuple[str | None, str | None]


def recorded(found: World) -> str | None:
    """The hash of the stable revision that the status should name."""
    status = status_in(plan(found))
    return status.rollout.stable_revision


def with_record(daemonset: DaemonSet, stable: str | None, **rollout: Any) -> DaemonSet:
    """`daemonset` with a status that names this one."""
    record = Rollout(phase="Progressing", stable_revision=stable, start_time="2027-01-15T08:00:00Z", **rollout)
    status = DaemonSetStatus(observed_generation=1, update_revision="v2", rollout=record)
    return replace(daemonset, status=status)


def rolled(cluster: ToyCluster, wanted: DaemonSet, *nodes: str, seconds: float = 60.0) -> Recorded:
    """`wanted` is rolled out; its pods get ready on these nodes (default: on all), and that was so long ago."""
    cluster.edit(wanted)
    for _ in range(9):
        cluster.settle()
        cluster.ready(*nodes)
    cluster.pass_time(seconds)
    cluster.step()
    status = cluster.world.daemonset.status
    assert status is not None
    assert status.rollout is not None
    return status.rollout.stable_revision, status.rollout.previous_stable_revision


def begun(nodes: int = 8, *, seconds: float = 60.0) -> ToyCluster:
    """v1 on every node, ready since so long."""
    cluster = ToyCluster(world(nodes=nodes, pods=everywhere(nodes, ready=ago(seconds))))
    cluster.settle()
    return cluster


def test_it_is_recorded_once_every_node_has_had_it_for_a_while() -> None:
    cluster = begun(3)
    assert rolled(cluster, ds("v2", partition=1)) == ("v1", None), "held: node-0 has the old one"
    assert rolled(cluster, ds("v2"), seconds=29.0) == ("v1", None)
    assert cluster.plan.wake_at is not None, "nothing else may happen"
    cluster.pass_time(1.0)
    cluster.step()
    assert recorded(cluster.world) == "v2"
    assert cluster.plan.wake_at is None


def test_a_clock_that_is_ahead_of_the_nodes_proves_nothing_early() -> None:
    """The pods got ready a moment ago; by the controller's clock, five minutes before that."""
    found = replace(world(nodes=3, pods=everywhere(3, ready=ago(301.0))), server_offset=ClockOffset(ahead=-300.0))
    assert recorded(found) is None
    assert recorded(replace(found, now=NOW + 40.0)) == "v1"


def test_one_that_was_ready_for_a_moment_replaces_none() -> None:
    cluster = begun()
    assert rolled(cluster, ds("v2"), seconds=1.0) == ("v1", None)
    assert rolled(cluster, ds("v3"), "node-7") == ("v1", None)


def test_the_one_before_is_remembered_and_no_canary_is() -> None:
    cluster = begun()
    assert rolled(cluster, ds("v2", partition=6)) == ("v1", None)
    assert rolled(cluster, ds("v3")) == ("v3", "v1")
    assert rolled(cluster, ds("v4", partition=6)) == ("v3", "v1")
    assert rolled(cluster, ds("v3")) == ("v3", "v1"), "put back"


def test_from_one_that_was_gone_back_to_none_is_the_one_before() -> None:
    cluster = begun()
    assert rolled(cluster, ds("v2")) == ("v2", "v1")
    assert rolled(cluster, ds("v3")) == ("v3", "v2")
    assert rolled(cluster, ds("v2")) == ("v2", None), "v3 was abandoned"
    assert rolled(cluster, ds("v4")) == ("v4", "v2")


def test_a_restart_is_not_another_one() -> None:
    again: Any = template("v2")
    again["metadata"]["annotations"] = {RESTARTED_AT: "2027-01-15T08:00:00Z"}
    restarted = replace(ds("v2"), spec=replace(ds("v2").spec, template=again), identity=identity(again))
    cluster = begun()
    rolled(cluster, ds("v2"))
    stable, former = rolled(cluster, restarted)
    assert (stable != "v2", former) == (True, "v1")


def test_before_one_is_stable_the_first_that_was_everywhere_stands_in() -> None:
    cluster = begun(seconds=1.0)
    assert rolled(cluster, ds("v2"), seconds=1.0) == (None, "v1")
    assert rolled(cluster, ds("v3"), seconds=60.0) == ("v3", None)


# what would freeze it: a few nodes that never get it


GONE = taint("node.kubernetes.io/unreachable", "NoExecute")


def test_nodes_that_cannot_be_reached_are_not_waited_for() -> None:
    cluster = begun()
    cluster.set_nodes(node("node-3", GONE))
    cluster.dead = {"node-3"}
    assert rolled(cluster, ds("v2", max_unavailable=2, tolerations=[{"operator": "Exists"}])) == ("v2", "v1")


def test_unless_they_are_half_of_all() -> None:
    cluster = begun()
    cluster.dead = {f"node-{number}" for number in range(4)}
    cluster.set_nodes(*(node(name, GONE) for name in cluster.dead))
    assert rolled(cluster, ds("v2", max_unavailable=8)) == ("v1", None)


HELD: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a standing partition": ({"partition": 1}, ()),
    "a pod that never gets ready": ({"max_unavailable": 2}, tuple(f"node-{number}" for number in range(1, 8))),
}


@pytest.mark.parametrize(("settings", "ready"), HELD.values(), ids=HELD.keys())
def test_after_one_that_only_most_nodes_had_none_is_known(settings: dict[str, Any], ready: tuple[str, ...]) -> None:
    cluster = begun()
    assert rolled(cluster, ds("v2", **settings), *ready) == ("v1", None)
    assert rolled(cluster, ds("v3", **settings), *ready) == (None, None)
    assert rolled(cluster, ds("v4")) == ("v4", None)


def test_one_that_three_quarters_had_changes_nothing() -> None:
    cluster = begun()
    rolled(cluster, ds("v2", partition=2))
    assert rolled(cluster, ds("v3", partition=2)) == ("v1", None)


CANARY = {"track": "canary"}
CANARIES = [node("node-0"), node("node-1", labels=CANARY)]
NOT_COMPLETE = {
    "a node has the old one": at("v1 v2"),
    "a node has both": at("v1+v2 v2", max_surge=1),
    "a pod is not ready": at("v1 v1!", "v1"),
    "a pod is younger than minReadySeconds": at("- -", "v1", min_ready=9, pods=everywhere(2, ready=ago(5))),
    "a pod is being deleted": at("v1 v1†", "v1"),
    "a node has none": at("v1 -", "v1"),
    "the partition holds it": at("v1 v2", partition=1),
    "the selector holds it": at("v1 v2", selector=CANARY, nodes=CANARIES),
    "a pod is ready for a moment": at("- -", "v1", pods=everywhere(2, ready=ago(29.0))),
    "a pause holds it": at("- -", paused=True, pods=everywhere(2, ready=ago(29.0))),
    "with OnDelete, old pods are left": at("- -", on_delete=True, pods=everywhere(2, ready=ago(1.0))),
    "a node cannot be reached": at("v1 v1!", "v1", nodes=[node("node-0"), node("node-1", GONE)]),
    "there is no node": world(nodes=0),
    "own writes are not seen yet": at("v1 v1", "v1", fresh=False),
    "a pod cannot be decoded": at("v1 v1", "v1", unreadable="pod x: bad quantity"),
    "it is not stored": at("- -", "v1", revisions=[]),
    "a lost record is not made again from what most have": at("v1 v1 v1 v2", "v3", partition=4),
}


@pytest.mark.parametrize("found", NOT_COMPLETE.values(), ids=NOT_COMPLETE)
def test_it_is_never_guessed(found: World) -> None:
    assert recorded(found) is None
    before = with_record(found.daemonset, "v0")
    assert recorded(replace(found, daemonset=before)) == "v0", "what is recorded stays"


def test_what_comes_after_that_changes_nothing() -> None:
    for found, stable in ((at("v2 v2 v2!"), "v2"), (at("v1 v1", max_unavailable="many"), "v1")):
        assert recorded(replace(found, daemonset=with_record(found.daemonset, stable))) == stable


def test_a_selector_that_left_no_node_out_does_not_matter() -> None:
    assert recorded(at("v2", selector=CANARY, nodes=[node("node-0", labels=CANARY)])) == "v2"


def test_the_history_limit_never_takes_the_stable_revision() -> None:
    old = [revision(rev) for rev in ("v1", "v2", "v3")]
    check(at("v3", "v3", history=0, revisions=old), "forget demo-v1", "forget demo-v2")
    held = at("v3 v2", "v3", history=0, partition=1, revisions=old)
    held = replace(held, daemonset=with_record(held.daemonset, "v1"))
    check(held)
    assert recorded(replace(held, now=NOW + 60)) == "v1"


BOTH = [revision("v1"), revision("v2")]


@pytest.mark.parametrize(
    ("found", "record"),
    [
        (at("v2 v2", revisions=BOTH), {"aborted_revision": "v2", "aborted_message": "it failed"}),
        (at("v2 v2", revisions=BOTH, rolling={"steps": (RolloutStep(soak="1h"),)}), {}),
    ],
    ids=["it is aborted", "its last step soaks"],
)
def test_one_that_every_node_has_is_not_stable_before_its_rollout_is_over(
    found: World, record: dict[str, Any]
) -> None:
    assert recorded(replace(found, daemonset=with_record(found.daemonset, "v1", **record))) == "v1"


def test_only_the_very_first_is_the_one_before_while_it_is_young() -> None:
    status = status_in(plan(at("- -", "v2", revisions=BOTH, pods=served("node-0", "node-1", rev="v2", ready=ago(1)))))
    assert (status.rollout.stable_revision, status.rollout.previous_stable_revision) == (None, None)


@pytest.mark.parametrize(("history", "forgotten"), [(0, ["forget demo-v1"]), (1, [])])
def test_nor_the_one_before_it_unless_it_is_0(history: int, forgotten: list[str]) -> None:
    stored = [revision(rev) for rev in ("v1", "v2", "v3")]
    found = at("v3", "v3", history=history, revisions=stored)
    check(replace(found, daemonset=with_record(found.daemonset, "v2", previous_stable_revision="v1")), *forgotten)


def test_when_its_twin_takes_its_place_that_one_is_the_stable_one() -> None:
    """Two stored revisions mean the same: the newer stays, under a hash of its own."""
    twin = revision("v9", 1, of=template("v2"))
    found = at("v2 v9 v1", paused=True, revisions=[twin, revision("v1", 2), revision("v2", 3)])
    cluster = ToyCluster(replace(found, daemonset=with_record(found.daemonset, "v9")))
    cluster.expect("relabel node-1-v9 v2", "forget demo-v9", "")
    assert recorded(cluster.world) == "v2"
