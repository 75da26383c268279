"""What the CRD may have let in, and what is accepted without being acted on."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, RolloutStep, ScaleStrategy, UnreachableNodes
from controller.api.formats import LONGEST_TEXT
from controller.api.names import INVALID_SPEC, PROGRESSIVE_ANNOTATION
from controller.api.selector import LabelSelector
from controller.planner.plan import plan
from controller.planner.validation import problems
from tests.beds.worlds import check, ds, everywhere, matching, status_in, where, world

HOW_MANY = "is neither a whole number nor a percentage such as 30%"


@pytest.mark.parametrize(
    ("daemonset", "problem"),
    [
        (ds(max_unavailable="3"), f"spec.updateStrategy.rollingUpdate.maxUnavailable: '3' {HOW_MANY}"),
        (ds(max_surge=-1), f"spec.updateStrategy.rollingUpdate.maxSurge: -1 {HOW_MANY}"),
        (ds(partition="half"), f"spec.updateStrategy.rollingUpdate.partition: 'half' {HOW_MANY}"),
        (ds(burst="-5%"), f"spec.burstReplicas: '-5%' {HOW_MANY}"),
        (
            ds(pods=matching(app="other")),
            "spec.selector: does not match spec.template.metadata.labels; its pods would not be found again",
        ),
        (
            ds(rolling={"unreachable_nodes": UnreachableNodes(leave_out="x")}),
            f"spec.updateStrategy.rollingUpdate.unreachableNodes.leaveOut: 'x' {HOW_MANY}",
        ),
        (
            ds(pods=matching(**{"controller-revision-hash": "v1"})),
            "spec.selector: must not ask for controller-revision-hash: "
            "the controller itself writes that label to its pods",
        ),
        (ds(pods=where("app", "In")), "spec.selector: operator In on 'app' needs at least one value"),
    ],
)
def test_a_problem_names_the_field_and_what_would_be_right(daemonset: DaemonSet, problem: str) -> None:
    assert problems(daemonset) == (problem,)


def test_a_broken_update_selector_is_a_problem() -> None:
    broken = ds()
    rolling = broken.rolling_update
    assert rolling is not None
    strategy = replace(
        broken.spec.update_strategy, rolling_update=replace(rolling, selector=where("track", "Near", "x"))
    )
    [problem] = problems(replace(broken, spec=replace(broken.spec, update_strategy=strategy)))
    assert problem.startswith("spec.updateStrategy.rollingUpdate.selector: operator 'Near' on 'track'")


def test_limits_of_a_rolling_update_do_not_matter_on_delete() -> None:
    assert problems(ds(on_delete=True)) == ()


def test_a_soak_may_take_30_days() -> None:
    assert problems(ds(rolling={"steps": (RolloutStep(soak="720h"),)})) == ()


def test_an_empty_selector_is_a_problem() -> None:
    [problem] = problems(ds(pods=LabelSelector(match_labels={}, match_expressions=())))
    assert problem.startswith("spec.selector: must not be empty")


@pytest.mark.parametrize("metadata", [None, {}, {"labels": None}, {"labels": []}])
def test_a_template_without_labels_cannot_match(metadata: object) -> None:
    plain = ds()
    template = {**plain.spec.template, "metadata": metadata}
    [problem] = problems(replace(plain, spec=replace(plain.spec, template=template)))
    assert "does not match" in problem


def test_a_refused_spec_touches_no_pod_and_keeps_the_counts() -> None:
    refused = world(ds("v2", partition="half", generation=4), pods=everywhere(5))
    decided = check(refused)
    assert [note.reason for note in decided.notes] == [INVALID_SPEC]
    assert decided.status is not None
    assert decided.status.counts is None
    assert decided.status.settled
    assert decided.status.observed_generation is None, "nothing could be done with this generation"
    told = {(one.type, one.status, one.reason) for one in decided.status.conditions}
    assert told == {
        ("Progressing", "False", INVALID_SPEC),
        ("Degraded", "True", INVALID_SPEC),
        ("Ready", "False", "Stalled"),
        ("Reconciling", "False", "Stalled"),
        ("Stalled", "True", INVALID_SPEC),
    }
    assert "partition: 'half'" in decided.status.conditions[1].message


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"spec.template.spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"


def term(key: str, operator: str, *values: str, kind: str = "matchExpressions") -> dict[str, Any]:
    return {kind: [{"key": key, "operator": operator, "values": list(values)}]}


def named(operator: str, *values: str, key: str = "metadata.name") -> dict[str, Any]:
    return term(key, operator, *values, kind="matchFields")


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def tolerates(**toleration: str) -> dict[str, Any]:
    return {"tolerations": [{"operator": "Exists"}, toleration]}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (affinity(), f"{TERMS}: needs at least one term"),
        ({"affinity": {"nodeAffinity": {REQUIRED: {}}}}, f"{TERMS}: needs at least one term"),
        (affinity(term("zone", "in", "a")), f"{TERMS}[0].matchExpressions[0].operator: 'in' is not one of In, NotIn"),
        (
            affinity(
                term("zone", "In", "a"), {"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "a"}]}
            ),
            f"{TERMS}[1].matchExpressions[1].operator: '' is not one of In",
        ),
        (affinity(term("my zone", "In", "a")), f"{TERMS}[0].matchExpressions[0].key: 'my zone' is not a label key"),
        (affinity(term("", "In", "a")), f"{TERMS}[0].matchExpressions[0].key: '' is not a label key"),
        (affinity(term("a..b/zone", "Exists")), f"{TERMS}[0].matchExpressions[0].key: 'a..b/zone' is not"),
        (
            affinity(term("zone", "In")),
            f"{TERMS}[0].matchExpressions[0].values: operator In on 'zone' needs at least",
        ),
        (affinity(term("zone", "NotIn", "a", "b c")), f"{TERMS}[0].matchExpressions[0].values: 'b c' is not a label"),
        (affinity(term("zone", "In", "x" * 64)), f"{TERMS}[0].matchExpressions[0].values: 'xxx"),
        (affinity(term("zone", "Exists", "a")), f"{TERMS}[0].matchExpressions[0].values: operator Exists on 'zone'"),
        (affinity(term("cores", "Gt", "8", "9")), f"{TERMS}[0].matchExpressions[0].values: operator Gt on 'cores'"),
        (affinity(term("cores", "Lt", "many")), f"{TERMS}[0].matchExpressions[0].values: operator Lt on 'cores'"),
        (affinity(named("In", "a", key="metadata.uid")), f"{TERMS}[0].matchFields[0].key: 'metadata.uid' is not"),
        (affinity(named("Exists")), f"{TERMS}[0].matchFields[0].operator: 'Exists' is not one of In, NotIn"),
        (affinity(named("In", "a", "b")), f"{TERMS}[0].matchFields[0].values: needs exactly one name"),
        (affinity(named("NotIn", "A_B")), f"{TERMS}[0].matchFields[0].values: 'A_B' is not the name of a node"),
        (tolerates(key="x", operator="exists"), "spec.template.spec.tolerations[1].operator: 'exists' is not one of"),
        (
            tolerates(key="x", operator="Gt", value="5s"),
            "spec.template.spec.tolerations[1].value: '5s' is not a deci",
        ),
        (
            tolerates(key="x", operator="Lt", value="05"),
            "spec.template.spec.tolerations[1].value: '05' is not a deci",
        ),
        (tolerates(operator="Gt", value="5"), "spec.template.spec.tolerations[1].operator: must be Exists when"),
        (tolerates(value="y"), "spec.template.spec.tolerations[1].operator: must be Exists when the key is empty"),
        (tolerates(key="x", effect="noExecute"), "spec.template.spec.tolerations[1].effect: 'noExecute' is not one"),
        (tolerates(key="x y", operator="Exists"), "spec.template.spec.tolerations[1].key: 'x y' is not a label key"),
        (tolerates(key="x", operator="Exists", value="y"), "spec.template.spec.tolerations[1].value: must be empty"),
        (tolerates(key="x", value="-y"), "spec.template.spec.tolerations[1].value: '-y' is not a label value"),
        ({"nodeSelector": {"my zone": "a"}}, "spec.template.spec.nodeSelector: 'my zone' is not a label key"),
        ({"nodeSelector": {"zone": "a b"}}, "spec.template.spec.nodeSelector: 'a b' of 'zone' is not a label value"),
        ({"nodeSelector": "blue"}, "spec.template: Expected `object"),
    ],
)
def test_placement_that_the_server_would_refuse_is_a_problem_of_a_field(spec: dict[str, Any], problem: str) -> None:
    [found] = problems(ds(**spec))
    assert found.startswith(problem)


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": None},
        {"affinity": {"podAffinity": {}, "nodeAffinity": None}},
        affinity({}),
        affinity({}, term("example.com/zone", "NotIn", "a", "")),
        affinity(term("zone", "DoesNotExist"), term("cores", "Gt", "8"), term("cores", "Lt", "0")),
        affinity(named("In", "node-0.example.com"), named("NotIn", "node-1")),
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
        tolerates(operator="Exists"),
        tolerates(operator="Exists", effect="NoExecute"),
        tolerates(key="sla", operator="Gt", value="-950"),
        tolerates(key="x"),
        tolerates(key="example.com/x", operator="Equal", value="y", effect="PreferNoSchedule"),
        {"nodeSelector": {"example.com/zone": "", "disk": "ssd"}, "tolerations": None},
    ],
)
def test_placement_that_can_be_read_is_no_problem(spec: dict[str, Any]) -> None:
    assert problems(ds(**spec)) == ()


def test_a_slip_of_the_pen_in_the_affinity_deletes_no_pod() -> None:
    mistyped = world(ds("v2", generation=4, **affinity(term("zone", "in", "a"))), pods=everywhere(5))
    decided = check(mistyped)
    assert decided.actions == ()
    assert [note.reason for note in decided.notes] == [INVALID_SPEC]


def test_partitioned_scaling_is_the_field_else_the_annotation() -> None:
    annotated = ds(annotations={PROGRESSIVE_ANNOTATION: "true"})
    assert annotated.partitioned_scaling
    said_no = replace(
        annotated, spec=replace(annotated.spec, scale_strategy=ScaleStrategy(partitioned_scaling=False))
    )
    assert not said_no.partitioned_scaling
    silent = replace(annotated, spec=replace(annotated.spec, scale_strategy=ScaleStrategy()))
    assert silent.partitioned_scaling
    assert not ds(annotations={PROGRESSIVE_ANNOTATION: "yes"}).partitioned_scaling


def test_thousands_of_problems_are_reported_in_few_words_with_their_number() -> None:
    wrong = {f"bad key {number:05}": "x" for number in range(30_000)}
    decided = plan(world(ds(nodeSelector=wrong)))
    told = [note.message for note in decided.notes] + [one.message for one in status_in(decided).conditions]
    assert all(len(text) <= LONGEST_TEXT for text in told), [len(text) for text in told]
    assert any("bad key 00000" in text and "and 29,995 more" in text for text in told)
    assert len(status_in(decided).columns.node_selector) <= LONGEST_TEXT


def test_one_endless_key_is_reported_in_few_words() -> None:
    decided = plan(world(ds(nodeSelector={"bad key " * 100_000: "x"})))
    assert max(len(one.message) for one in status_in(decided).conditions) <= LONGEST_TEXT
