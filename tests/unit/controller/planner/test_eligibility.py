"""Which nodes should run the pod."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.node import Node, Taint
from controller.planner.node_fit import Fit, Rules, daemon_tolerations
from tests.beds.worlds import matching, node, taint, template, where

BLUE = {"color": "blue"}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def wants(key: str, operator: str, *values: str, field: bool = False) -> dict[str, Any]:
    kind = "matchFields" if field else "matchExpressions"
    return {kind: [{"key": key, "operator": operator, "values": list(values)}]}


EITHER = {"affinity": required(wants("zone", "In", "test"), wants("metadata.name", "In", "node-1", field=True))}
"""The terms of an affinity are alternatives."""


def fit(node_: Node, **spec: Any) -> Fit:
    return Rules(template("v1", **spec)).fit(node_)


@pytest.mark.parametrize(
    ("spec", "node_", "expected"),
    [
        ({}, node("a"), Fit.RUN),
        ({"nodeName": "b"}, node("a"), Fit.LEAVE),
        ({"nodeName": "a"}, node("a"), Fit.RUN),
        ({"nodeSelector": BLUE}, node("a"), Fit.LEAVE),
        ({"nodeSelector": BLUE}, node("a", labels={"color": "green"}), Fit.LEAVE),
        ({"nodeSelector": BLUE}, node("a", labels=BLUE), Fit.RUN),
        ({"affinity": required(wants("color", "In", "blue", "red"))}, node("a", labels=BLUE), Fit.RUN),
        ({"affinity": required(wants("color", "NotIn", "blue"))}, node("a", labels=BLUE), Fit.LEAVE),
        ({"affinity": required(wants("color", "NotIn", "blue"))}, node("a"), Fit.RUN),
        ({"affinity": required(wants("color", "Exists"))}, node("a"), Fit.LEAVE),
        ({"affinity": required(wants("color", "DoesNotExist"))}, node("a"), Fit.RUN),
        ({"affinity": required(wants("cores", "Gt", "8"))}, node("a", labels={"cores": "16"}), Fit.RUN),
        ({"affinity": required(wants("cores", "Lt", "8"))}, node("a", labels={"cores": "16"}), Fit.LEAVE),
        ({"affinity": required(wants("metadata.name", "In", "a", field=True))}, node("a"), Fit.RUN),
        ({"affinity": required(wants("metadata.name", "In", "b", field=True))}, node("a"), Fit.LEAVE),
        ({"affinity": required(wants("metadata.uid", "NotIn", "a", field=True))}, node("a"), Fit.LEAVE),
        ({"nodeSelector": BLUE, "affinity": required(wants("x", "Exists"))}, node("a", labels=BLUE), Fit.LEAVE),
        ({"affinity": required()}, node("a"), Fit.LEAVE),
        ({"affinity": {"podAffinity": {}}}, node("a"), Fit.RUN),
        ({"affinity": {"nodeAffinity": {}}}, node("a"), Fit.RUN),
        (EITHER, node("node-0", labels={"zone": "test"}), Fit.RUN),
        (EITHER, node("node-1"), Fit.RUN),
        (EITHER, node("node-2"), Fit.LEAVE),
    ],
)
def test_name_labels_and_affinity(spec: dict[str, Any], node_: Node, expected: Fit) -> None:
    assert fit(node_, **spec) is expected


@pytest.mark.parametrize(
    "term",
    [
        {},
        wants("color", "Near", "blue"),
        wants("color", "In"),
        wants("spec.podCIDR", "In", "a", field=True),
    ],
)
def test_a_broken_or_empty_term_matches_no_node_and_the_others_still_count(term: dict[str, Any]) -> None:
    assert fit(node("a"), affinity=required(term)) is Fit.LEAVE
    assert fit(node("a"), affinity=required(term, wants("color", "DoesNotExist"))) is Fit.RUN


@pytest.mark.parametrize(
    ("taints", "expected"),
    [
        ([taint("x", "NoSchedule")], Fit.STAY),
        ([taint("x", "NoExecute")], Fit.LEAVE),
        ([taint("x", "NoSchedule"), taint("y", "NoExecute")], Fit.LEAVE),
        ([taint("x", "NoExecute"), taint("y", "NoSchedule")], Fit.LEAVE),
        ([taint("x", "PreferNoSchedule")], Fit.RUN),
    ],
)
def test_untolerated_taints(taints: list[Taint], expected: Fit) -> None:
    assert fit(node("a", *taints)) is expected


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"key": "x", "operator": "Equal", "value": "1", "effect": "NoSchedule"}, Fit.RUN),
        ({"key": "x", "value": "1"}, Fit.RUN),
        ({"key": "x", "operator": "Exists"}, Fit.RUN),
        ({"operator": "Exists"}, Fit.RUN),
        ({"key": "x", "value": "2"}, Fit.STAY),
        ({"key": "y", "operator": "Exists"}, Fit.STAY),
        ({"key": "x", "operator": "Exists", "effect": "NoExecute"}, Fit.STAY),
        ({"key": "x", "operator": "About", "value": "1"}, Fit.STAY),
        ({"value": "1"}, Fit.STAY),
    ],
)
def test_a_toleration_of_the_template(toleration: dict[str, str], expected: Fit) -> None:
    assert fit(node("a", taint("x", "NoSchedule", "1")), tolerations=[toleration]) is expected


@pytest.mark.parametrize(
    ("tainted", "operator", "value", "tolerated"),
    [
        ("951", "Gt", "950", True),
        ("950", "Gt", "950", False),
        ("-951", "Lt", "-950", True),
        ("-950", "Lt", "-950", False),
        (str(2**63 - 1), "Gt", "0", True),
        (str(2**63), "Gt", "0", False),
        ("0951", "Gt", "950", False),
        ("+951", "Gt", "950", False),
        ("٩٥١", "Gt", "950", False),
        ("", "Lt", "950", False),
        ("gold", "Gt", "950", False),
        ("951", "Gt", "gold", False),
    ],
)
def test_numbers_are_compared_with_the_value_of_the_taint(
    tainted: str, operator: str, value: str, tolerated: bool
) -> None:
    """As `ToleratesTaint` of Kubernetes 1.35 does where comparison operators are enabled."""
    toleration = {"key": "sla", "operator": operator, "value": value}
    verdict = fit(node("a", taint("sla", "NoSchedule", tainted)), tolerations=[toleration])
    assert verdict is (Fit.RUN if tolerated else Fit.STAY)


@pytest.mark.parametrize(
    "key", ["disk-pressure", "memory-pressure", "pid-pressure", "unschedulable", "not-ready", "unreachable"]
)
def test_what_every_daemon_pod_tolerates(key: str) -> None:
    effect = "NoExecute" if key in ("not-ready", "unreachable") else "NoSchedule"
    assert fit(node("a", taint(f"node.kubernetes.io/{key}", effect))) is Fit.RUN


def test_only_the_network_taint_counts_and_host_network_tolerates_it() -> None:
    down = node("a", taint("node.kubernetes.io/network-unavailable"))
    assert fit(node("a")) is Fit.RUN, "conditions of a node are not even cached"
    assert fit(down) is Fit.STAY
    assert fit(down, hostNetwork=True) is Fit.RUN


def test_six_automatic_tolerations_and_a_seventh_on_the_host_network() -> None:
    assert len(daemon_tolerations(host_network=False)) == 6
    assert [one.key for one in daemon_tolerations(host_network=True)[6:]] == [
        "node.kubernetes.io/network-unavailable"
    ]


def test_what_changes_the_verdict_about_a_node() -> None:
    rules = Rules(template("v1", nodeSelector=BLUE), matching(canary="yes"))
    plain, blue = node("a"), node("a", labels=BLUE)
    assert not plain.same_placement(blue)
    assert rules.fit(plain) is not rules.fit(blue)
    assert rules.selects(blue) is not rules.selects(node("a", labels={**BLUE, "canary": "yes"}))
    assert rules.fit(node("a", taint("x"), labels=BLUE)) is Fit.STAY


def test_a_heartbeat_changes_nothing() -> None:
    assert node("a").same_placement(replace(node("a"), version="2"))
    assert not node("a").same_placement(replace(node("a"), uid="another")), "a new machine under an old name"


def test_verdicts_are_remembered_for_the_very_same_nodes_only() -> None:
    rules = Rules(template("v1", nodeSelector=BLUE), where("color", "Exists"))
    nodes = (node("a"), node("b", labels=BLUE))
    assert rules.evaluate(nodes).fits == (Fit.LEAVE, Fit.RUN)
    assert rules.evaluate(nodes).selected == (False, True)
    assert rules.evaluate(nodes) is rules.evaluate(nodes)
    later = (node("a", labels=BLUE), node("b"))
    assert rules.evaluate(later).fits == (Fit.RUN, Fit.LEAVE)
    assert rules.evaluate(later).selected == (True, False)


def test_a_broken_update_selector_is_refused_when_the_rules_are_compiled() -> None:
    with pytest.raises(ValueError, match="Near"):
        Rules(template("v1"), where("color", "Near"))
