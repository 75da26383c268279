"""DaemonSets among other documents, and which nodes are shown in which order."""

from __future__ import annotations

import pytest

from controller.api.objects import JSON, JSONObject, Key
from kubectl_plugin.commands.nodes import choice_of, chosen_rows
from kubectl_plugin.errors import CommandError
from kubectl_plugin.rollout.history import daemonset_among
from kubectl_plugin.rollout.survey import Survey, survey
from tests.beds.snapshots import container, detail, snapshot
from tests.beds.worlds import ago, ds, node, pod, served, taint

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
    assert daemonset_among([*OTHERS, wanted], KEY, "x.yaml") is wanted


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
        daemonset_among(objects, KEY, "x.yaml")
    assert (raised.value.message, raised.value.exit_code) == (words, 1)


PODS = (
    pod("node-0", created=ago(50)),
    pod("node-1", created=ago(400)),
    pod("node-3", "v2", created=ago(90)),
    pod("node-4", "v2", created=ago(200), ready=None),
)
RESTARTS = {"node-0": 5, "node-1": 2, "node-3": 7, "node-4": 0}
ORDERS = {
    "update": "node-4 node-3 node-2 node-1 node-0",
    "name": "node-0 node-1 node-2 node-3 node-4",
    "state": "node-3 node-4 node-0 node-1 node-2",
    "restarts": "node-3 node-0 node-1 node-4 node-2",
    "age": "node-1 node-4 node-3 node-0 node-2",
}
"""Each of them is another one, backwards too. node-2 has no pod; of equals the next in the update comes first."""


@pytest.fixture
def five() -> Survey:
    """node-3 is updated, node-4 on the way; node-0 and node-1 are next."""
    details = {one.node: detail(one, container(ready=one.ready, restarts=RESTARTS[one.node])) for one in PODS}
    return survey(snapshot(ds("v2"), pods=PODS, details=details, nodes=5))


@pytest.mark.parametrize("sort", ORDERS)
def test_each_column_has_its_order(five: Survey, sort: str) -> None:
    rows = chosen_rows(five, choice_of("", excluded=False, group=None, sort=sort))
    assert [row.node for row in rows] == ORDERS[sort].split()


EXCLUDED = (node("node-0"), node("node-1", taint("gpu")), node("node-2", taint("gpu")))


@pytest.mark.parametrize(
    ("only", "excluded", "shown"),
    [
        ("", False, "node-0 node-1"),
        ("all", False, "node-0 node-1"),
        ("", True, "node-0 node-1 node-2"),
        ("excluded", False, "node-1 node-2"),
        ("updated", False, "node-0"),
        ("updated", True, "node-0 node-1 node-2"),
        ("UPDATED,failing", False, "node-0"),
    ],
)
def test_nodes_without_need_of_a_pod_are_shown_when_asked_for(only: str, excluded: bool, shown: str) -> None:
    """node-2 has none, and node-1 has one that will go."""
    seen = survey(snapshot(ds(), pods=served("node-0", "node-1"), nodes=EXCLUDED))
    rows = chosen_rows(seen, choice_of(only, excluded=excluded, group=None, sort="update"))
    assert [row.node for row in rows] == shown.split()
