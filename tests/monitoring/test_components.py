"""What the kustomize components for monitoring add to an installation, built by kubectl."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.beds.control_plane import Binaries
from tests.beds.manifests import MANIFESTS, documents, overlay_with
from tests.tools.install_yaml import kustomized

pytestmark = pytest.mark.real


Objects = dict[tuple[str, str], Any]


@pytest.fixture
def built(control_plane_binaries: Binaries, tmp_path: Path) -> Callable[..., Objects]:
    def built_with(*components: str) -> Objects:
        """The default installation with these components: (kind, name) to object."""
        overlay = overlay_with(tmp_path, "default-without-crds", *components)
        found: list[Any] = list(documents(kustomized(control_plane_binaries.kubectl, overlay)))
        return {(one["kind"], one["metadata"]["name"]): one for one in found}

    return built_with


def scraped(monitor: Any) -> Any:
    """The one endpoint of a ServiceMonitor or PodMonitor."""
    (endpoint,) = monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]
    return endpoint


def test_the_service_monitor_finds_the_service_and_its_port(built: Callable[..., Objects]) -> None:
    objects = built("prometheus")
    monitor = objects["ServiceMonitor", "kruise-ds-controller"]
    service = objects["Service", "kruise-ds-controller-metrics"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]
    assert scraped(monitor)["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert scraped(monitor)["honorLabels"] is True
    assert ("PrometheusRule", "kruise-ds") in objects


def test_the_pod_monitor_takes_the_place_of_service_and_service_monitor(built: Callable[..., Objects]) -> None:
    objects = built("prometheus", "podmonitor")
    monitor = objects["PodMonitor", "kruise-ds-controller"]
    template = objects["Deployment", "kruise-ds-controller"]["spec"]["template"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    ports = template["spec"]["containers"][0]["ports"]
    assert scraped(monitor)["port"] in [port["name"] for port in ports]
    assert {kind for kind, _ in objects} & {"Service", "ServiceMonitor"} == set()
    assert ("PrometheusRule", "kruise-ds") in objects


def test_both_monitors_scrape_alike(built: Callable[..., Objects]) -> None:
    for protected in ([], ["metrics-auth"]):
        services = built("prometheus", *protected)
        pods = built("prometheus", "podmonitor", *protected)
        by_service = scraped(services["ServiceMonitor", "kruise-ds-controller"])
        assert by_service == scraped(pods["PodMonitor", "kruise-ds-controller"])
        assert ("authorization" in by_service) == bool(protected)


def test_dashboards_are_config_maps_that_grafanas_sidecar_finds(built: Callable[..., Objects]) -> None:
    objects = built("grafana")
    for name in ("rollouts", "controller"):
        found = objects["ConfigMap", f"kruise-ds-dashboard-{name}"]
        assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert found["metadata"]["namespace"] == "kruise-ds-system"
        wanted = json.loads((MANIFESTS / "grafana" / f"{name}.json").read_text())
        assert json.loads(found["data"][f"{name}.json"]) == wanted


def test_protected_metrics_get_their_secret_and_the_options_that_name_it(built: Callable[..., Objects]) -> None:
    objects = built("prometheus", "metrics-auth")
    pod = objects["Deployment", "kruise-ds-controller"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (secret,) = [one for one in pod["volumes"] if "secret" in one]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == secret["name"]]
    assert mount["readOnly"]
    assert container["args"][-3:] == [
        "--metrics-auth",
        f"--metrics-tls-cert-file={mount['mountPath']}/tls.crt",
        f"--metrics-tls-private-key-file={mount['mountPath']}/tls.key",
    ]
    monitor = objects["ServiceMonitor", "kruise-ds-controller"]
    tls = scraped(monitor)["tlsConfig"]
    assert scraped(monitor)["scheme"] == "https"
    shown = scraped(monitor)["authorization"]["credentials"]
    token = objects["Secret", shown["name"]]
    assert (token["type"], shown["key"]) == ("kubernetes.io/service-account-token", "token")
    assert token["metadata"]["namespace"] == monitor["metadata"]["namespace"], (
        "a monitor names only Secrets beside it"
    )
    assert "File" not in str(scraped(monitor)), "many platforms let no monitor name a file of Prometheus"
    assert tls["ca"]["secret"] == {"name": secret["secret"]["secretName"], "key": "ca.crt"}
    service = objects["Service", "kruise-ds-controller-metrics"]["metadata"]
    assert tls["serverName"] == f"{service['name']}.{service['namespace']}.svc"
    assert objects["ClusterRole", "kruise-ds-metrics-reader"]["rules"] == [
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    ]


def test_protected_metrics_need_no_monitoring_kind(built: Callable[..., Objects]) -> None:
    plain, guarded = built(), built("metrics-auth")
    assert sorted(guarded.keys() - plain.keys()) == [
        ("ClusterRole", "kruise-ds-metrics-reader"),
        ("ClusterRole", "kruise-ds-metrics-reviewer"),
        ("ClusterRoleBinding", "kruise-ds-metrics-reviewer"),
        ("ClusterRoleBinding", "kruise-ds-metrics-scraper"),
        ("Secret", "kruise-ds-metrics-token"),
        ("ServiceAccount", "kruise-ds-metrics-scraper"),
    ]
