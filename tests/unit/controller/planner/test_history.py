"""Revisions: which is current, how a rollback is recorded, what is forgotten."""

from __future__ import annotations

import pytest

from controller.api.revision import HIGHEST_NUMBER, Revision, new_hash
from controller.planner.actions import CreateRevision, RenumberRevision
from controller.planner.plan import plan, settle_history
from controller.planner.revisions import current_revision
from controller.planner.rollout_state import rollout_state
from controller.planner.world import World
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import at, before, check, ds, node, pod, revision, template, world


def stored(*revs: str) -> list[Revision]:
    return [revision(rev) for rev in revs]


def created(of: World) -> CreateRevision:
    [action] = plan(of).actions
    assert isinstance(action, CreateRevision)
    return action


ONE_TO_THREE = stored("v1", "v2", "v3")
IN_POOL = [revision("v1", of=template("v1", nodeSelector={"pool": "a"})), *stored("v2", "v3")]
CASES: dict[str, tuple[World, str]] = {
    "edits outside the template make no revision": (
        at("v1 v1", "v1", min_ready=9, partition=3, annotations={"team": "net"}, history=2),
        "",
    ),
    "beyond the limit the oldest go, but none that a pod carries": (
        at("v2 v6", "v6", history=2, on_delete=True, revisions=stored("v1", "v2", "v3", "v4", "v5", "v6")),
        "forget demo-v1, forget demo-v3, forget demo-v4",
    ),
    "a limit of 0 keeps the current one and those in use": (
        at("v3† v2", "v3", history=0, on_delete=True, revisions=ONE_TO_THREE),
        "forget demo-v1",
    ),
    "without a limit ten old ones are kept": (
        at("v13", "v13", revisions=stored(*(f"v{number}" for number in range(1, 14)))),
        "forget demo-v1, forget demo-v2",
    ),
    "a revision that is going already is not deleted again": (
        at("v3", "v3", history=0, revisions=[revision("v1", terminating=True), *stored("v2", "v3")]),
        "forget demo-v2",
    ),
    "the revision that lost pods would come back as is kept": (
        at(
            "v3",
            "v3",
            history=0,
            selector={"track": "canary"},
            nodes=[node("node-0", labels={"track": "canary"})],
            revisions=ONE_TO_THREE,
        ),
        "forget demo-v1",
    ),
    "so is the last one of a node that stays empty: it would come back as that in the pool": (
        at("-", "v3", history=0, partition=1, revisions=IN_POOL, predecessors=before("node-0", "v1")),
        "",
    ),
    "until it has another": (at("v3", "v3", history=0, partition=1, revisions=IN_POOL), "forget demo-v1"),
    "nothing is trimmed while pods are being replaced": (
        at("v1 v1", history=0, revisions=stored("v0", "v1", "v2")),
        "-node-1 v1",
    ),
    "a stored revision keeps its name whatever was counted since": (at("v1", "v1", collisions=7), ""),
    "twins with one label need no relabelling": (
        at("v2", revisions=[revision("v2", 1, name="demo-copy", uid="uid-copy"), revision("v2")]),
        "forget demo-copy",
    ),
    "a twin that is being deleted is not deleted again": (
        at("v2", revisions=[revision("v9", 1, of=template("v2"), terminating=True), revision("v2")]),
        "",
    ),
    "pods of a twin that is being deleted are relabelled too, ready or not": (
        at("v9 v9!", revisions=[revision("v9", 1, of=template("v2"), terminating=True), revision("v2")]),
        "relabel node-0-v9 v2, relabel node-1-v9 v2",
    ),
    "of each that a pod has at last that is recorded, also of an older one": (
        at("v1 v2", partition=1, revisions=[revision(name, never_ran=True) for name in ("v1", "v2")]),
        "ran demo-v2, ran demo-v1",
    ),
    "an unlabelled revision is known by its name": (
        at("-", "v1", pods=[pod("node-0", "demo-v1")], revisions=[revision("v1", labels={})]),
        "",
    ),
}


@pytest.mark.parametrize(("of", "expected"), CASES.values(), ids=CASES)
def test_history(of: World, expected: str) -> None:
    check(of, expected)


def test_the_first_template_is_stored_before_any_pod_is_made() -> None:
    cluster = ToyCluster(world(nodes=1, revisions=[]))
    cluster.expect("store v1 as 1", "+node-0 v1", "ran demo-sslqnrncks", "")
    assert cluster.world.pods[0].hash == cluster.world.revisions[0].hash


def test_an_edited_template_becomes_the_next_revision() -> None:
    cluster = ToyCluster(at("v1", revisions=stored("v1")))
    cluster.expect("store v2 as 2", "probe v2 on node-0", "-node-0 v1", "+node-0 v2", "ran demo-qbfw78j8vr", "")


def test_a_rollback_renumbers_the_old_revision_and_leaves_its_pods() -> None:
    cluster = ToyCluster(at("v1 v2", "v1", revisions=stored("v1", "v2")))
    cluster.expect("renumber demo-v1 3", "-node-1 v2", "+node-1 v1", "")


def test_another_object_took_the_name_so_the_next_pass_uses_another() -> None:
    first, second = (created(world(revisions=[], collisions=count)) for count in (0, 1))
    assert first.name != second.name
    assert (first.hash, second.hash) == (new_hash(ds().identity, 0), new_hash(ds().identity, 1))
    assert (first.name, second.name) == (f"demo-{first.hash}", f"demo-{second.hash}")
    assert first.name == "demo-sslqnrncks", "in every process"
    counts = [found.collision_count for one in (1, 0) if (found := plan(world(collisions=one)).status)]
    assert counts == [1, None]


def test_of_two_equal_revisions_the_newer_stays_and_pods_are_relabelled() -> None:
    twin = revision("v9", 1, of=template("v2"))
    cluster = ToyCluster(at("v2 v9 v1", paused=True, revisions=[twin, revision("v1", 2), revision("v2", 3)]))
    cluster.expect("relabel node-1-v9 v2", "forget demo-v9", "")
    assert cluster.revisions() == {"node-0": "v2", "node-1": "v2", "node-2": "v1"}, "v1 really is old"


def test_a_terminating_revision_is_not_the_current_one() -> None:
    current, older = current_revision(world(nodes=1, revisions=[revision("v1", terminating=True)]))
    assert (current.uid, current.number) == ("", 2)
    assert [one.name for one in older] == ["demo-v1"]


def test_equal_numbers_are_ordered_by_name() -> None:
    first, second = revision("v1", 4), revision("v2", 4)
    _, older = current_revision(world(ds("v3"), revisions=[second, first]))
    assert older == current_revision(world(ds("v3"), revisions=[first, second]))[1]


def test_history_is_settled_with_one_current_revision_numbered_highest() -> None:
    assert settle_history(rollout_state(world(nodes=1))).actions == ()


def test_the_highest_number_is_shared_and_not_gone_beyond() -> None:
    cluster = ToyCluster(at("v1", revisions=[revision("v1", HIGHEST_NUMBER)]))
    cluster.settle()
    assert [one.number for one in cluster.world.revisions] == [HIGHEST_NUMBER] * 2
    cluster.edit(ds("v1"))
    cluster.settle()
    assert {pod.hash for pod in cluster.world.pods} == {"v1"}


def test_of_two_highest_revisions_the_current_one_gets_a_higher_number() -> None:
    """Another controller has renumbered one meanwhile."""
    twice = [revision("v1", 3), revision("v2", 3)]
    [action] = plan(at("v1", revisions=twice)).actions
    assert action == RenumberRevision(revision=twice[1].ref, number=4)
