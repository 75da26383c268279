"""The kept revisions: where they run, what each changed, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from controller.api.objects import JSON, JSONObject
from controller.api.pod import Pod
from controller.api.revision import Revision
from kubectl_plugin.rollout.history import history, live_revision
from kubectl_plugin.rollout.snapshot import Snapshot, Unread
from tests.beds.snapshots import of_world
from tests.beds.worlds import ds, failed, pod, revision, served, template, world


def snapshot(
    rev: str = "v3",
    *,
    revisions: Iterable[Revision] = (),
    pods: Iterable[Pod] = (),
    limit: int | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Snapshot:
    kept = tuple(revisions) or tuple(revision(one) for one in ("v1", "v2", "v3"))
    around = world(ds(rev, history=limit, annotations=annotations), revisions=kept, pods=pods)
    return of_world(around)


def two_images(main: str, side: str) -> JSONObject:
    containers: list[JSON] = [{"name": "main", "image": main}, {"name": "side", "image": side}]
    return {"spec": {"containers": containers}}


def test_the_oldest_names_the_limit_that_is_set() -> None:
    assert history(snapshot(limit=3))[-1].change() == "oldest kept (revisionHistoryLimit 3)"


def test_twins_have_no_difference() -> None:
    kept = [revision("v1"), revision("v2", of=template("v1"))]
    assert history(snapshot("v1", revisions=kept))[0].change() == "no difference"


def test_nodes_are_counted_by_pods_that_stay() -> None:
    pods = (
        *served("node-0", "node-1", rev="v3"),
        pod("node-1", "v2"),
        pod("node-2", "v2", terminating=True),
        failed("node-3", "v2"),
        pod("node-4", "unknown"),
    )
    assert [row.nodes for row in history(snapshot(pods=pods))] == [2, 1, 0]


def test_two_pods_of_a_revision_on_a_node_are_one_node() -> None:
    pods = [pod("node-0", "v3", name="one"), pod("node-0", "v3", name="two")]
    assert [row.nodes for row in history(snapshot(pods=pods))] == [1, 0, 0]


def test_without_the_right_to_list_pods_the_nodes_are_unknown() -> None:
    seen = replace(snapshot(), unread=(Unread(what="pods"),))
    assert {row.nodes for row in history(seen)} == {None}


def test_images_that_differ_between_the_kept_revisions() -> None:
    kept = [
        revision("v1", of=two_images("a:1", "b:1")),
        revision("v2", of=two_images("a:1", "b:2")),
        revision("v3", of=two_images("a:1", "b:2")),
    ]
    rows = history(snapshot("v3", revisions=kept))
    assert [row.differing for row in rows] == [("side",)] * 3
    assert rows[0].images == {"main": "a:1", "side": "b:2"}


def test_a_container_that_was_not_always_there_differs() -> None:
    kept = [revision("v1"), revision("v2", of=two_images("demo:v1", "b:1"))]
    assert [row.differing for row in history(snapshot("v2", revisions=kept))] == [("side",), ()]


def test_where_no_image_differs_all_are_shown() -> None:
    kept = [revision("v1", of=two_images("a:1", "b:1"))]
    assert history(snapshot("v1", revisions=kept))[0].differing == ("main", "side")


def test_a_cause_is_the_revisions_own() -> None:
    seen = snapshot(annotations={"kubernetes.io/change-cause": "of the DaemonSet"})
    first, second, third = seen.revisions
    seen = replace(seen, revisions=(first, replace(second, change_cause="CVE"), third))
    assert [row.cause for row in history(seen)] == ["of the DaemonSet", "CVE", ""]


def test_the_cause_of_the_live_revision_is_not_replaced_by_the_daemonsets() -> None:
    seen = snapshot(annotations={"kubernetes.io/change-cause": "later"})
    first, *others = seen.revisions
    seen = replace(seen, revisions=(replace(first, change_cause="first"), *others))
    assert [row.cause for row in history(seen)] == ["first", "", ""]


def test_a_template_that_is_not_stored_lends_its_cause_to_no_revision() -> None:
    seen = snapshot("v4", annotations={"kubernetes.io/change-cause": "for v4"})
    assert live_revision(seen) is None
    assert [(row.live, row.cause) for row in history(seen)] == [(False, "")] * 3


def test_a_revision_that_is_being_deleted_is_not_kept() -> None:
    kept = [revision("v1", terminating=True), revision("v2"), revision("v3")]
    rows = history(snapshot(revisions=kept))
    assert [row.revision.number for row in rows] == [3, 2]
    assert rows[-1].oldest


def test_the_live_one_is_marked_also_after_a_rollback() -> None:
    kept = [revision("v1", 4), revision("v2"), revision("v3")]
    assert [(row.revision.number, row.live) for row in history(snapshot("v1", revisions=kept))] == [
        (4, True),
        (3, False),
        (2, False),
    ]


def test_after_a_rollback_each_revision_is_compared_with_the_one_that_it_followed() -> None:
    found = snapshot("v1", revisions=[revision("v1", 4), revision("v2"), revision("v3")])
    at = {one.revision.hash: one for one in found.revisions}
    made = tuple(replace(at[name], created=when) for name, when in (("v1", 10.0), ("v3", 30.0), ("v2", 20.0)))
    rows = history(replace(found, revisions=made))
    changes = {row.revision.number: [(one.old, one.new) for one in row.changes] for row in rows}
    assert changes == {4: [("demo:v3", "demo:v1")], 3: [("demo:v2", "demo:v3")], 2: [("demo:v1", "demo:v2")]}
    assert not any(row.oldest for row in rows)


def test_no_revision_at_all() -> None:
    assert history(replace(snapshot(), revisions=())) == ()


def test_ascii() -> None:
    assert history(snapshot())[0].change(only_ascii=True) == "image main v2 -> v3"
