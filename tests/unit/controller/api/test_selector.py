"""Selectors: every operator, every error."""

from __future__ import annotations

import pytest

from controller.api.selector import LabelSelector, Requirement, as_text, parse, requirement
from tests.beds.worlds import matching, where

BLUE = {"color": "blue"}


@pytest.mark.parametrize(
    ("selector", "matched", "unmatched"),
    [
        (LabelSelector(), {}, None),
        (matching(color="blue"), BLUE, {"color": "green"}),
        (matching(color=""), {"color": ""}, {}),
        (where("color", "In", "blue", "red"), BLUE, {}),
        (where("color", "NotIn", "blue"), {}, BLUE),
        (where("color", "Exists"), {"color": ""}, {"colour": "blue"}),
        (where("color", "DoesNotExist"), {}, BLUE),
        (where("demo.io/color", "Exists"), {"demo.io/color": "x"}, {}),
    ],
)
def test_operators(selector: LabelSelector, matched: dict[str, str], unmatched: dict[str, str] | None) -> None:
    matches = parse(selector)
    assert matches(matched)
    assert unmatched is None or not matches(unmatched)


def test_all_parts_must_match() -> None:
    both = LabelSelector(
        match_labels={"app": "demo"}, match_expressions=(Requirement(key="tier", operator="In", values=("a",)),)
    )
    matches = parse(both)
    assert matches({"app": "demo", "tier": "a", "more": "x"})
    assert not matches({"app": "demo"})
    assert not matches({"tier": "a"})


@pytest.mark.parametrize(
    ("operator", "bound", "value", "expected"),
    [
        ("Gt", "8", "9", True),
        ("Gt", "8", "8", False),
        ("Gt", "-3", "-2", True),
        ("Lt", "8", "7", True),
        ("Lt", "8", "8", False),
        ("Lt", "8", "many", False),
        ("Gt", "8", "1_000", False),
        ("Gt", "8", "1.5e3", False),
    ],
)
def test_numbers_are_compared_as_numbers(operator: str, bound: str, value: str, expected: bool) -> None:
    test = requirement(Requirement(key="cores", operator=operator, values=(bound,)))
    assert test({"cores": value}) is expected
    assert not test({}), "a missing label is no number"


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Requirement(key="color", operator="In"), "operator In on 'color' needs at least one value"),
        (Requirement(key="color", operator="NotIn", values=()), "operator NotIn on 'color' needs at least one value"),
        (Requirement(key="color", operator="Exists", values=("x",)), "operator Exists on 'color' takes no values"),
        (Requirement(key="color", operator="DoesNotExist", values=("x",)), "takes no values"),
        (Requirement(key="color", operator="Near", values=("x",)), "operator 'Near' on 'color' is not one of"),
        (Requirement(key="color", operator=""), "operator '' on 'color' is not one of"),
        (Requirement(key="cores", operator="Gt", values=("many",)), "needs exactly one whole number"),
        (Requirement(key="cores", operator="Lt", values=("1", "2")), "needs exactly one whole number"),
        (Requirement(key="cores", operator="Gt"), "needs exactly one whole number"),
        (Requirement(key="", operator="Exists"), "'' is not a label key"),
        (Requirement(key="a b", operator="Exists"), "'a b' is not a label key"),
        (Requirement(key="/a", operator="Exists"), "'/a' is not a label key"),
        (Requirement(key="Demo.io/a", operator="Exists"), "is not a label key"),
        (Requirement(key="a" * 64, operator="Exists"), "is not a label key"),
    ],
)
def test_what_the_server_would_refuse_is_named(broken: Requirement, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        requirement(broken)


def test_all_requirements_have_to_hold() -> None:
    both = (Requirement(key="color", operator="Exists"), Requirement(key="old", operator="DoesNotExist"))
    matches = parse(LabelSelector(match_labels={"app": "demo"}, match_expressions=both))
    assert matches({"app": "demo", "color": "blue"})
    assert not matches({"app": "demo", "color": "blue", "old": ""})
    assert not matches({"app": "demo"})
    assert not matches({"color": "blue"})


def test_gt_belongs_to_node_affinity_only() -> None:
    with pytest.raises(ValueError, match="belongs to node affinity only"):
        parse(where("cores", "Gt", "1"))


def test_keys_of_match_labels_are_checked_too() -> None:
    with pytest.raises(ValueError, match="'no key' is not a label key"):
        parse(LabelSelector(match_labels={"no key": "x"}))


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (LabelSelector(), "<none>"),
        (matching(b="2", a="1"), "a=1,b=2"),
        (where("tier", "In", "b", "a"), "tier in (a,b)"),
        (where("tier", "NotIn", "a"), "tier notin (a)"),
        (where("tier", "Exists"), "tier"),
        (where("tier", "DoesNotExist"), "!tier"),
        (where("tier", "Near", "x"), "tier Near x"),
    ],
)
def test_text_is_what_kubectl_prints(selector: LabelSelector, text: str) -> None:
    assert as_text(selector) == text


def test_empty_means_that_it_would_select_everything() -> None:
    assert LabelSelector(match_labels={}, match_expressions=()).empty
    assert not matching(a="1").empty
    assert not where("a", "Exists").empty
