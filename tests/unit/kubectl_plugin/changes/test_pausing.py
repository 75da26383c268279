"""Pause, resume and restart: one field each, whatever is there around it, and what goes on all the same."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSetView, project
from controller.api.names import RESTARTED_AT
from controller.api.objects import JSONObject, fields_of, value_at
from controller.api.pod import Pod
from kubectl_plugin.changes.edit import ROLLING, Edit, patch_of, with_operations
from kubectl_plugin.changes.steering import pause, restart, resume, what_stops
from kubectl_plugin.errors import CommandError
from kubectl_plugin.rollout.snapshot import Snapshot, Unread
from tests.beds.worlds import pending, pod, served
from tests.unit.kubectl_plugin.changes.documents import NO_PARENTS, ON_DELETE, live, rolling, seen

HALF = (*served("node-3", "node-2", rev="v2"), *served("node-1", "node-0"))


def test_resume_of_what_never_paused_writes_nothing() -> None:
    for strategy in NO_PARENTS:
        assert resume(seen(live(strategy))) == Edit(result="not paused"), strategy


@pytest.mark.parametrize("strategy", NO_PARENTS)
def test_pause_touches_nothing_else(strategy: JSONObject | None) -> None:
    edit = pause(seen(live(strategy)))
    (operation,) = edit.operations
    assert edit.result == "paused"
    assert operation.path[:2] == ("spec", "updateStrategy")
    settings = {**fields_of((strategy or {}).get("rollingUpdate")), "paused": True}
    assert value_at(with_operations(live(strategy), (operation,)), *ROLLING) == settings


def test_paused_already_is_no_change() -> None:
    assert pause(seen(live(rolling(paused=True)))) == Edit(result="already paused")


def test_resume_is_one_field() -> None:
    edit = resume(seen(live(rolling(paused=True, partition=1))))
    assert (edit.result, patch_of(edit.operations)) == (
        "resumed",
        ({"op": "add", "path": "/spec/updateStrategy/rollingUpdate/paused", "value": False},),
    )


@pytest.mark.parametrize(("verb", "word"), [(pause, "pause"), (resume, "resume")])
def test_on_delete_knows_no_pause(verb: object, word: str) -> None:
    assert callable(verb)
    with pytest.raises(CommandError) as refused:
        verb(seen(live(ON_DELETE)))
    assert (refused.value.message, refused.value.hints, refused.value.exit_code) == (
        f"cannot {word} demo: updateStrategy is OnDelete, pods change only when you delete them",
        ("kubectl kruise-ds nodes demo -n default --only old",),
        6,
    )


def details(snapshot: Snapshot) -> tuple[str, ...]:
    """Of a pause, before and after it is written."""
    operations = pause(snapshot).operations
    paused = with_operations(snapshot.document, operations)
    after = replace(snapshot, document=paused, daemonset=project(msgspec.convert(paused, DaemonSetView)))
    assert what_stops(after) == what_stops(snapshot, operations)
    return what_stops(after)


@pytest.mark.parametrize(
    "moving", [pending("node-3", "v2"), pod("node-3", "v1", terminating=True)], ids=["starts", "goes"]
)
def test_nodes_in_the_middle_of_it_go_on(moving: Pod) -> None:
    pods = (moving, *served("node-2", "node-1", "node-0"))
    assert details(seen(live(rolling(maxUnavailable=1)), pods=pods))[1].startswith(
        "not stopped: node-3 (already updating), lost pods"
    )


def test_with_every_node_updated_it_is_for_the_next_one() -> None:
    assert details(seen(pods=served("node-3", "node-2", "node-1", "node-0", rev="v2"))) == (
        "4 of 4 nodes are on revision 2; a later one is not rolled out before resume",
    )


def test_during_a_first_deployment_new_nodes_get_what_there_is() -> None:
    pods = served("node-3", rev="v2")
    assert details(seen(pods=pods, revisions=("v2",)))[1] == (
        "not stopped: lost pods (they come back as they were), new nodes"
    )


def test_a_template_not_seen_by_the_controller_is_the_next_revision() -> None:
    assert details(seen(live(rev="v3"), pods=HALF))[0] == "0 of 4 nodes are on revision 3; no more will be updated"


@pytest.mark.parametrize(
    "snapshot",
    [seen(unread=(Unread(what="pods"),)), seen(live(rolling(maxUnavailable="many")))],
    ids=["rights", "spec"],
)
def test_where_nothing_is_known_it_is_done_all_the_same(snapshot: Snapshot) -> None:
    assert pause(snapshot).operations
    assert what_stops(snapshot) == ()


ALL = served("node-3", "node-2", "node-1", "node-0", rev="v2")
AT = "2027-01-15T08:00:00Z"


@pytest.mark.parametrize("annotations", [None, {}, {"team": "agents"}, {RESTARTED_AT: "2020-01-01T00:00:00Z"}])
def test_the_template_is_stamped_whatever_annotations_it_has(annotations: dict[str, str] | None) -> None:
    document = live(template_annotations=annotations)
    edit = restart(seen(document))
    after = with_operations(document, edit.operations)
    assert value_at(after, "spec", "template", "metadata", "annotations") == {**(annotations or {}), RESTARTED_AT: AT}
    assert edit.result == "restarted"


def test_a_template_without_metadata_gets_some() -> None:
    document: JSONObject = {**live(), "spec": {"selector": {}, "template": {"spec": {}}}}
    after = with_operations(document, restart(seen(document)).operations)
    assert value_at(after, "spec", "template", "metadata") == {"annotations": {RESTARTED_AT: AT}}


def test_paused_it_waits_for_resume() -> None:
    edit = restart(seen(live(rolling(paused=True)), pods=ALL))
    assert edit.details == ("4 of 4 nodes get revision 3 after resume: node-3 … node-0",)
    assert [(one.text, one.hints) for one in edit.warnings] == [
        ("demo is paused: nothing moves before it is resumed", ("kubectl kruise-ds resume demo -n default",))
    ]


def test_with_on_delete_it_waits_for_a_deletion() -> None:
    edit = restart(seen(live(ON_DELETE), pods=ALL))
    assert [(one.text, one.hints) for one in edit.warnings] == [
        (
            "updateStrategy of demo is OnDelete: pods change only when you delete them",
            ("kubectl kruise-ds nodes demo -n default --only old",),
        )
    ]
    assert edit.operations


def test_in_place_is_asked_for_but_pods_are_made_anew() -> None:
    edit = restart(seen(live(rolling(rollingUpdateType="InPlaceIfPossible", maxUnavailable=4)), pods=ALL))
    assert edit.details[-1] == f"re-create: metadata.annotations[{RESTARTED_AT}] asks for a restart"


def test_twice_in_one_second_it_is_one_restart() -> None:
    edit = restart(seen(live(template_annotations={RESTARTED_AT: AT})))
    assert (edit.result, edit.operations) == ("already restarted", ())
