"""One DaemonSet's pod template among the objects of a manifest."""

from __future__ import annotations

import pytest

from controller.api.base import JSON, JSONObject
from controller.api.meta import Key
from kubectl_plugin.failures import CommandError
from kubectl_plugin.report.revisions.comparison import template_among

KEY = Key("obs", "agent")
TEMPLATE: JSONObject = {"spec": {"containers": []}}


def manifest(
    api: str = "apps.kruise.io/v1beta1", name: str = "agent", *, kind: str = "DaemonSet", **meta: JSON
) -> JSONObject:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **meta}, "spec": {"template": TEMPLATE}}


OTHERS: tuple[JSONObject, ...] = (
    manifest(name="other"),
    manifest(namespace="prod"),
    manifest("apps/v1", kind="Deployment"),
    manifest("example.com/v1"),
    {"kind": "ConfigMap"},
    {},
)


@pytest.mark.parametrize(
    "wanted",
    [manifest(), manifest("apps.kruise.io/v1alpha1"), manifest("apps/v1"), manifest(namespace="obs")],
)
def test_found_among_others(wanted: JSONObject) -> None:
    assert template_among([*OTHERS, wanted], KEY, "x.yaml") == TEMPLATE


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ([], 'x.yaml has no DaemonSet "agent" for namespace "obs"; it has: nothing'),
        (
            OTHERS,
            'x.yaml has no DaemonSet "agent" for namespace "obs"; it has: DaemonSet other, DaemonSet prod/agent,'
            " Deployment agent, DaemonSet agent, ConfigMap, something without a kind",
        ),
        ([manifest(), manifest("apps/v1")], 'x.yaml has DaemonSet "agent" for namespace "obs" 2 times'),
        ([{**manifest(), "spec": None}], 'DaemonSet "agent" for namespace "obs" in x.yaml has no spec.template'),
    ],
)
def test_not_found(objects: tuple[JSONObject, ...], words: str) -> None:
    with pytest.raises(CommandError) as raised:
        template_among(objects, KEY, "x.yaml")
    assert (raised.value.message, raised.value.exit_code) == (words, 1)
