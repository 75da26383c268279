"""What every change is made of: a patch, its notes, and what is said of an object that goes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from controller.api import template_identity
from controller.api.objects import JSONObject, value_at
from kubectl_plugin.changes.edit import Caution, Draft, Edit, Operation, action_operations, patch_of, with_operations
from kubectl_plugin.changes.rollback import RollbackSettings, roll_back
from kubectl_plugin.changes.steering import pause, restart, resume, set_images, set_partition
from kubectl_plugin.rollout.last_action import LAST_ACTION, LastAction, action, last_action
from kubectl_plugin.rollout.snapshot import CHANGE_CAUSE, Snapshot, Unread
from kubectl_plugin.rollout.target import target_of
from tests.beds.worlds import NOW, served, template
from tests.unit.kubectl_plugin.changes.documents import live, rolling, seen

PARTITION = ("spec", "updateStrategy", "rollingUpdate", "partition")


@pytest.mark.parametrize(
    ("document", "path", "value"),
    [
        ({}, "/spec", {"updateStrategy": {"rollingUpdate": {"partition": 8}}}),
        ({"spec": {}}, "/spec/updateStrategy", {"rollingUpdate": {"partition": 8}}),
        ({"spec": {"updateStrategy": None}}, "/spec/updateStrategy", {"rollingUpdate": {"partition": 8}}),
        (
            {"spec": {"updateStrategy": {"type": "RollingUpdate"}}},
            "/spec/updateStrategy/rollingUpdate",
            {"partition": 8},
        ),
        ({"spec": {"updateStrategy": {"rollingUpdate": {}}}}, "/spec/updateStrategy/rollingUpdate/partition", 8),
        (
            {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 16}}}},
            "/spec/updateStrategy/rollingUpdate/partition",
            8,
        ),
    ],
)
def test_missing_parents_are_made_by_the_one_operation(document: JSONObject, path: str, value: Any) -> None:
    draft = Draft(document)
    draft.set(8, *PARTITION)
    assert patch_of(draft.operations) == ({"op": "add", "path": path, "value": value},)
    assert value_at(with_operations(document, draft.operations), *PARTITION) == 8


def test_a_second_setting_finds_the_parents_that_the_first_one_made() -> None:
    draft = Draft({"spec": {}})
    draft.set(8, *PARTITION)
    draft.set(True, *PARTITION[:-1], "paused")
    assert with_operations({"spec": {}}, draft.operations) == {
        "spec": {"updateStrategy": {"rollingUpdate": {"partition": 8, "paused": True}}}
    }


def test_what_is_as_wanted_makes_no_operation() -> None:
    draft = Draft({"a": {"b": 1}})
    draft.set(1, "a", "b")
    draft.drop("a", "c")
    draft.drop("x", "y")
    assert draft.operations == ()


@pytest.mark.parametrize(("there", "wanted"), [(1, True), (False, 0), ({"a": [1]}, {"a": [True]})])
def test_a_number_is_no_truth(there: Any, wanted: Any) -> None:
    draft = Draft({"a": there})
    draft.set(wanted, "a")
    assert patch_of(draft.operations) == ({"op": "add", "path": "/a", "value": wanted},)


def test_an_entry_of_a_list_is_replaced_and_nothing_moves() -> None:
    document: JSONObject = {"list": [1, 2, 3], "containers": [{"image": "a"}, {"image": "b"}]}
    draft = Draft(document)
    draft.set(9, "list", "1")
    draft.set("c", "containers", "0", "image")
    assert with_operations(document, draft.operations) == {
        "list": [1, 9, 3],
        "containers": [{"image": "c"}, {"image": "b"}],
    }


def test_keys_with_slashes_and_tildes_are_keys() -> None:
    draft = Draft({"metadata": {"annotations": {"kruise-ds/steps": "8,0", "a~b": "1"}}})
    draft.set("x", "metadata", "annotations", "kruise-ds/last-action")
    draft.drop("metadata", "annotations", "kruise-ds/steps")
    draft.drop("metadata", "annotations", "a~b")
    after = with_operations({"metadata": {"annotations": {"kruise-ds/steps": "8,0", "a~b": "1"}}}, draft.operations)
    assert after == {"metadata": {"annotations": {"kruise-ds/last-action": "x"}}}


def test_the_original_stays_as_it_was() -> None:
    document: JSONObject = {"spec": {"list": [{"a": 1}]}}
    before = copy.deepcopy(document)
    with_operations(
        document,
        (
            Operation(op="add", path=("spec", "list", "0", "a"), value=2),
            Operation(op="remove", path=("spec", "list", "0")),
        ),
    )
    Draft(document).set(2, "spec", "list", "0", "a")
    assert document == before


def test_a_list_takes_an_addition_at_its_end_and_before_an_entry() -> None:
    operations = (Operation(op="add", path=("list", "-"), value=3), Operation(op="add", path=("list", "0"), value=0))
    assert with_operations({"list": [1]}, operations) == {"list": [0, 1, 3]}


@pytest.mark.parametrize(
    "operation",
    [
        Operation(op="replace", path=("absent",), value=1),
        Operation(op="remove", path=("absent",)),
        Operation(op="add", path=("absent", "child"), value=1),
        Operation(op="replace", path=("list", "3"), value=1),
        Operation(op="test", path=("list",), value=[]),
    ],
)
def test_what_the_server_refuses_is_refused(operation: Operation) -> None:
    with pytest.raises(LookupError):
        with_operations({"list": []}, (operation,))


SPEC = Operation(op="add", path=("spec", "updateStrategy"), value={"rollingUpdate": {"paused": True}})
TEMPLATE = Operation(op="add", path=("spec", "template", "metadata", "annotations"), value={})
WHOLE_TEMPLATE = Operation(op="add", path=("spec", "template"), value={})


def done(reason: str | None = None, by: str = "alice@example.com") -> LastAction:
    return action("pause", by=by, now=NOW, reason=reason, client="kubectl-kruise-ds/1")


def noted(document: JSONObject, change: Operation, reason: str | None = None) -> dict[str, str]:
    """The annotations afterwards."""
    after = with_operations(document, action_operations(document, (change,), done(reason)))
    return msgspec.convert(value_at(after, "metadata", "annotations"), dict[str, str])


@pytest.mark.parametrize("annotations", [None, {}, {"team": "agents"}])
def test_the_action_is_noted_beside_the_annotations_of_others(annotations: dict[str, str] | None) -> None:
    after = noted(live(annotations=annotations), SPEC, "CVE triage")
    assert after.pop(LAST_ACTION) == (
        '{"verb":"pause","by":"alice@example.com","at":"2027-01-15T08:00:00Z","reason":"CVE triage",'
        '"client":"kubectl-kruise-ds/1"}'
    )
    assert after == (annotations or {})


def test_what_is_not_known_is_left_out() -> None:
    assert msgspec.json.encode(done(by="")) == (
        b'{"verb":"pause","at":"2027-01-15T08:00:00Z","client":"kubectl-kruise-ds/1"}'
    )


def test_what_was_noted_can_be_read_again() -> None:
    assert last_action(noted(live(), SPEC, "why")) == done("why")


@pytest.mark.parametrize("change", [TEMPLATE, WHOLE_TEMPLATE])
def test_the_reason_of_another_template_is_its_change_cause(change: Operation) -> None:
    assert noted(live(annotations={CHANGE_CAUSE: "old"}), change, "CVE-1")[CHANGE_CAUSE] == "CVE-1"


@pytest.mark.parametrize("change", [TEMPLATE, WHOLE_TEMPLATE])
def test_another_template_without_a_reason_does_not_inherit_one(change: Operation) -> None:
    assert CHANGE_CAUSE not in noted(live(annotations={CHANGE_CAUSE: "old"}), change)


@pytest.mark.parametrize("reason", [None, "CVE-1"])
def test_the_change_cause_of_a_template_that_stays_stays(reason: str | None) -> None:
    assert noted(live(annotations={CHANGE_CAUSE: "old"}), SPEC, reason)[CHANGE_CAUSE] == "old"


def test_a_change_cause_that_comes_with_the_change_stays() -> None:
    brought = Operation(op="add", path=("metadata", "annotations"), value={CHANGE_CAUSE: "new"})
    document = live(annotations={CHANGE_CAUSE: "old"})
    change = (WHOLE_TEMPLATE, brought)
    after = with_operations(document, (*change, *action_operations(document, change, done())))
    assert value_at(after, "metadata", "annotations", CHANGE_CAUSE) == "new"


def test_a_field_whose_name_begins_like_the_template_is_another_one() -> None:
    change = Operation(op="add", path=("spec", "templateOther"), value=1)
    assert CHANGE_CAUSE not in noted(live(), change, "CVE-1")


def rolled_back(document: JSONObject, verb: str = "rollback") -> JSONObject:
    change = Operation(op="add", path=("spec", "template"), value=template("v1"))
    by = action(verb, by="", now=NOW, reason=None, client="kubectl-kruise-ds/1")
    return with_operations(document, action_operations(document, (change,), by))


def test_a_rollback_notes_the_meaning_of_the_template_that_it_brought_back() -> None:
    after = rolled_back(live())
    noted = last_action(seen(after).daemonset.annotations)
    assert noted is not None
    assert noted.template == template_identity.identity(template("v1", restartPolicy="Always"))


def test_of_another_verb_no_template_is_noted() -> None:
    noted = last_action(seen(rolled_back(live(), "restart")).daemonset.annotations)
    assert noted is not None
    assert noted.template == ""


PODS = (*served("node-3", "node-2", rev="v2"), *served("node-1", "node-0"))
EDITS: dict[str, Callable[[Snapshot], Edit]] = {
    "pause": pause,
    "set-partition": lambda snapshot: set_partition(snapshot, 1),
    "raised": lambda snapshot: set_partition(snapshot, 3),
    "restart": restart,
    "set-image": lambda snapshot: set_images(snapshot, {"*": "demo:v3"}, None),
    "resume": lambda snapshot: resume(seen(_document(paused=True), pods=PODS, **_rights(snapshot))),
    "rollback": lambda snapshot: roll_back(snapshot, target_of(snapshot, None), RollbackSettings()),
}


def _document(*, terminating: bool = False, **settings: Any) -> Any:
    document: Any = live(rolling(partition=2, **settings))
    if terminating:
        document["metadata"]["deletionTimestamp"] = "2027-01-15T07:59:00Z"
    return document


def _rights(snapshot: Snapshot) -> dict[str, Any]:
    return {"unread": snapshot.unread, "revisions": () if snapshot.unread else ("v2", "v1")}


@pytest.mark.parametrize("verb", sorted(EDITS.keys() - {"resume"}))
def test_of_an_object_that_is_being_deleted_it_is_said(verb: str) -> None:
    terminating = EDITS[verb](seen(_document(terminating=True), pods=PODS, stable="v1"))
    assert terminating.warnings[0] == Caution(text="demo is being deleted")
    assert terminating.warnings[1:] == EDITS[verb](seen(_document(), pods=PODS, stable="v1")).warnings


@pytest.mark.parametrize("verb", sorted(EDITS.keys() - {"pause", "rollback"}))
def test_without_the_right_to_list_revisions_no_number_is_made_up(verb: str) -> None:
    numbered = EDITS[verb](seen(_document(), pods=PODS))
    blind = EDITS[verb](seen(_document(), pods=PODS, revisions=(), unread=(Unread(what="controllerrevisions"),)))
    said, unsaid = (" ".join((*one.details, *(each.text for each in one.warnings))) for one in (numbered, blind))
    assert "revision 2" in said or "revision 3" in said
    assert "the newest revision" in unsaid
    assert not [word for word in unsaid.split("revision ")[1:] if word[0].isdigit()]


@pytest.mark.parametrize("verb", sorted(EDITS))
def test_an_edit_follows_from_the_snapshot_alone_in_whatever_order_pods_were_listed(verb: str) -> None:
    snapshot = seen(_document(), pods=PODS, stable="v1")
    turned = msgspec.structs.replace(snapshot, pods=snapshot.pods[::-1])
    edit = EDITS[verb](snapshot)
    assert EDITS[verb](copy.deepcopy(snapshot)) == edit
    assert EDITS[verb](turned) == edit
