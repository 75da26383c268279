"""Label and field selectors as they stand in a query."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from tests.beds.simulator.objects import Kind, Object
from tests.beds.simulator.refusal import bad_request

Test: TypeAlias = Callable[[Object], bool]

_SET = re.compile(r"^\s*(?P<key>[^\s,!=]+)\s+(?P<not>not)?in\s*\((?P<values>[^)]*)\)\s*$")
_EQUAL = re.compile(r"^\s*(?P<key>[^\s!=]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s!=]*)\s*$")
_EXISTS = re.compile(r"^\s*(?P<not>!)?\s*(?P<key>[^\s!=()]+)\s*$")

FIELDS: dict[str, tuple[str, ...]] = {
    "pods": ("spec.nodeName", "status.phase", "spec.restartPolicy", "spec.schedulerName", "status.podIP"),
    "nodes": ("spec.unschedulable",),
    "events": ("involvedObject.name", "involvedObject.namespace", "involvedObject.kind", "involvedObject.uid",
               "reason", "type"),
}  # fmt: skip
"""Which fields a field selector may name, besides metadata.name and metadata.namespace."""


def selector(kind: Kind, labels: str, fields: str) -> Test | None:
    """A test that holds for the selected objects; None selects all. Raises 400 for what cannot be read."""
    tests = [_label_test(part) for part in _split(labels)]
    tests += [_field_test(kind, part) for part in _split(fields)]
    if not tests:
        return None
    return lambda found: all(test(found) for test in tests)


def _split(text: str) -> list[str]:
    """The comma-separated requirements; commas inside brackets do not separate."""
    return [part for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def _labels(found: Object) -> dict[str, str]:
    return found["metadata"].get("labels") or {}


def _label_test(text: str) -> Test:
    if match := _SET.match(text):
        key, values = match["key"], {value.strip() for value in match["values"].split(",")}
        if match["not"]:
            return lambda found: _labels(found).get(key) not in values
        return lambda found: _labels(found).get(key) in values
    if match := _EQUAL.match(text):
        key, value = match["key"], match["value"]
        if match["operator"] == "!=":
            return lambda found: _labels(found).get(key) != value
        return lambda found: _labels(found).get(key) == value
    if match := _EXISTS.match(text):
        key = match["key"]
        if match["not"]:
            return lambda found: key not in _labels(found)
        return lambda found: key in _labels(found)
    raise bad_request(f"unable to parse requirement: {text}")


def _field_test(kind: Kind, text: str) -> Test:
    match = _EQUAL.match(text)
    if not match:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    path, value = match["key"], match["value"]
    known = ("metadata.name", "metadata.namespace", *FIELDS.get(kind.plural, ()))
    if path not in known:
        raise bad_request(f"field label not supported: {path}")
    segments = path.split(".")
    if match["operator"] == "!=":
        return lambda found: _text(found, segments) != value
    return lambda found: _text(found, segments) == value


def _text(found: Any, segments: list[str]) -> str:
    for segment in segments:
        found = found.get(segment) if isinstance(found, dict) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    return "" if found is None else str(found)
