"""Revisions: which is current, how a rollback is recorded, what is forgotten."""

from __future__ import annotations

from controller.api.revision import HIGHEST_NUMBER, Revision, new_hash
from controller.planner.actions import CreateRevision, RenumberRevision
from controller.planner.plan import plan, settle_history
from controller.planner.revisions import current_revision
from controller.planner.rollout_state import rollout_state
from controller.planner.world import World
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import before, check, ds, everywhere, node, numbered, pod, revision, served, template, world


def stored(*revs: str) -> list[Revision]:
    return [revision(rev) for rev in revs]


def created(of: World) -> CreateRevision:
    [action] = plan(of).actions
    assert isinstance(action, CreateRevision)
    return action


def test_the_first_template_is_stored_before_any_pod_is_made() -> None:
    cluster = ToyCluster(world(nodes=1, revisions=[]))
    cluster.expect("store v1 as 1", "+node-0 v1", "ran demo-sslqnrncks", "")
    assert cluster.world.pods[0].hash == cluster.world.revisions[0].hash


def test_an_edited_template_becomes_the_next_revision() -> None:
    cluster = ToyCluster(world(ds("v2"), nodes=1, pods=everywhere(1), revisions=stored("v1")))
    cluster.expect("store v2 as 2", "probe v2 on node-0", "-node-0 v1", "+node-0 v2", "ran demo-qbfw78j8vr", "")


def test_edits_outside_the_template_make_no_revision() -> None:
    annotations = {"team": "net"}
    check(world(ds("v1", min_ready=9, partition=3, annotations=annotations, history=2), pods=everywhere(5)))


def test_beyond_the_limit_the_oldest_go_but_none_that_a_pod_carries() -> None:
    pods = [pod("node-0", "v2"), pod("node-1", "v6")]
    old = stored("v1", "v2", "v3", "v4", "v5", "v6")
    keep_v2 = ds("v6", history=2, on_delete=True)
    check(world(keep_v2, nodes=2, pods=pods, revisions=old), "forget demo-v1", "forget demo-v3", "forget demo-v4")


def test_a_limit_of_0_keeps_the_current_one_and_those_in_use() -> None:
    pods = [pod("node-0", "v3", terminating=True), pod("node-1", "v2")]
    keep = world(ds("v3", history=0, on_delete=True), nodes=2, pods=pods, revisions=stored("v1", "v2", "v3"))
    check(keep, "forget demo-v1")


def test_without_a_limit_ten_old_ones_are_kept() -> None:
    many = stored(*(f"v{number}" for number in range(1, 14)))
    check(
        world(ds("v13"), nodes=1, pods=served("node-0", rev="v13"), revisions=many),
        "forget demo-v1",
        "forget demo-v2",
    )


def test_a_revision_that_is_going_already_is_not_deleted_again() -> None:
    old = [revision("v1", terminating=True), revision("v2"), revision("v3")]
    check(world(ds("v3", history=0), nodes=1, pods=served("node-0", rev="v3"), revisions=old), "forget demo-v2")


def test_the_revision_that_lost_pods_would_come_back_as_is_kept() -> None:
    in_backoff = ds("v3", history=0, selector={"track": "canary"})
    nodes = [node("node-0", labels={"track": "canary"})]
    old = stored("v1", "v2", "v3")
    check(world(in_backoff, nodes=nodes, pods=served("node-0", rev="v3"), revisions=old), "forget demo-v1")


def test_the_last_revision_of_a_node_that_stays_empty_is_kept() -> None:
    """v1 runs in the pool only, and the only node has left it; it would come back as v1 if it joined again."""
    old = [revision("v1", of=template("v1", nodeSelector={"pool": "a"})), revision("v2"), revision("v3")]
    held = ds("v3", history=0, partition=1)
    of = world(held, nodes=1, revisions=old, predecessors=before("node-0", "v1"))
    check(of)
    check(world(held, nodes=1, pods=served("node-0", rev="v3"), revisions=old), "forget demo-v1")


def test_nothing_is_trimmed_while_pods_are_being_replaced() -> None:
    updating = ds("v2", history=0)
    check(world(updating, nodes=2, pods=everywhere(2), revisions=stored("v0", "v1", "v2")), "-node-1 v1")


