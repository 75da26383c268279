"""Which revision a lost pod or a new node gets, and nodes that the older revision excludes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import Phase
from controller.planner.blocker_texts import WaitReason
from controller.planner.conditions import Condition
from controller.planner.node_fit import Rules
from controller.planner.plan import plan
from controller.planner.rollout_state import rollout_state
from controller.planner.world import FormerPod, Predecessor, World
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import NOW, ago, at, before, check, ds, failed, node, revision, served, taint, template, world
from tests.unit.controller.planner.test_partition import CANARY, canaries

TWO = [revision("v1"), revision("v2")]
THREE = [*TWO, revision("v3")]
BACK = [revision("v2", 2), revision("v1", 3)]
"""v1 is current again."""


def lost(state: str, was: str = "", rev: str = "v2", **fields: Any) -> World:
    """node-0 has none, and has just lost one of `was` if it is not new."""
    gone = before("node-0", was) if was else {}
    return at(state, rev, **{"max_unavailable": 4, "revisions": TWO, "predecessors": gone, **fields})


CASES: dict[str, tuple[World, str]] = {
    "on an updated node it comes back new": (
        at("v1 v1 v2 -", partition=2, revisions=TWO, predecessors=before("node-3", "v2")),
        "+node-3 v2",
    ),
    "far down the order it moves no other node": (lost("- v1 v1 v1", "v2", partition=3), "+node-0 v2"),
    "nor does it while it terminates": (at("v2† v1 v1 v1", max_unavailable=4, partition=3), ""),
    "beyond the quota it comes back as it was: the partition was raised": (
        lost("- v2 v2 v2", "v2", partition=2),
        "+node-0 v2",
    ),
    "a new node below the quota gets the older revision": (lost("- v1 v1 v2", partition=3), "+node-0 v1"),
    "the older one that most nodes run": (lost("- v1 v2 v3", rev="v3", partition=3, revisions=THREE), "+node-0 v2"),
    "even if it is the oldest": (lost("- v1 v1 v1", rev="v3", partition=4, revisions=THREE), "+node-0 v1"),
    "the latest where nobody runs any": (lost("-", rev="v3", partition=4, revisions=THREE), "+node-0 v2"),
    "pods that terminate or have ended do not say what most run": (
        lost(
            "- v1† v1x v1x v2",
            rev="v3",
            partition=5,
            revisions=THREE,
            not_before={"node-2": NOW + 9, "node-3": NOW + 9},
        ),
        "+node-0 v2",
    ),
    "v2 was pushed and held, then v3: as it was": (
        lost("- v1 v1 v1", "v1", "v3", partition=4, revisions=THREE),
        "+node-0 v1",
    ),
    "also of the abandoned one": (lost("- v1 v1 v1", "v2", "v3", partition=4, revisions=THREE), "+node-0 v2"),
    "not of one that is not stored any more": (
        lost("- v1 v1 v1", "v0", "v3", partition=4, revisions=THREE),
        "+node-0 v1",
    ),
    "after a revert it is not the canary": (
        lost("- v1 v1 v1 v2", "v1", "v1", partition=4, revisions=BACK),
        "+node-0 v1",
    ),
    "nor is a new one": (lost("- v1 v1 v1 v2", "", "v1", partition=4, revisions=BACK), "+node-0 v1"),
    "unless it was": (lost("- v1 v1 v1 v2", "v2", "v1", partition=4, revisions=BACK), "+node-0 v2"),
    "as many of an older revision as may be current make new nodes old": (
        lost("- v1 v1 v1 v2", partition=4),
        "+node-0 v1",
    ),
    "a first deployment always uses the current revision": (
        at("- -", "v1", partition=2, selector=CANARY, paused=True),
        "+node-0 v1, +node-1 v1",
    ),
    "with a selector nodes outside get the older revision": (
        at("- - -", selector=CANARY, nodes=canaries(3, 1), revisions=TWO),
        "+node-0 v1, +node-1 v2, +node-2 v1",
    ),
    "paused a current one comes back current": (lost("- v1 v1 v1", "v2", paused=True), "+node-0 v2"),
    "paused after a full update new nodes get the current revision": (lost("- v2 v2", paused=True), "+node-0 v2"),
    "paused the last old one comes back old": (lost("-", "v1", paused=True), "+node-0 v1"),
    "and the last current one current": (lost("-", "v2", paused=True), "+node-0 v2"),
    "paused beside one that terminates it keeps its revision": (lost("- v1† v2", paused=True), "+node-0 v1"),
}


@pytest.mark.parametrize(("of", "expected"), CASES.values(), ids=CASES)
def test_a_lost_pod(of: World, expected: str) -> None:
    check(of, expected)


def test_a_pod_lost_on_a_node_that_should_stay_old_comes_back_old() -> None:
    cluster = ToyCluster(lost("- v1 v2 v2", "v1", partition=2))
    cluster.expect("+node-0 v1", "")
    cluster.ready()
    cluster.edit(ds("v2", max_unavailable=4, partition=1))
    cluster.expect("-node-1 v1", "+node-1 v2", "")


def test_a_pod_that_is_gone_but_for_a_finalizer_is_known() -> None:
    ghost = failed("node-0", "v1", terminating=True, created=ago(9))
    pods = [ghost, *served("node-1", "node-2", rev="v2")]
    of = at("- v2 v2", "v3", partition=3, pods=pods, revisions=THREE)
    check(of, "+node-0 v1")
    younger = {"node-0": Predecessor(uid="b", pod=FormerPod(hash="v2", created=ago(5)))}
    check(replace(of, predecessors=younger), "+node-0 v2")


def test_paused_an_added_node_and_a_lost_pod_get_the_older_revision() -> None:
    """While a paused rollout is incomplete the pod comes back as it was, not from the new template."""
    cluster = ToyCluster(at("v1 v1 v2", paused=True))
    cluster.expect("")
    cluster.set_nodes(node("node-9"))
    cluster.lose("node-0-v1")
    cluster.expect("+node-0 v1, +node-9 v1", "")
    cluster.ready()
    cluster.edit(ds("v2"))
    cluster.expect("-node-9 v1", "+node-9 v2", "")


POOL = {"pool": "a"}
IN_POOL = {"nodeSelector": POOL}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}]


def widened(state: str = "- - v1 v1", *, first: dict[str, Any] = IN_POOL, **fields: Any) -> World:
    """v1 ran in pool a, that is on node-2 and node-3; v2 runs everywhere."""
    nodes = [node(f"node-{number}", labels=POOL if number > 1 else None) for number in range(4)]
    return at(state, nodes=nodes, revisions=[revision("v1", of=template("v1", **first)), revision("v2")], **fields)


def conditions(of: World) -> dict[str, Condition]:
    status = plan(of).status
    assert status is not None
    return {one.type: one for one in status.conditions}


def test_a_node_excluded_by_the_older_revision_stays_empty() -> None:
    cluster = ToyCluster(widened(partition=2))
    for expected in ("-node-3 v1, +node-3 v2", "-node-2 v1, +node-2 v2", ""):
        assert ", ".join(cluster.settle()) == expected
        cluster.ready()
    assert cluster.status.rollout.phase == Phase.HELD
    cluster.edit(ds("v2", partition=1))
    cluster.expect("+node-1 v2", "")
    cluster.ready()
    cluster.edit(ds("v2"))
    cluster.expect("+node-0 v2", "")


@pytest.mark.parametrize(
    "first",
    [
        IN_POOL,
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": TERMS}}}},
        {"nodeSelector": "a"},
        {"nodeName": "node-2"},
    ],
    ids=["nodeSelector", "affinity", "not to be compiled", "nodeName"],
)
def test_whatever_excludes_it(first: dict[str, Any]) -> None:
    of = widened(first=first, partition=4)
    assert set(rollout_state(of).unplaceable) == {"node-0", "node-1"}
    check(of)


def test_a_taint_that_only_the_new_template_tolerates() -> None:
    tolerant: dict[str, Any] = {"tolerations": [{"key": "x", "operator": "Exists"}]}
    stored = [revision("v1"), revision("v2", of=template("v2", **tolerant))]
    check(at("- v1", partition=2, nodes=[node("node-0", taint("x")), node("node-1")], revisions=stored, **tolerant))


@pytest.mark.parametrize("held", [{"paused": True}, {"selector": POOL}, {"partition": 2}])
def test_whatever_keeps_the_current_one_from_it(held: dict[str, Any]) -> None:
    found = rollout_state(widened("- - v1 v2", **held))
    assert (set(found.unplaceable), found.in_use) == ({"node-0", "node-1"}, 0)


def test_it_uses_no_maxunavailable_and_one_that_only_lost_its_pod_does() -> None:
    assert rollout_state(widened(partition=4)).in_use == 0
    assert rollout_state(widened(partition=4, first={})).in_use == 2
    assert rollout_state(widened("- - - v1", partition=4)).in_use == 1


def test_a_lost_pod_comes_back_only_where_its_revision_runs() -> None:
    check(widened(partition=4, predecessors=before("node-0", "v1")))
    check(widened(partition=4, predecessors=before("node-0", "v2")), "+node-0 v2")


def test_with_partitioned_scaling_a_waiting_node_is_not_a_lasting_gap() -> None:
    assert rollout_state(widened(partition=4, partitioned_scaling=True)).unplaceable == {}
    chosen = widened(partition=2, partitioned_scaling=True, selector=POOL)
    assert set(rollout_state(chosen).unplaceable) == {"node-0", "node-1"}


def test_on_delete_leaves_no_node_empty() -> None:
    check(widened(on_delete=True), "+node-0 v2, +node-1 v2")


def test_while_it_is_held_conditions_say_how_many_and_why() -> None:
    words = "2 nodes stay empty: revision v1 does not run there"
    told = conditions(widened("- - v2 v2", partition=2))
    assert told["Ready"].reason == Phase.HELD
    assert told["Ready"].message.endswith(f"; {words}")
    assert told["Progressing"].message.endswith(f"; {words}")
    assert words in conditions(widened(partition=2))["Ready"].message, "while it goes on"
    assert words in conditions(widened(paused=True))["Ready"].message


def test_one_node_and_several_revisions_are_told_apart() -> None:
    one = widened("- v2 v2 v2", partition=1)
    assert conditions(one)["Ready"].message.endswith("; 1 node stays empty: revision v1 does not run there")
    stored = [revision(rev, of=template(rev, **IN_POOL)) for rev in ("v1", "v2")] + [revision("v3")]
    gone = {**before("node-0", "v1"), **before("node-1", "v2")}
    two = at("- -", "v3", partition=2, revisions=stored, predecessors=gone)
    assert conditions(two)["Ready"].message.endswith("2 nodes stay empty: revisions v1, v2 do not run there")


def test_paused_with_only_empty_nodes_left_it_is_paused() -> None:
    stored = [revision("v1", of=template("v1", **IN_POOL)), revision("v2")]
    decided = plan(world(ds("v2", paused=True), nodes=1, revisions=stored, predecessors=before("node-0", "v1")))
    assert decided.status is not None
    assert decided.status.rollout.phase == Phase.PAUSED
    assert decided.summary is not None
    assert (decided.summary.blocked[WaitReason.PAUSED], decided.summary.updating) == (True, 0)


def test_a_pass_in_which_no_node_is_empty_asks_no_placement() -> None:
    full = widened("v2 v2 v1 v1", partition=2)
    assert all(isinstance(rules, Rules) for rules in full.placements.values())
    rollout = rollout_state(full)
    assert rollout.unplaceable == {}
    assert "usual" not in vars(rollout.fallback)
