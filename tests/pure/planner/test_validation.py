"""What an older CRD may have let in, and what is accepted without being acted on (D2, D6; U10)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, ScaleStrategy
from controller.api.selector import LabelSelector
from controller.api.wellknown import INVALID_SPEC, PROGRESSIVE_ANNOTATION
from controller.planner.validation import pending_features, problems
from tests.builders import ds, everywhere, matching, where, world
from tests.pure.planner.picture import check

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


def test_u10_an_empty_selector_is_a_problem() -> None:
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
    assert decided.status.observed_generation is None, "nothing could be done with this generation (D10)"
    told = {(one.type, one.status, one.reason) for one in decided.status.conditions}
    assert told == {("Progressing", "False", INVALID_SPEC), ("Degraded", "True", INVALID_SPEC)}
    assert "partition: 'half'" in decided.status.conditions[1].message


def test_what_is_accepted_but_not_acted_on_is_named() -> None:
    assert pending_features(ds()) == ()
    assert pending_features(ds(on_delete=True)) == ()
    in_place = ds(rolling_update_type="InPlaceIfPossible")
    assert pending_features(in_place) == (
        "rollingUpdateType InPlaceIfPossible: pods are recreated within the budget",
    )


def test_decision_d1_partitioned_scaling_is_the_field_and_only_without_it_the_annotation() -> None:
    annotated = ds(annotations={PROGRESSIVE_ANNOTATION: "true"})
    assert annotated.partitioned_scaling
    said_no = replace(
        annotated, spec=replace(annotated.spec, scale_strategy=ScaleStrategy(partitioned_scaling=False))
    )
    assert not said_no.partitioned_scaling
    silent = replace(annotated, spec=replace(annotated.spec, scale_strategy=ScaleStrategy()))
    assert silent.partitioned_scaling
    assert not ds(annotations={PROGRESSIVE_ANNOTATION: "yes"}).partitioned_scaling
