"""Documents that are printed."""

from __future__ import annotations

import json

import yaml

from controller.api.objects import JSON, JSONObject
from kubectl_plugin.flags import Output
from kubectl_plugin.terminal import as_text

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


def test_text_that_kubectl_would_read_as_something_else_stands_in_quotes() -> None:
    texts: dict[str, JSON] = {one: one for one in ("yes", "no", "off", "0x1F", "017", "1e3", "~", "plain")}
    values = {line.rpartition(": ")[2] for line in as_text(texts, Output.YAML).splitlines()}
    assert values == {"plain", *(f"'{one}'" for one in texts if one != "plain")}


def test_the_items_of_a_list_have_no_managed_fields() -> None:
    found = json.loads(as_text({"kind": "List", "items": [DOCUMENT]}, Output.JSON))
    assert found["items"] == [SHOWN]


def test_the_document_is_left_as_it_was() -> None:
    as_text(DOCUMENT, Output.JSON)
    assert DOCUMENT["metadata"] == {"name": "demo", "managedFields": [{"manager": "x"}]}
