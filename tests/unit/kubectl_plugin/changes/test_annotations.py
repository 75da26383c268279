"""The notes that a change leaves: one last action, and a change cause with the template only."""

from __future__ import annotations

import msgspec
import pytest

from controller.api import template_identity
from controller.api.objects import JSONObject, value_at
from kubectl_plugin.changes.edit import action_operations, template_gone_back_to, with_operations
from kubectl_plugin.rollout.gitops import LAST_ACTION, LastAction, action, last_action
from kubectl_plugin.rollout.snapshot import CHANGE_CAUSE
from tests.beds.worlds import NOW, template
from tests.unit.kubectl_plugin.changes.documents import live, seen

SPEC: JSONObject = {"op": "add", "path": "/spec/updateStrategy", "value": {"rollingUpdate": {"paused": True}}}
TEMPLATE: JSONObject = {"op": "add", "path": "/spec/template/metadata/annotations", "value": {}}
WHOLE_TEMPLATE: JSONObject = {"op": "add", "path": "/spec/template", "value": {}}


def done(reason: str | None = None, by: str = "alice@example.com") -> LastAction:
    return action("pause", by=by, now=NOW, reason=reason, client="kubectl-kruise-ds/1")


def noted(document: JSONObject, change: JSONObject, reason: str | None = None) -> dict[str, str]:
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


@pytest.mark.parametrize("text", ["", "paused", "{}", '{"verb": 3}', "[]"])
def test_a_garbled_note_is_none(text: str) -> None:
    assert last_action({LAST_ACTION: text}) is None


@pytest.mark.parametrize("change", [TEMPLATE, WHOLE_TEMPLATE])
def test_the_reason_of_another_template_is_its_change_cause(change: JSONObject) -> None:
    assert noted(live(annotations={CHANGE_CAUSE: "old"}), change, "CVE-1")[CHANGE_CAUSE] == "CVE-1"


@pytest.mark.parametrize("change", [TEMPLATE, WHOLE_TEMPLATE])
def test_another_template_without_a_reason_does_not_inherit_one(change: JSONObject) -> None:
    assert CHANGE_CAUSE not in noted(live(annotations={CHANGE_CAUSE: "old"}), change)


@pytest.mark.parametrize("reason", [None, "CVE-1"])
def test_the_change_cause_of_a_template_that_stays_stays(reason: str | None) -> None:
    assert noted(live(annotations={CHANGE_CAUSE: "old"}), SPEC, reason)[CHANGE_CAUSE] == "old"


def test_a_change_cause_that_comes_with_the_change_stays() -> None:
    brought: JSONObject = {"op": "add", "path": "/metadata/annotations", "value": {CHANGE_CAUSE: "new"}}
    document = live(annotations={CHANGE_CAUSE: "old"})
    change = (WHOLE_TEMPLATE, brought)
    after = with_operations(document, (*change, *action_operations(document, change, done())))
    assert value_at(after, "metadata", "annotations", CHANGE_CAUSE) == "new"


def test_a_field_whose_name_begins_like_the_template_is_another_one() -> None:
    change: JSONObject = {"op": "add", "path": "/spec/templateOther", "value": 1}
    assert CHANGE_CAUSE not in noted(live(), change, "CVE-1")


def rolled_back(document: JSONObject, verb: str = "rollback") -> JSONObject:
    change: JSONObject = {"op": "add", "path": "/spec/template", "value": template("v1")}
    by = action(verb, by="", now=NOW, reason=None, client="kubectl-kruise-ds/1")
    return with_operations(document, action_operations(document, (change,), by))


def test_a_rollback_notes_the_meaning_of_the_template_that_it_brought_back() -> None:
    after = rolled_back(live())
    assert template_gone_back_to(seen(after)) == template_identity.identity(template("v1", restartPolicy="Always"))


@pytest.mark.parametrize("document", [live(), rolled_back(live(), "restart")], ids=["nothing", "another verb"])
def test_of_other_uses_nothing_is_noted(document: JSONObject) -> None:
    assert template_gone_back_to(seen(document)) == ""
