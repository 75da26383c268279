"""What looks like a part of the network, and what only has its name or its node's network."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.base import JSONObject
from kubectl_plugin.report.network_plugin import network_sign

NONE: JSONObject = {}
PROXY: JSONObject = {"k8s-app": "kube-proxy"}
CNI = "mounts /var/lib/rancher/k3s/agent/etc/cni/net.d as a network plugin does"


def daemonset(
    *,
    name: str = "agent",
    namespace: str = "kube-system",
    host: bool = True,
    labels: JSONObject = NONE,
    template: JSONObject = NONE,
    path: str = "/run/xtables.lock",
) -> JSONObject:
    pod: JSONObject = {"hostNetwork": host, "volumes": [{"name": "x", "hostPath": {"path": path}}]}
    spec: JSONObject = {"template": {"metadata": {"labels": template}, "spec": pod}}
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": "kube-proxy"}, "looks like kube-proxy"),
        ({"labels": PROXY}, "looks like kube-proxy"),
        ({"template": PROXY}, "looks like kube-proxy"),
        ({"template": PROXY, "namespace": "agents"}, ""),
        ({"template": PROXY, "host": False}, ""),
        ({"template": {"k8s-app": "node-local-dns"}}, ""),
        ({"path": "/var/lib/rancher/k3s/agent/etc/cni/net.d", "namespace": "agents", "host": False}, CNI),
        ({"path": "/var/lib/cnidata"}, ""),
    ],
)
def test_it_looks_like(changes: Any, expected: str) -> None:
    assert network_sign(daemonset(**changes)) == expected
