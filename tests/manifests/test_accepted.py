"""What the CRD must let through, what it fills in, and what it must not touch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from controller.api.objects import JSON, JSONObject
from tests.beds.manifests import MANIFESTS, SAMPLES
from tests.manifests.conftest import Store
from tests.manifests.objects import POD, ROLLING, container, daemonset
from tests.manifests.server import JSON_PATCH, MERGE_PATCH, Server, daemonsets

pytestmark = pytest.mark.real

MANUAL = MANIFESTS.parent / "docs" / "progressive-rollouts.md"
RECIPES = re.findall(r"```yaml\n(updateStrategy:.*?)```", MANUAL.read_text(), re.DOTALL)[-3:]
HOOK = "spec.lifecycle.preDelete"
PORT: JSON = [container(ports=[{"containerPort": 53, "hostPort": 53}])]
SELECTOR: JSON = {"matchLabels": {}, "matchExpressions": [{"key": "a.io/b", "operator": "Exists"}]}

ACCEPTED: tuple[Mapping[str, object], ...] = (
    {},
    {f"{ROLLING}.maxUnavailable": "50%"},
    {f"{ROLLING}.maxUnavailable": "100%"},
    {f"{ROLLING}.maxUnavailable": "07%"},
    {f"{ROLLING}.maxUnavailable": 10_000},
    {f"{ROLLING}.maxUnavailable": 0, f"{ROLLING}.maxSurge": 2},
    {f"{ROLLING}.maxSurge": 2},
    {f"{ROLLING}.maxSurge": 0, f"{ROLLING}.maxUnavailable": "1%"},
    {f"{ROLLING}.partition": 5},
    {f"{ROLLING}.partition": "0%"},
    {f"{ROLLING}.selector": {}},
    {f"{ROLLING}.selector": SELECTOR},
    {f"{ROLLING}.rollingUpdateType": "Surging", f"{ROLLING}.maxSurge": 1},
    {f"{ROLLING}.rollingUpdateType": "Surging"},
    {f"{ROLLING}.rollingUpdateType": "Surging", f"{ROLLING}.maxUnavailable": 0},
    {f"{ROLLING}.rollingUpdateType": "InPlaceIfPossible", f"{ROLLING}.maxUnavailable": 2},
    {f"{ROLLING}.rollingUpdateType": ""},
    {"spec.updateStrategy.type": ""},
    {"spec.updateStrategy": {"type": "RollingUpdate"}},
    {"spec.updateStrategy": {"type": "OnDelete"}},
    {"spec.updateStrategy": None, "spec.lifecycle": None, "spec.minReadySeconds": None},
    {"spec.revisionHistoryLimit": 0},
    {"spec.revisionHistoryLimit": 10},
    {"spec.burstReplicas": 1},
    {"spec.burstReplicas": "1%"},
    {"spec.burstReplicas": "100%"},
    {"spec.scaleStrategy.partitionedScaling": True},
    {f"{POD}.restartPolicy": "Always"},
    {f"{POD}.containers": PORT},
    {f"{POD}.containers": PORT, f"{ROLLING}.maxSurge": 1, "spec.updateStrategy.type": "OnDelete"},
    {f"{POD}.initContainers": [container(name="i", ports=[{"hostPort": 53}])], f"{ROLLING}.maxSurge": 1},
    {f"{POD}.hostNetwork": True, f"{ROLLING}.maxSurge": 1},
    {f"{HOOK}.labelsHandler": {"tier": "a"}},
    {f"{HOOK}.finalizersHandler": ["example.io/unready-blocker"]},
    {f"{HOOK}.labelsHandler": {"hold": "true"}},
    {f"{HOOK}.labelsHandler": {"tier": "b"}},
    {f"{HOOK}.labelsHandler": {f"label-{number}": "v" * 100 for number in range(200)}},
    {f"{HOOK}.finalizersHandler": [f"example.io/blocker-{number}" for number in range(200)]},
    {f"{HOOK}.markPodNotReady": True},
    {f"{HOOK}.markPodNotReady": True, f"{POD}.readinessGates": [{"conditionType": "InPlaceUpdateReady"}]},
    {f"{HOOK}.markPodNotReady": True, f"{POD}.readinessGates": [{"conditionType": "KruisePodReady"}]},
    {"spec.selector.matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]},
    {"spec.selector.matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]},
    {"spec.selector.matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]},
    {"spec.selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
    {"metadata.name": "a" * 242},
    {f"{ROLLING}.order": [{"matchLabels": {"pool": "canary"}}, {"groupBy": "topology.kubernetes.io/zone"}]},
    {f"{ROLLING}.topology": {"key": "topology.kubernetes.io/zone", "maxUnavailable": "10%", "maxDomains": 1}},
    {f"{ROLLING}.topology": {"key": "zone", "maxUnavailable": 2}},
    {f"{ROLLING}.unreachableNodes": {"leaveOut": "5%"}},
    {f"{ROLLING}.onFailure": {"unavailableNodes": "5%", "after": "5m", "restarts": 3, "action": "Pause"}},
    {f"{ROLLING}.onFailure": {"restarts": 3, "action": "RollBack"}},
    {
        f"{ROLLING}.steps": [
            {"nodes": 1, "soak": "1h30m"},
            {"nodes": "10%", "approval": "Required"},
            {"nodes": "100%"},
        ]
    },
    {
        f"{ROLLING}.steps": [{"nodes": 1}],
        f"{ROLLING}.onFailure": {"action": "RollBack"},
        f"{ROLLING}.checks": [
            {"name": "a", "query": 'sum(rate(x{namespace="$namespace",pod=~"$pods",rev="$revision"}[5m])) > 5'},
            {"name": "0-b", "query": """y{a=~"$name$pods.*$", b="$$x"} == 1 # $$name $"""},
            {"name": "c" * 63, "query": "\n" * 4096},
        ],
    },
    {f"{ROLLING}.checks": []},
    {f"{ROLLING}.steps": [{"nodes": 1, "soak": soak} for soak in ("0s", "720h", "2592000s", "1.5h", "100ms")]},
)


