"""Label selectors and node affinity requirements, parsed once into functions that match labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from controller.api.objects import Part

Labels: TypeAlias = Mapping[str, str]
Matcher: TypeAlias = Callable[[Labels], bool]

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
"""Stricter than int(), which accepts `1_000`: a valid label value, but not a number in Kubernetes."""


class Requirement(Part, omit_defaults=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class LabelSelector(Part, omit_defaults=True):
    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Requirement, ...] | None = None

    @property
    def empty(self) -> bool:
        return not self.match_labels and not self.match_expressions


def is_label_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return _NAME.fullmatch(name) is not None and (not slash or is_subdomain(prefix))


def is_label_value(value: str) -> bool:
    return not value or _NAME.fullmatch(value) is not None


def is_label(name: str) -> bool:
    """Whether `name` is a DNS label (RFC 1123), such as a namespace."""
    return len(name) <= 63 and _LABEL.fullmatch(name) is not None


def is_subdomain(name: str) -> bool:
    """Whether `name` is a DNS subdomain (RFC 1123), such as a node name."""
    return len(name) <= 253 and _SUBDOMAIN.fullmatch(name) is not None


def requirement(expression: Requirement) -> Matcher:
    """A matcher of one requirement, including Gt and Lt of node affinity. Raises ValueError, naming key and operator,
    for a requirement that the API server refuses."""
    key, values = expression.key, frozenset(expression.values or ())
    if not is_label_key(key):
        raise ValueError(f"{key!r} is not a label key")
    match expression.operator:
        case "In" | "NotIn" if not values:
            raise ValueError(f"operator {expression.operator} on {key!r} needs at least one value")
        case "In":
            return lambda labels: labels.get(key) in values
        case "NotIn":
            return lambda labels: labels.get(key) not in values
        case "Exists" | "DoesNotExist" if values:
            raise ValueError(f"operator {expression.operator} on {key!r} takes no values")
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
        case "Gt" | "Lt":
            return _comparison(expression)
        case unknown:
            known = "In, NotIn, Exists, DoesNotExist, Gt, Lt"
            raise ValueError(f"operator {unknown!r} on {key!r} is not one of {known}")


def _comparison(expression: Requirement) -> Matcher:
    key, greater = expression.key, expression.operator == "Gt"
    values = expression.values or ()
    if len(values) != 1 or not _WHOLE.fullmatch(values[0]):
        raise ValueError(f"operator {expression.operator} on {key!r} needs exactly one whole number")
    bound = int(values[0])

    def compare(labels: Labels) -> bool:
        text = labels.get(key, "")
        if not _WHOLE.fullmatch(text):
            return False
        return int(text) > bound if greater else int(text) < bound

    return compare


def parse(selector: LabelSelector) -> Matcher:
    """Returns a matcher; the empty selector matches everything. Raises ValueError if malformed, or for Gt or Lt."""
    wanted = tuple((selector.match_labels or {}).items())
    for key, _ in wanted:
        if not is_label_key(key):
            raise ValueError(f"{key!r} is not a label key")
    for expression in selector.match_expressions or ():
        if expression.operator in ("Gt", "Lt"):
            raise ValueError(f"operator {expression.operator} on {expression.key!r} belongs to node affinity only")
    tests = tuple(requirement(expression) for expression in selector.match_expressions or ())

    def matches(labels: Labels) -> bool:
        for key, value in wanted:
            if labels.get(key) != value:
                return False
        return all(test(labels) for test in tests)

    return matches


def as_text(selector: LabelSelector) -> str:
    """The selector as kubectl prints it: `app=demo,tier in (a,b)`, or `<none>`."""
    parts = [f"{key}={value}" for key, value in sorted((selector.match_labels or {}).items())]
    for expression in selector.match_expressions or ():
        values = ",".join(sorted(expression.values or ()))
        parts.append(
            {
                "In": f"{expression.key} in ({values})",
                "NotIn": f"{expression.key} notin ({values})",
                "Exists": expression.key,
                "DoesNotExist": f"!{expression.key}",
            }.get(expression.operator, f"{expression.key} {expression.operator} {values}")
        )
    return ",".join(parts) or "<none>"
