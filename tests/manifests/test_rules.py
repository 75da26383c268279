"""Every rule of the CRD, on the real API server, with an object that breaks only that rule."""

from __future__ import annotations

import pytest

from controller.api.base import JSON, JSONObject
from tests.beds.manifests import schema
from tests.manifests.conftest import Store
from tests.manifests.objects import daemonset
from tests.manifests.refusals import REFUSALS, Refusal
from tests.manifests.server import JSON_PATCH, Server, daemonsets


@pytest.mark.real
@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.why)
def test_the_server_refuses(server: Server, case: Refusal) -> None:
    refused_for_one_rule(server, case)


@pytest.mark.real
def test_the_other_version_has_the_rules_too(server: Server) -> None:
    """One case stands for all: the versions differ in nothing but their names, which test_schema.py proves."""
    refused_for_one_rule(server, REFUSALS[0], version="v1alpha1")


def refused_for_one_rule(server: Server, case: Refusal, **version: str) -> None:
    answer = server.try_out(daemonset(case.changes, **version))
    assert (answer.status, answer.body.get("reason")) == (422, "Invalid"), f"{case.why}: {answer.body}"
    assert len(answer.causes) == 1, f"{case.why} must break one rule only: {answer.causes}"
    field, message = answer.causes[0]
    assert field == case.field, f"{case.why}: {message}"
    assert case.says in message, case.why


def rules(node: JSON) -> list[JSONObject]:
    """All `x-kubernetes-validations` in a schema."""
    if isinstance(node, list):
        return [rule for item in node for rule in rules(item)]
    if not isinstance(node, dict):
        return []
    own = node.get("x-kubernetes-validations")
    found = [rule for rule in own if isinstance(rule, dict)] if isinstance(own, list) else []
    return found + [rule for key, value in node.items() if key != "x-kubernetes-validations" for rule in rules(value)]


def test_every_rule_has_a_message_and_an_object_that_breaks_it() -> None:
    transition = "field is immutable"  # needs two versions of an object: the next test
    for rule in rules(schema()):
        message = str(rule.get("message", ""))
        assert message, f"no message: {rule['rule']}"
        assert transition in message or any(case.says in message for case in REFUSALS), f"not tried: {message}"


@pytest.mark.real
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/spec/selector/matchLabels", {"tier": "a"}),
        ("/spec/selector/matchExpressions", [{"key": "app", "operator": "Exists"}]),
    ],
)
def test_a_selector_never_changes(server: Server, store: Store, path: str, value: JSON) -> None:
    store(daemonset())
    change: JSON = [{"op": "add", "path": path, "value": value}]
    answer = server.ask("PATCH", f"{daemonsets()}/agent", change, JSON_PATCH)
    assert answer.status == 422
    ((field, message),) = answer.causes
    assert field == "spec.selector"
    assert "field is immutable" in message
    assert "--cascade=orphan" in message, "the way out is named"


@pytest.mark.real
def test_an_update_is_judged_like_a_creation(server: Server, store: Store) -> None:
    store(daemonset())
    change: JSON = [{"op": "replace", "path": "/spec/burstReplicas", "value": "abc"}]
    answer = server.ask("PATCH", f"{daemonsets()}/agent", change, JSON_PATCH)
    assert (answer.status, [field for field, _ in answer.causes]) == (422, ["spec.burstReplicas"])


@pytest.mark.real
def test_an_unknown_version_and_an_undecodable_body_are_no_server_errors(server: Server) -> None:
    assert server.ask("POST", daemonsets("v1"), daemonset()).status == 404
    assert server.ask("POST", daemonsets(), daemonset(version="v1alpha1")).status == 400
    assert server.ask("POST", daemonsets(), "not an object").status == 400
