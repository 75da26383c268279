"""Where an older revision does not run: its own placement decides, and what else would come stays away."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.daemonset import Phase
from controller.planner.board import lay_out
from controller.planner.eligibility import Rules
from controller.planner.kstatus_conditions import Condition
from controller.planner.plan import plan
from controller.planner.world import World
from tests.beds.picture import check
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import before, ds, node, pod, revision, served, taint, template, world

POOL = {"pool": "a"}
IN_POOL = {"nodeSelector": POOL}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}]


def widened(*, first: dict[str, Any] | None = None, pods: Any = None, **fields: Any) -> World:
    """v1 ran in pool a, that is on n3 and n4; v2 runs everywhere, also on n1 and n2."""
    nodes = [node("n1"), node("n2"), node("n3", labels=POOL), node("n4", labels=POOL)]
    stored = [revision("v1", of=template("v1", **(IN_POOL if first is None else first))), revision("v2")]
    gone = fields.pop("predecessors", {})
    pods = served("n3", "n4") if pods is None else pods
    return world(ds("v2", **fields), nodes=nodes, pods=pods, revisions=stored, predecessors=gone)


def conditions(of: World) -> dict[str, Condition]:
    status = plan(of).status
    assert status is not None
    return {one.type: one for one in status.conditions}


def test_a_node_excluded_by_the_older_revision_stays_empty() -> None:
    cluster = ToyCluster(widened(partition=2))
    cluster.expect("-n4 v1", "+n4 v2", "")
    cluster.ready()
    cluster.expect("-n3 v1", "+n3 v2", "")
    cluster.ready()
    cluster.expect("")
    assert cluster.plan.status is not None
    assert cluster.plan.status.rollout.phase == Phase.HELD
    cluster.edit(ds("v2", partition=1))
    cluster.expect("+n2 v2", "")
    cluster.ready()
    cluster.edit(ds("v2"))
    cluster.expect("+n1 v2", "")


@pytest.mark.parametrize(
    "first",
    [
        IN_POOL,
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": TERMS}}}},
        {"nodeSelector": "a"},
        {"nodeName": "n3"},
    ],
    ids=["nodeSelector", "affinity", "not to be compiled", "nodeName"],
)
def test_whatever_excludes_it(first: dict[str, Any]) -> None:
    of = widened(first=first, partition=4)
    assert set(lay_out(of).barred) == {"n1", "n2"}
    check(of)


def test_a_taint_that_only_the_new_template_tolerates() -> None:
    tolerant: dict[str, Any] = {"tolerations": [{"key": "x", "operator": "Exists"}]}
    stored = [revision("v1"), revision("v2", of=template("v2", **tolerant))]
    nodes = [node("n1", taint("x")), node("n2")]
    of = world(ds("v2", partition=2, **tolerant), nodes=nodes, pods=served("n2"), revisions=stored)
    check(of)


@pytest.mark.parametrize("held", [{"paused": True}, {"selector": POOL}, {"partition": 2}])
def test_whatever_keeps_the_current_one_from_it(held: dict[str, Any]) -> None:
    of = widened(pods=[pod("n3"), pod("n4", "v2")], **held)
    assert set(lay_out(of).barred) == {"n1", "n2"}
    assert lay_out(of).unserved == 0


def test_it_uses_no_maxunavailable_and_one_that_only_lost_its_pod_does() -> None:
    pods = [pod("n3"), pod("n4")]
    assert lay_out(widened(pods=pods, partition=4)).unserved == 0
    assert lay_out(widened(pods=pods, partition=4, first={})).unserved == 2
    assert lay_out(widened(pods=pods[1:], partition=4)).unserved == 1


def test_a_lost_pod_does_not_come_back_where_its_revision_does_not_run() -> None:
    check(widened(partition=4, predecessors=before("n1", "v1")))


def test_a_lost_pod_comes_back_where_its_revision_runs() -> None:
    check(widened(partition=4, predecessors=before("n1", "v2")), "+n1 v2")


def test_with_partitioned_scaling_a_waiting_node_is_not_a_lasting_gap() -> None:
    assert lay_out(widened(partition=4, partitioned_scaling=True)).barred == {}
    chosen = widened(partition=2, partitioned_scaling=True, selector=POOL)
    assert set(lay_out(chosen).barred) == {"n1", "n2"}


def test_on_delete_leaves_nobody_empty() -> None:
    check(widened(on_delete=True), "+n1 v2", "+n2 v2")


def test_while_it_is_held_conditions_say_how_many_and_why() -> None:
    of = widened(partition=2, pods=served("n3", "n4", rev="v2"))
    words = "2 nodes stay empty: revision v1 does not run there"
    told = conditions(of)
    assert told["Ready"].reason == Phase.HELD
    assert told["Ready"].message.endswith(f"; {words}")
    assert told["Progressing"].message.endswith(f"; {words}")
    assert words in conditions(widened(partition=2))["Ready"].message, "while it goes on"
    assert words in conditions(widened(paused=True))["Ready"].message


def test_one_node_and_several_revisions_are_told_apart() -> None:
    one = widened(partition=1, pods=served("n2", "n3", "n4", rev="v2"))
    assert conditions(one)["Ready"].message.endswith("; 1 node stays empty: revision v1 does not run there")
    stored = [revision(rev, of=template(rev, **IN_POOL)) for rev in ("v1", "v2")] + [revision("v3")]
    gone = {**before("n1", "v1"), **before("n2", "v2")}
    two = world(ds("v3", partition=2), nodes=["n1", "n2"], revisions=stored, predecessors=gone)
    assert conditions(two)["Ready"].message.endswith("2 nodes stay empty: revisions v1, v2 do not run there")


def test_paused_with_nobody_but_empty_nodes_left_it_is_paused() -> None:
    stored = [revision("v1", of=template("v1", **IN_POOL)), revision("v2")]
    of = world(ds("v2", paused=True), nodes=["n1"], revisions=stored, predecessors=before("n1", "v1"))
    decided = plan(of)
    assert decided.status is not None
    assert decided.status.rollout.phase == Phase.PAUSED
    assert decided.summary is not None
    assert decided.summary.blocks["Paused"]
    assert decided.summary.updating == 0


def test_a_pass_in_which_no_node_is_empty_asks_no_placement() -> None:
    full = widened(partition=2, pods=[pod("n1", "v2"), pod("n2", "v2"), *served("n3", "n4")])
    assert all(isinstance(rules, Rules) for rules in full.placements.values())
    board = lay_out(full)
    assert board.barred == {}
    assert "usual" not in vars(board.fallback)
