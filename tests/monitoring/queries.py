"""The queries of rules and dashboards, and what each of them reads: metrics and labels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from tests.beds.manifests import MANIFESTS

VARIABLES = {
    "$cluster": ".*",
    "$namespace": ".*",
    "$daemonset": ".*",
    "$instance": ".*",
    "$__rate_interval": "10s",
    "$__range": "60s",
}
"""What Grafana puts in where everything is chosen, for a scrape every second."""

WORDS = frozenset(
    ("and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset")
)
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"\b([a-zA-Z_:][\w:]*)\s*(?:\{([^}]*)\})?(\()?")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*""')


class Asked(NamedTuple):
    """One query and where it stands."""

    place: str
    expression: str


class Reads(NamedTuple):
    """What an expression reads: each metric with the labels that are matched on it, and the labels it groups by."""

    metrics: dict[str, set[str]]
    groups: set[str]


def reads(expression: str) -> Reads:
    """No parser of PromQL (promtool is): enough for expressions whose metric names are written out."""
    expression = _TEXT.sub('""', expression)
    groups = {label.strip() for found in _GROUPING.findall(expression) for label in found.split(",") if label.strip()}
    metrics: dict[str, set[str]] = {}
    rest = re.sub(r"\[[^\]]*\]", "", _GROUPING.sub("", expression))
    for name, matchers, opening in _SELECTOR.findall(rest):
        if not opening and name not in WORDS:
            metrics.setdefault(name, set()).update(_MATCHER.findall(matchers))
    return Reads(metrics, groups)


def filled_in(expression: str) -> str:
    """As Grafana sends it."""
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression


def of_rules() -> list[Asked]:
    return [Asked(str(rule.get("alert") or rule["record"]), rule["expr"]) for rule in _rules()]


def recorded() -> dict[str, set[str]]:
    """What the rules themselves record: name to labels."""
    return {str(rule["record"]): reads(rule["expr"]).groups for rule in _rules() if "record" in rule}


def _rules() -> list[Any]:
    groups = yaml.safe_load((MANIFESTS / "alerts" / "rules.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def of_dashboards() -> list[Asked]:
    """Of panels and annotations, as Grafana sends them."""
    return [
        Asked(place, filled_in(expression))
        for name, document in documents().items()
        for place, expression in _expressions(name, document)
    ]


def of_variables() -> list[tuple[str, str, str]]:
    """(place, selector, label): what each variable of the dashboards offers."""
    found = []
    for name, document in documents().items():
        for variable in document["templating"]["list"]:
            if variable["type"] == "query":
                parts = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
                assert parts, f"{name}: variable {variable['name']}"
                found.append((f"{name}: ${variable['name']}", filled_in(parts[1]), parts[2]))
    return found


def documents() -> dict[str, Any]:
    """The dashboards, by file name."""
    return {path.name: json.loads(path.read_text()) for path in sorted((MANIFESTS / "grafana").glob("*.json"))}


def _expressions(name: str, document: Any) -> Iterator[tuple[str, str]]:
    for panel in document["panels"]:
        for target in panel.get("targets", ()):
            yield f"{name}: {panel['title'] or panel['type']} {target['refId']}", target["expr"]
    for annotation in document["annotations"]["list"]:
        yield f"{name}: annotation {annotation['name']}", annotation["expr"]
