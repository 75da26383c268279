"""What the kustomize components for monitoring add to an installation, built by kubectl."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane import Binaries
from tests.manifests.files import MANIFESTS, documents

pytestmark = pytest.mark.real


def built(binaries: Binaries, folder: Path, *components: str) -> dict[tuple[str, str], Any]:
    """The default installation with these components: (kind, name) to object."""
    root = folder.resolve()

    def seen_from_root(path: str) -> str:
        return os.path.relpath(MANIFESTS / path, root)

    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [seen_from_root("overlays/default-without-crds")],
        "components": [seen_from_root(f"components/{name}") for name in components],
    }
    (folder / "kustomization.yaml").write_text(json.dumps(overlay))
    done = subprocess.run(
        [binaries.kubectl, "kustomize", str(root)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    found: list[Any] = list(documents(done.stdout))
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def scraped(monitor: Any) -> Any:
    """The one endpoint of a ServiceMonitor or PodMonitor."""
    (endpoint,) = monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]
    return endpoint


def test_the_service_monitor_finds_the_service_and_its_port(control_plane_binaries: Binaries, tmp_path: Path) -> None:
    objects = built(control_plane_binaries, tmp_path, "prometheus")
    monitor = objects["ServiceMonitor", "kruise-ds-controller"]
    service = objects["Service", "kruise-ds-controller-metrics"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]
    assert scraped(monitor)["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert scraped(monitor)["honorLabels"] is True
    assert ("PrometheusRule", "kruise-ds") in objects


def test_the_pod_monitor_takes_the_place_of_service_and_service_monitor(
    control_plane_binaries: Binaries, tmp_path: Path
) -> None:
    objects = built(control_plane_binaries, tmp_path, "prometheus", "podmonitor")
    monitor = objects["PodMonitor", "kruise-ds-controller"]
    template = objects["Deployment", "kruise-ds-controller"]["spec"]["template"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    ports = template["spec"]["containers"][0]["ports"]
    assert scraped(monitor)["port"] in [port["name"] for port in ports]
    assert {kind for kind, _ in objects} & {"Service", "ServiceMonitor"} == set()
    assert ("PrometheusRule", "kruise-ds") in objects


def test_both_monitors_scrape_alike(control_plane_binaries: Binaries, tmp_path: Path) -> None:
    by_service = built(control_plane_binaries, tmp_path, "prometheus")["ServiceMonitor", "kruise-ds-controller"]
    by_pod = built(control_plane_binaries, tmp_path, "prometheus", "podmonitor")["PodMonitor", "kruise-ds-controller"]
    assert scraped(by_service) == scraped(by_pod)


def test_dashboards_are_config_maps_that_grafanas_sidecar_finds(
    control_plane_binaries: Binaries, tmp_path: Path
) -> None:
    objects = built(control_plane_binaries, tmp_path, "grafana")
    for name in ("rollouts", "controller"):
        found = objects["ConfigMap", f"kruise-ds-dashboard-{name}"]
        assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert found["metadata"]["namespace"] == "kruise-ds-system"
        wanted = json.loads((MANIFESTS / "grafana" / f"{name}.json").read_text())
        assert json.loads(found["data"][f"{name}.json"]) == wanted
