"""The rolling update within maxUnavailable.

An old pod that is unavailable is replaced at once, outside the limit, but its node uses up budget that available pods
then do not get.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.names import TEMPLATE_REFUSED
from controller.planner.plan import plan
from controller.planner.world import BackoffKey, World
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import NOW, ago, at, check, ds, everywhere, node, pod, refusing, revision, served, taint, world

UNREACHABLE = taint("node.kubernetes.io/unreachable", "NoExecute")
POOL = {"pool": "a"}


def silent(state: str, *numbers: int, limit: int = 1, key: str = UNREACHABLE.key) -> World:
    """The nodes of these numbers have a taint."""
    taints = {number: [taint(key, "NoExecute")] for number in numbers}
    nodes = [node(f"node-{number}", *taints.get(number, [])) for number in range(len(state.split()))]
    return at(state, max_unavailable=limit, nodes=nodes)


FAILED_LAST: dict[str, Any] = {"not_before": {"node-2": NOW + 9}}
YOUNG = pod("node-0", ready=ago(5))
STRAY = pod("node-0", created=ago(5), name="stray")
CASES: dict[str, tuple[World, str]] = {
    "a node whose pod terminates has no available pod": (at("v1 v1 v1†", max_unavailable="50%"), "-node-1 v1"),
    "a node without a pod has none": (at("v1 v1 v2x", **FAILED_LAST), ""),
    "but leaves what else is allowed": (at("v1 v1 v2x", max_unavailable=2, **FAILED_LAST), "-node-1 v1"),
    "names are ordered as text": (
        world(ds("v2"), nodes=["node-9", "node-10", "node-1"], pods=served("node-9", "node-10", "node-1")),
        "-node-9 v1",
    ),
    "unavailable old pods use budget of available ones": (
        at("v1! v1! v1 v1 v1", max_unavailable=3),
        "-node-1 v1, -node-0 v1, -node-4 v1",
    ),
    "and leave none where they use up all": (at("v1! v1! v1 v1 v1", max_unavailable=2), "-node-1 v1, -node-0 v1"),
    "of pods that serve those not yet available go first": (
        at("v1 v1 v1", min_ready=60, max_unavailable=2, pods=[YOUNG, pod("node-1"), pod("node-2")]),
        "-node-0 v1, -node-2 v1",
    ),
    "after those that do not serve": (
        at("v1 v1 v1", min_ready=60, max_unavailable=2, pods=[YOUNG, pod("node-1", ready=None), pod("node-2")]),
        "-node-1 v1, -node-0 v1",
    ),
    "the burst limits deletes": (at("v1 v1 v1 v1 v1", max_unavailable=4, burst=2), "-node-4 v1, -node-3 v1"),
    "while nothing may move the server is not asked": (at("v1 v2?", verdicts={}), ""),
    "a pod that cannot be deleted does not stop the others": (
        at("v1 v1 v1", pods=(*everywhere(3), STRAY), in_backoff={BackoffKey("object", STRAY.uid): NOW + 8}),
        "-node-2 v1",
    ),
    "without a failing create placement comes first": (at("v1 v1 v1 v1 -", max_unavailable=3), "+node-4 v2"),
    "a silent node last heard as ready uses the budget": (silent("v1 v1", 1), ""),
    "and is left alone": (silent("v1 v1", 1, limit=2), "-node-0 v1"),
    "a node that is merely not ready gets its new pod at once": (
        silent("v1 v1!", 1, key="node.kubernetes.io/not-ready"),
        "-node-1 v1",
    ),
}


@pytest.mark.parametrize(("of", "expected"), CASES.values(), ids=CASES)
def test_the_budget(of: World, expected: str) -> None:
    check(of, expected)


def rolls(cluster: ToyCluster, *passes: str) -> None:
    """Each of `passes` is what happens until nothing more can, as one text; after it the new pods get ready."""
    for expected in passes:
        assert ", ".join(cluster.settle()) == expected
        cluster.ready()


def test_pods_of_silent_nodes_are_left_alone_and_use_budget() -> None:
    """Silent nodes use the budget, so one of three is left for the others."""
    cluster = ToyCluster(silent("v1 v1 v1 v1! v1!", 3, 4, limit=3), dead=["node-3", "node-4"])
    rolls(cluster, "-node-2 v1, +node-2 v2", "-node-1 v1, +node-1 v2", "-node-0 v1, +node-0 v2", "")
    assert cluster.revisions()["node-4"] == "v1", "untouched while nobody hears of it"
    cluster.dead.clear()
    cluster.set_nodes(node("node-4"))
    rolls(cluster, "-node-4 v1, +node-4 v2")


def test_waves_by_descending_name_each_waiting_for_the_one_before() -> None:
    cluster = ToyCluster(at("v1 v1 v1 v1 v1", max_unavailable=2))
    cluster.expect("-node-4 v1, -node-3 v1", "+node-3 v2, +node-4 v2", "")
    cluster.ready("node-3")
    cluster.expect("-node-2 v1", "+node-2 v2", "")
    cluster.ready()
    rolls(cluster, "-node-1 v1, -node-0 v1, +node-0 v2, +node-1 v2", "")


def test_new_pods_that_never_get_ready_stop_the_rollout() -> None:
    cluster = ToyCluster(at("v1 v1 v1 v1 v1", max_unavailable=3))
    cluster.expect("-node-4 v1, -node-3 v1, -node-2 v1", "+node-2 v2, +node-3 v2, +node-4 v2", "", "")


def test_a_change_of_the_strategy_alone_touches_nothing() -> None:
    cluster = ToyCluster(at("v1 v1 v1", "v1"))
    cluster.edit(ds("v1", max_unavailable=3, min_ready=5, partition=2))
    cluster.expect("")
    assert [one.name for one in cluster.world.revisions] == ["demo-v1"]


def test_unavailable_old_pods_are_replaced_at_once_whatever_the_limit() -> None:
    """The same numbers as the native controller."""
    cluster = ToyCluster(at("v1! v1! v1!", max_unavailable=2))
    cluster.expect("-node-2 v1, -node-1 v1, -node-0 v1", "+node-0 v2, +node-1 v2, +node-2 v2", "")


def test_bad_edit_upon_bad_edit_breaks_one_node_and_no_more() -> None:
    """The node that is broken already is the only one that is touched again."""
    cluster = ToyCluster(at("v1 v1 v1", "v1"))
    for rev, broken in (("v2", "v1"), ("v3", "v2"), ("v4", "v3")):
        cluster.edit(ds(rev))
        cluster.expect(f"-node-2 {broken}", f"+node-2 {rev}", "", "")
        cluster.change_where(lambda one: not one.bound, bound=True, phase="Running")
    assert (cluster.on("node-0"), cluster.on("node-1")) == (["v1"], ["v1"])


def test_quick_edits_within_min_ready_seconds_keep_the_others_serving() -> None:
    cluster = ToyCluster(at("v1 v1 v1 v1 v1", "v1", min_ready=60))
    for rev, broken in (("v2", "v1"), ("v3", "v2"), ("v4", "v3"), ("v5", "v4")):
        cluster.edit(ds(rev, min_ready=60))
        rolls(cluster, f"-node-4 {broken}, +node-4 {rev}", "")
        cluster.pass_time(10)


def test_pods_that_are_ready_but_not_yet_available_go_within_the_limit() -> None:
    """They serve. The native controller would replace all of them at once."""
    cluster = ToyCluster(at("v1 v1 v1", min_ready=60, pods=everywhere(3, ready=ago(5))))
    rolls(cluster, "-node-2 v1, +node-2 v2", "")
    cluster.pass_time(61)
    rolls(cluster, "-node-1 v1, +node-1 v2")


def test_after_a_kubelet_restart_available_pods_wait_for_new_ones() -> None:
    updating = at("v1 v1 v2", min_ready=60, pods=[*everywhere(2), pod("node-2", "v2", ready=ago(5))])
    assert check(updating).wake_at == pytest.approx(ago(5) + 60 + 0.05)
    cluster = ToyCluster(updating)
    cluster.pass_time(55)
    cluster.expect("")  # exactly 60 s are not *more than* 60 s
    cluster.pass_time(0.05)
    cluster.expect("-node-1 v1")


def test_nodes_that_leave_with_the_edit_neither_use_budget_nor_are_updated() -> None:
    """The delayed variant: placement acts first and ends its pass. What never ends there holds no node up."""
    nodes = [node("node-0"), node("node-1"), *(node(f"node-{number}", labels=POOL) for number in (2, 3))]
    cluster = ToyCluster(at("v1 v1 v1 v1", "v1", nodes=nodes), dead=["node-0"])
    cluster.edit(ds("v2", nodeSelector=POOL))
    cluster.expect("-node-0 v1, -node-1 v1", "-node-3 v1", "+node-3 v2", "")
    cluster.ready()
    rolls(cluster, "-node-2 v1, +node-2 v2")
    assert cluster.revisions() == {"node-0": "v1†", "node-1": "", "node-2": "v2", "node-3": "v2"}


def test_a_pod_on_a_node_that_may_only_keep_it_is_not_updated() -> None:
    """An untolerated NoSchedule taint: deleted for the update it would never come back."""
    cluster = ToyCluster(at("v1 v1", nodes=["node-0", node("node-1", taint("x"))]))
    rolls(cluster, "-node-0 v1, +node-0 v2", "")


def test_on_delete_never_replaces_a_pod_and_a_lost_one_comes_back_new() -> None:
    cluster = ToyCluster(at("v1! v1! v1!", on_delete=True))
    cluster.expect("")
    cluster.lose("node-1-v1")
    cluster.expect("+node-1 v2", "")


def test_a_dry_run_tries_the_new_template_before_any_old_pod_goes() -> None:
    cluster = ToyCluster(at("v1 v1", verdicts={}))
    cluster.expect("probe v2 on node-1")
    assert cluster.plan.again, "a dry run stores nothing, so no event would bring the next pass"
    cluster.expect("-node-1 v1", "+node-1 v2")


def test_while_the_server_refuses_the_template_old_pods_stay() -> None:
    refused = at("v1 v1", verdicts=refusing("v2", "hostPort: too large"), retry_dry_run_at=NOW + 60)
    decided = check(refused)
    assert [(note.reason, note.warning) for note in decided.notes] == [(TEMPLATE_REFUSED, True)]
    assert "hostPort: too large" in decided.notes[0].message
    assert decided.wake_at == NOW + 60, "a webhook may have changed its mind"
    assert decided.status is not None
    assert [(one.type, one.status) for one in decided.status.conditions if one.reason == TEMPLATE_REFUSED] == [
        ("Progressing", "False"),
        ("Degraded", "True"),
        ("Stalled", "True"),
    ]
    asked = check(replace(refused, retry_dry_run_at=NOW), "probe v2 on node-1").status
    assert asked is not None
    reasons = {one.type: one.reason for one in asked.conditions}
    assert reasons["Degraded"] == TEMPLATE_REFUSED, "a question is no answer: the condition must not flap"


@pytest.mark.parametrize(
    ("state", "place", "expected"),
    [
        ("v1 v1 v1 v1 -", BackoffKey("node", "node-4"), "-node-3 v1, -node-2 v1"),
        ("v1 v1 v1", BackoffKey("object", "uid-node-2-v1"), "-node-1 v1, -node-0 v1"),
    ],
    ids=["creates", "deletes"],
)
def test_where_writes_fail_the_rollout_goes_on_elsewhere(state: str, place: BackoffKey, expected: str) -> None:
    decided = check(
        at(state, max_unavailable=3 if place.kind == "node" else 2, in_backoff={place: NOW + 8}), expected
    )
    assert decided.wake_at == NOW + 8, "it is tried again then"


def test_pods_made_through_another_version_of_the_api_roll_like_any_other() -> None:
    """Projection keeps them (`api/test_pod.py`); the hash of an unknown controller is simply old."""
    pods = [pod("node-0", "8f7d6c5b4"), pod("node-1", "8f7d6c5b4")]
    stored = [revision("8f7d6c5b4", 1, of=world().daemonset.spec.template), revision("v2")]
    assert plan(at("v1 v1", pods=pods, revisions=stored)).actions
    ToyCluster(at("v1 v1", pods=pods, revisions=stored)).expect("-node-1 v1", "+node-1 v2", "")
