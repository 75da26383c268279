"""What people see: `kubectl get`, `explain` and the names of the kind."""

from __future__ import annotations

import pytest

from controller.api.base import JSON
from tests.manifests.conftest import Kubectl, Store
from tests.manifests.objects import daemonset
from tests.manifests.server import MERGE_PATCH, Server, daemonsets

pytestmark = pytest.mark.real


def cells(table: str) -> tuple[list[str], list[str]]:
    """Header and first row of a table whose columns are two or more spaces apart."""
    header, row = (
        [cell.strip() for cell in line.strip().replace("   ", "\t").split("\t") if cell.strip()]
        for line in table.splitlines()[:2]
    )
    return header, row


def test_columns_are_native_and_wide_ones_tell_the_rollout(server: Server, store: Store, kubectl: Kubectl) -> None:
    store(daemonset())
    header, row = cells(kubectl("get", "ads", "agent"))
    columns = ["NAME", "DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE", "PHASE", "NODE SELECTOR", "AGE"]
    assert header == columns
    assert row[:6] == ["agent", "0", "0", "0", "0", "0"], "zeros, no blanks, before the first status"
    status: JSON = {
        "status": {
            "desiredNumberScheduled": 5,
            "currentNumberScheduled": 4,
            "numberReady": 3,
            "updatedNumberScheduled": 2,
            "numberAvailable": 1,
            "updateRevision": "6b4f9d7c8",
            "rollout": {"phase": "Progressing", "target": 4, "done": 1},
            "columns": {
                "nodeSelector": "<none>",
                "containers": "agent,relay",
                "images": "agent:1,relay:2",
                "selector": "app=agent",
            },
        }
    }
    server.ask("PATCH", f"{daemonsets()}/agent/status", status, MERGE_PATCH).accepted()
    _, row = cells(kubectl("get", "ads", "agent"))
    assert row[:8] == ["agent", "5", "4", "3", "2", "1", "Progressing", "<none>"]
    header, row = cells(kubectl("get", "ads", "agent", "-o", "wide"))
    assert header[9:] == ["TARGET", "DONE", "PARTITION", "REVISION", "CONTAINERS", "IMAGES", "SELECTOR"]
    assert row[9:] == ["4", "1", "0", "6b4f9d7c8", "agent,relay", "agent:1,relay:2", "app=agent"]
    for partition in (2, "40%"):
        spec: JSON = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": partition}}}}
        server.ask("PATCH", f"{daemonsets()}/agent", spec, MERGE_PATCH).accepted()
        _, row = cells(kubectl("get", "ads", "agent", "-o", "wide"))
        assert row[11] == str(partition)


@pytest.mark.parametrize("name", ["ads", "daemon", "daemonsets.apps.kruise.io", "daemonsets.v1alpha1.apps.kruise.io"])
def test_kubectl_finds_it_by(store: Store, kubectl: Kubectl, name: str) -> None:
    store(daemonset())
    assert kubectl("get", f"{name}/agent", "-o", "name") == "daemonset.apps.kruise.io/agent\n"


@pytest.mark.parametrize("category", ["all", "kruise"])
def test_it_is_among(store: Store, kubectl: Kubectl, category: str) -> None:
    store(daemonset())
    assert "daemonset.apps.kruise.io/agent" in kubectl("get", category, "-o", "name")


def test_ds_stays_with_the_native_kind(store: Store, kubectl: Kubectl) -> None:
    store(daemonset())
    assert kubectl("get", "ds", "-o", "name") == ""


def test_explain_tells_units_defaults_and_traps(server: Server, kubectl: Kubectl) -> None:
    text = kubectl("explain", "ads.spec.updateStrategy.rollingUpdate.partition")
    for word in ("OLD revision", "rounded", "Default 0", "Examples", "Traps"):
        assert word in text
    assert "VERSION:    v1alpha1" in kubectl("explain", "ads.spec", "--api-version=apps.kruise.io/v1alpha1")
