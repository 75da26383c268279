"""Selectors over pods and over nodes."""

from __future__ import annotations

from typing import Final

from controller.api.objects import JSONObject
from tests.manifests.objects import ABSENT, ROLLING
from tests.manifests.refusals.case import Refusal

_LABELS = "spec.template.metadata.labels"
_EXPRESSION = "spec.selector.matchExpressions[0]"
_BY_NODE = f"{ROLLING}.selector"
_KEY = "must be a label key"
_LABEL_MISSING = "`selector` does not match template `labels`: every label"
_NOT_SATISFIED = "`selector` does not match template `labels`: spec.template"
_EMPTY = "empty selector is invalid for daemonset"
_OURS = "the controller itself writes these labels"
_NO_VALUES = "must have at least one value with operator In or NotIn"


def _requirement(key: str, operator: str, *values: str) -> JSONObject:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def _pods(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"spec.selector.matchExpressions": [_requirement(key, operator, *values)]}


def _ours(key: str) -> dict[str, object]:
    """Beside the label that the template has, as the selector must match it."""
    labels = {"app": "agent", key: "x"}
    return {"spec.selector.matchLabels": labels, _LABELS: {**labels, "tier": "a"}}


def _nodes(key: str, operator: str, *values: str) -> dict[str, object]:
    return {f"{_BY_NODE}.matchExpressions": [_requirement(key, operator, *values)]}


SELECTOR: Final = (
    Refusal("a selector that the labels miss", {"spec.selector.matchLabels": {"app": "x"}}, _LABELS, _LABEL_MISSING),
    Refusal("a label of ours", _ours("controller-revision-hash"), "spec.selector.matchLabels", _OURS),
    Refusal("the state of a hook", _ours("lifecycle.apps.kruise.io/state"), "spec.selector.matchLabels", _OURS),
    Refusal(
        "a label of ours in an expression",
        _pods("controller-revision-hash", "DoesNotExist"),
        "spec.selector.matchExpressions",
        _OURS,
    ),
    Refusal("a template without labels", {_LABELS: ABSENT}, _LABELS, _LABEL_MISSING),
    Refusal("a template without metadata", {"spec.template.metadata": ABSENT}, _LABELS, _LABEL_MISSING),
    Refusal("In with other values", _pods("tier", "In", "b", "c"), _LABELS, _NOT_SATISFIED),
    Refusal("In on a label that is not there", _pods("zone", "In", "b"), _LABELS, _NOT_SATISFIED),
    Refusal("NotIn with the template's value", _pods("tier", "NotIn", "a"), _LABELS, _NOT_SATISFIED),
    Refusal("Exists on a label that is not there", _pods("zone", "Exists"), _LABELS, _NOT_SATISFIED),
    Refusal("DoesNotExist on a label that is there", _pods("tier", "DoesNotExist"), _LABELS, _NOT_SATISFIED),
    Refusal("an empty selector", {"spec.selector": {}}, "spec.selector", _EMPTY),
    Refusal("an empty matchLabels", {"spec.selector.matchLabels": {}}, "spec.selector", _EMPTY),
    Refusal("no selector", {"spec.selector": ABSENT}, "spec.selector", "Required value"),
    Refusal("an unknown operator", _pods("tier", "Gt", "1"), f"{_EXPRESSION}.operator", 'Unsupported value: "Gt"'),
    Refusal("NotIn without values", _pods("tier", "NotIn"), f"{_EXPRESSION}.values", _NO_VALUES),
    Refusal("Exists with values", _pods("tier", "Exists", "a"), f"{_EXPRESSION}.values", "must be left out"),
    Refusal("a key that is no label key", _pods("-tier", "DoesNotExist"), f"{_EXPRESSION}.key", _KEY),
)

BY_NODE: Final = (
    *(
        Refusal(f"node label {key!r}", {f"{_BY_NODE}.matchLabels": {key: "x"}}, f"{_BY_NODE}.matchLabels", _KEY)
        for key in ("a b", "Up/a", "a/b/c", "", "a/", "k" * 64)
    ),
    Refusal(
        "a node label's bad value",
        {f"{_BY_NODE}.matchLabels": {"a": "b c"}},
        f"{_BY_NODE}.matchLabels",
        "every value must be a label value",
    ),
    Refusal("nodes: In without values", _nodes("a", "In"), f"{_BY_NODE}.matchExpressions[0].values", _NO_VALUES),
    Refusal(
        "nodes: a bad value", _nodes("a", "In", "b c"), f"{_BY_NODE}.matchExpressions[0].values[0]", "should match"
    ),
    Refusal(
        "nodes: a bad operator under OnDelete",
        {"spec.updateStrategy.type": "OnDelete", **_nodes("a", "Lt", "1")},
        f"{_BY_NODE}.matchExpressions[0].operator",
        'Unsupported value: "Lt"',
    ),
)