def test_a_rollback_renumbers_the_old_revision_and_leaves_its_pods() -> None:
    pods = [pod("node-0", "v1"), pod("node-1", "v2")]
    cluster = ToyCluster(world(ds("v1"), nodes=2, pods=pods, revisions=stored("v1", "v2")))
    cluster.expect("renumber demo-v1 3", "-node-1 v2", "+node-1 v1", "")


def test_another_object_took_the_name_so_the_next_pass_uses_another() -> None:
    first = created(world(revisions=[]))
    second = created(world(revisions=[], collisions=1))
    assert first.name != second.name
    assert first.hash == new_hash(ds().identity, 0)
    assert second.hash == new_hash(ds().identity, 1)
    assert (first.name, second.name) == (f"demo-{first.hash}", f"demo-{second.hash}")


def test_the_collision_is_counted_in_the_status_of_this_object() -> None:
    counts = [found.collision_count for one in (1, 0) if (found := plan(world(collisions=one)).status)]
    assert counts == [1, None]


def test_a_stored_revision_keeps_its_name_whatever_was_counted_since() -> None:
    check(world(nodes=1, pods=everywhere(1), collisions=7))


def test_the_same_template_gets_the_same_name_in_every_process() -> None:
    assert created(world(revisions=[])).name == "demo-sslqnrncks"


def test_of_two_equal_revisions_the_newer_stays_and_pods_are_relabelled() -> None:
    twin = revision("v9", 1, of=template("v2"))
    pods = [pod("node-2", "v1"), pod("node-1", "v9"), pod("node-0", "v2")]
    doubled = world(ds("v2", paused=True), nodes=3, pods=pods, revisions=[twin, revision("v1", 2), revision("v2", 3)])
    cluster = ToyCluster(doubled)
    cluster.expect("relabel node-1-v9 v2", "forget demo-v9", "")
    assert cluster.revisions() == {"node-0": "v2", "node-1": "v2", "node-2": "v1"}, "v1 really is old"


def test_twins_with_one_label_need_no_relabelling() -> None:
    twin = revision("v2", 1, name="demo-copy", uid="uid-copy")
    check(
        world(ds("v2"), nodes=1, pods=served("node-0", rev="v2"), revisions=[twin, revision("v2")]),
        "forget demo-copy",
    )


def test_pods_of_a_twin_that_is_being_deleted_are_relabelled_too() -> None:
    twin = revision("v9", 1, of=template("v2"), terminating=True)
    check(
        world(ds("v2"), nodes=1, pods=[pod("node-0", "v9")], revisions=[twin, revision("v2")]),
        "relabel node-0-v9 v2",
    )


def test_a_terminating_revision_is_not_the_current_one() -> None:
    terminating = world(nodes=1, revisions=[revision("v1", terminating=True)])
    current, older = current_revision(terminating)
    assert (current.uid, current.number) == ("", 2)
    assert [one.name for one in older] == ["demo-v1"]


def test_equal_numbers_are_ordered_by_name() -> None:
    first, second = revision("v1", 4), revision("v2", 4)
    _, older = current_revision(world(ds("v3"), revisions=[second, first]))
    assert older == current_revision(world(ds("v3"), revisions=[first, second]))[1]


def test_an_unlabelled_revision_is_known_by_its_name() -> None:
    unlabelled = revision("v1", labels={})
    assert unlabelled.hash == "demo-v1"
    check(world(nodes=1, pods=[pod("node-0", "demo-v1")], revisions=[unlabelled]))


def test_history_is_settled_with_one_current_revision_numbered_highest() -> None:
    assert settle_history(rollout_state(world(nodes=numbered(1)))).actions == ()


def test_the_highest_number_is_shared_and_not_gone_beyond() -> None:
    top = revision("v1", HIGHEST_NUMBER)
    cluster = ToyCluster(world(ds("v2"), nodes=1, pods=everywhere(1), revisions=[top]))
    cluster.settle()
    assert [one.number for one in cluster.world.revisions] == [HIGHEST_NUMBER] * 2
    cluster.edit(ds("v1"))
    cluster.settle()
    assert {pod.hash for pod in cluster.world.pods} == {"v1"}


def test_of_two_highest_revisions_the_current_one_gets_a_higher_number() -> None:
    """Another controller has renumbered one meanwhile."""
    twice = [revision("v1", 3), revision("v2", 3)]
    [action] = plan(world(ds("v2"), nodes=1, pods=everywhere(1), revisions=twice)).actions
    assert action == RenumberRevision(revision=twice[1].ref, number=4)
