"""The last revision that was rolled out completely: when it is recorded, that it is never guessed, nor trimmed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, DaemonSetStatus, Rollout
from controller.planner.plan import plan
from controller.planner.world import World
from tests.beds.picture import check
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import NOW, ago, ds, everywhere, node, numbered, pod, revision, served, taint, template, world


def recorded(found: World) -> str | None:
    """The hash of the stable revision that the status should name."""
    status = plan(found).status
    assert status is not None
    return status.rollout.stable_revision


def with_record(daemonset: DaemonSet, stable: str | None, **rollout: Any) -> DaemonSet:
    """`daemonset` with a status that names this one."""
    record = Rollout(phase="Progressing", stable_revision=stable, start_time="2027-01-15T08:00:00Z", **rollout)
    status = DaemonSetStatus(observed_generation=1, update_revision="v2", rollout=record)
    return replace(daemonset, status=status)


def remembering(stable: str | None, daemonset: DaemonSet, **fields: Any) -> World:
    return world(with_record(daemonset, stable), **{"nodes": 3, **fields})


def test_it_is_recorded_once_every_node_has_it() -> None:
    assert recorded(world(nodes=3, pods=everywhere(3))) == "v1"
    cluster = ToyCluster(world(nodes=3, pods=everywhere(3)))
    cluster.settle()
    cluster.edit(ds("v2", partition=1))
    cluster.settle()
    cluster.ready("node-2")
    cluster.settle()
    cluster.ready("node-1")
    cluster.settle()
    assert recorded(cluster.world) == "v1", "held: node-0 has the old one"
    cluster.edit(ds("v2"))
    cluster.settle()
    assert recorded(cluster.world) == "v1"
    cluster.ready("node-0")
    cluster.settle()
    assert recorded(cluster.world) == "v2"


NOT_COMPLETE = {
    "a node has the old one": world(ds("v2"), nodes=2, pods=(*served("node-1", rev="v2"), *served("node-0"))),
    "a node has both": world(ds("v2", max_surge=1), nodes=2, pods=(*everywhere(2, "v2"), *served("node-0"))),
    "a pod is not ready": world(nodes=2, pods=(*served("node-0"), pod("node-1", ready=None))),
    "a pod is younger than minReadySeconds": world(ds(min_ready=9), nodes=2, pods=everywhere(2, ready=ago(5))),
    "a pod is being deleted": world(nodes=2, pods=(*served("node-0"), pod("node-1", dying=True))),
    "a node has none": world(nodes=2, pods=served("node-0")),
    "the partition holds it": world(
        ds("v2", partition=1), nodes=2, pods=(*served("node-1", rev="v2"), *served("node-0"))
    ),
    "the selector holds it": world(
        ds("v2", selector={"track": "canary"}),
        nodes=(node("node-0"), node("node-1", labels={"track": "canary"})),
        pods=(*served("node-1", rev="v2"), *served("node-0")),
    ),
    "a pause holds it": world(ds("v2", paused=True), nodes=2, pods=everywhere(2)),
    "with OnDelete, old pods are left": world(ds("v2", on_delete=True), nodes=2, pods=everywhere(2)),
    "a node cannot be reached": world(
        nodes=(node("node-0"), node("node-1", taint("node.kubernetes.io/unreachable", "NoExecute"))),
        pods=(*served("node-0"), pod("node-1", ready=None)),
    ),
    "there is no node": world(nodes=0),
    "own writes are not seen yet": world(nodes=2, pods=everywhere(2), fresh=False),
    "a pod cannot be decoded": world(nodes=2, pods=everywhere(2), unreadable="pod x: bad quantity"),
    "it is not stored": world(nodes=2, revisions=[]),
}


@pytest.mark.parametrize("found", NOT_COMPLETE.values(), ids=NOT_COMPLETE.keys())
def test_it_is_never_guessed(found: World) -> None:
    assert recorded(found) is None
    before = with_record(found.daemonset, "v0")
    assert recorded(replace(found, daemonset=before)) == "v0", "what is recorded stays"


def test_a_failing_pod_after_that_changes_nothing() -> None:
    sick = (*served("node-0", "node-1", rev="v2"), pod("node-2", "v2", ready=None))
    assert recorded(remembering("v2", ds("v2"), pods=sick)) == "v2"


def test_a_spec_that_cannot_be_used_changes_nothing() -> None:
    broken = ds("v2", max_unavailable="many")
    assert recorded(remembering("v1", broken, pods=everywhere(3))) == "v1"


def test_a_lost_record_is_made_again_by_the_next_complete_rollout() -> None:
    cluster = ToyCluster(world(ds("v2"), nodes=1, pods=everywhere(1)))
    cluster.settle()
    assert recorded(cluster.world) is None
    cluster.ready("node-0")
    cluster.settle()
    assert recorded(cluster.world) == "v2"


def test_a_selector_that_left_no_node_out_does_not_matter() -> None:
    spread = ds("v2", selector={"track": "canary"})
    labelled = tuple(node(one.name, labels={"track": "canary"}) for one in numbered(2))
    assert recorded(world(spread, nodes=labelled, pods=everywhere(2, "v2"))) == "v2"


def test_the_history_limit_never_takes_the_stable_revision() -> None:
    old = [revision(rev) for rev in ("v1", "v2", "v3")]
    pods = served("node-0", rev="v3")
    check(world(ds("v3", history=0), nodes=1, pods=pods, revisions=old), "forget demo-v1", "forget demo-v2")
    stable = with_record(ds("v3", history=0, partition=1), "v1")
    held = world(stable, nodes=2, pods=(*pods, *served("node-1", rev="v2")), revisions=old)
    check(held)
    assert recorded(replace(held, now=NOW + 60)) == "v1"


def test_when_its_twin_takes_its_place_that_one_is_the_stable_one() -> None:
    """Two stored revisions mean the same: the newer stays, under a hash of its own."""
    twin = revision("v9", 1, of=template("v2"))
    pods = [pod("node-2", "v1"), pod("node-1", "v9"), pod("node-0", "v2")]
    revisions = [twin, revision("v1", 2), revision("v2", 3)]
    cluster = ToyCluster(remembering("v9", ds("v2", paused=True), pods=pods, revisions=revisions))
    cluster.expect("relabel node-1-v9 v2", "forget demo-v9", "")
    assert recorded(cluster.world) == "v2"