@pytest.mark.parametrize("changes", ACCEPTED, ids=str)
def test_the_server_accepts(server: Server, changes: Mapping[str, object]) -> None:
    server.try_out(daemonset(changes)).accepted()


@pytest.mark.parametrize("recipe", RECIPES, ids=["log agent", "network", "GPU driver"])
def test_the_server_accepts_the_recipes_of_the_manual(server: Server, recipe: str) -> None:
    server.try_out(daemonset({"spec.updateStrategy": yaml.safe_load(recipe)["updateStrategy"]})).accepted()


@pytest.mark.parametrize(
    "changes",
    [
        {f"{POD}.containers": [container(image="agent:2")], "spec.template.metadata.labels.tier": "b"},
        {f"{ROLLING}.maxUnavailable": 2},
        {"spec.updateStrategy": {"type": "OnDelete"}},
        {f"{HOOK}.labelsHandler": {"tier": "a"}},
        {"spec.burstReplicas": "10%", "spec.minReadySeconds": 9, "spec.revisionHistoryLimit": 3},
        {"spec.scaleStrategy.partitionedScaling": True},
    ],
    ids=str,
)
def test_everything_but_the_selector_may_change(server: Server, store: Store, changes: Mapping[str, object]) -> None:
    store(daemonset())
    server.ask("PATCH", f"{daemonsets()}/agent", daemonset(changes), MERGE_PATCH).accepted()


def test_no_legal_object_is_too_costly_for_the_rules(server: Server) -> None:
    prefix = ".".join(letter * 60 for letter in "abcd")
    labels: JSONObject = {f"{prefix}/{number:063}": "v" * 63 for number in range(100)}
    values: list[JSON] = [f"{number:063}" for number in range(100)]
    selector: JSONObject = {
        "matchLabels": labels,
        "matchExpressions": [{"key": key, "operator": "NotIn", "values": values} for key in list(labels)[:50]],
    }
    ports: list[JSON] = [{"containerPort": number} for number in range(1, 101)]
    changes = {
        "spec.selector": selector,
        "spec.template.metadata.labels": labels,
        f"{POD}.containers": [container(name=f"c{number}", ports=ports) for number in range(250)],
        f"{ROLLING}.maxSurge": 1,
        f"{ROLLING}.selector": selector,
        f"{HOOK}.labelsHandler": labels,
    }
    server.try_out(daemonset(changes)).accepted()


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_the_server_accepts_each_sample(server: Server, path: Path) -> None:
    server.try_out(yaml.safe_load(path.read_text())).accepted()


FILLED_IN: JSONObject = {"rollingUpdateType": "Standard", "partition": 0}


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        (
            {"rollingUpdate": {"maxSurge": 2}},
            {"type": "RollingUpdate", "rollingUpdate": {**FILLED_IN, "maxSurge": 2}},
        ),
        ({"type": "OnDelete"}, {"type": "OnDelete", "rollingUpdate": FILLED_IN}),
        (
            {"rollingUpdate": None},
            {"type": "RollingUpdate", "rollingUpdate": FILLED_IN},
        ),
        (
            {"rollingUpdate": {"rollingUpdateType": "Surging"}},
            {"type": "RollingUpdate", "rollingUpdate": {**FILLED_IN, "rollingUpdateType": "Surging"}},
        ),
    ],
)
def test_the_number_that_is_not_given_stays_absent(server: Server, given: JSON, becomes: JSON) -> None:
    spec = server.try_out(daemonset({"spec.updateStrategy": given})).accepted().body["spec"]
    assert isinstance(spec, dict)
    assert spec["updateStrategy"] == becomes


def test_counts_read_zero_before_a_status_is_written(store: Store) -> None:
    status = store(daemonset())["status"]
    assert isinstance(status, dict)
    assert set(status.values()) == {0}
    assert {"desiredNumberScheduled", "numberAvailable"} <= status.keys()
    assert "observedGeneration" in status, "kstatus takes an object that says nothing for done"


def test_conditions_of_others_survive_in_full(server: Server, store: Store) -> None:
    store(daemonset())
    foreign: JSONObject = {
        "type": "StatusUpdate",
        "status": "True",
        "reason": "E2E",
        "lastTransitionTime": None,
        "heartbeat": "x",
    }
    path = f"{daemonsets()}/agent/status"
    server.ask("PATCH", path, {"status": {"conditions": [foreign]}}, MERGE_PATCH).accepted()
    ours: JSON = [
        {"op": "add", "path": "/status/conditions/-", "value": {"type": "Progressing", "status": "Unknown"}}
    ]
    status = server.ask("PATCH", path, ours, JSON_PATCH).accepted().body["status"]
    assert isinstance(status, dict)
    assert status["conditions"] == [
        {"type": "StatusUpdate", "status": "True", "reason": "E2E", "heartbeat": "x"},
        {"type": "Progressing", "status": "Unknown"},
    ]
