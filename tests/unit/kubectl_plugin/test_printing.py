"""Whole objects as kubectl prints them."""

from __future__ import annotations

import json

import yaml

from controller.api.base import JSONObject
from kubectl_plugin.flags import Output
from kubectl_plugin.printing import as_text

DOCUMENT: JSONObject = {
    "kind": "DaemonSet",
    "apiVersion": "apps.kruise.io/v1beta1",
    "metadata": {"name": "demo", "managedFields": [{"manager": "x"}]},
    "spec": {"list": ["a"], "words": "größer", "time": "2026-01-01T00:00:00Z", "none": None, "yes": "yes"},
}
SHOWN = {**DOCUMENT, "metadata": {"name": "demo"}}


def test_json_and_yaml_say_the_same_without_managed_fields() -> None:
    assert json.loads(as_text(DOCUMENT, Output.JSON)) == SHOWN
    assert yaml.safe_load(as_text(DOCUMENT, Output.YAML)) == SHOWN


def test_yaml_looks_like_kubectls() -> None:
    assert as_text(DOCUMENT, Output.YAML).splitlines()[:6] == [
        "apiVersion: apps.kruise.io/v1beta1",
        "kind: DaemonSet",
        "metadata:",
        "  name: demo",
        "spec:",
        "  list:",
    ]


def test_json_is_indented_and_keeps_letters() -> None:
    text = as_text(DOCUMENT, Output.JSON)
    assert text.startswith('{\n    "kind": "DaemonSet",')
    assert "größer" in text


def test_the_document_is_left_as_it_was() -> None:
    as_text(DOCUMENT, Output.JSON)
    assert DOCUMENT["metadata"] == {"name": "demo", "managedFields": [{"manager": "x"}]}
