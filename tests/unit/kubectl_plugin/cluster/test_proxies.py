"""Which proxy leads to which server."""

from __future__ import annotations

import pytest

from controller.kube.connection import Connection, Fixed
from kubectl_plugin.cluster.proxies import through_proxy

PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("server", "variables", "proxy"),
    [
        ("https://api.example:6443", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://api.example:6443", {"https_proxy": PROXY}, PROXY),
        ("https://api.example:6443", {"HTTPS_PROXY": "proxy.example:3128"}, PROXY),
        ("https://api.example:6443", {"https_proxy": PROXY, "HTTPS_PROXY": "http://other"}, PROXY),
        ("https://api.example:6443", {"https_proxy": "", "HTTPS_PROXY": PROXY}, ""),
        ("https://api.example:6443", {"HTTP_PROXY": PROXY}, ""),
        ("http://api.example", {"HTTP_PROXY": PROXY}, PROXY),
        ("https://api.example:6443", {}, ""),
        ("https://api.example:6443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "x, api.example"}, ""),
        ("https://api.example:6443", {"HTTPS_PROXY": PROXY, "NO_PROXY": ".example"}, ""),
        ("https://api.example:6443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, ""),
        ("https://api.example:6443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "other.example,10.0.0.0/8"}, PROXY),
        ("https://10.1.2.3:6443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "other,10.0.0.0/8"}, ""),
        ("https://10.1.2.3:6443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/33, x/8,10.0.0.0/8"}, ""),
        ("https://[fd00::7]:6443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8,fd00::/8"}, ""),
        ("https://[fd00::7]:6443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "fd00::7"}, ""),
        ("https://11.1.2.3:6443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "other,10.0.0.0/8"}, PROXY),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://localhost:6443", {"HTTPS_PROXY": PROXY}, ""),
    ],
)
def test_as_kubectl_has_it(server: str, variables: dict[str, str], proxy: str) -> None:
    assert through_proxy(Connection(server=server, credentials=Fixed()), variables).proxy == proxy
    named = Connection(server=server, credentials=Fixed(), proxy="http://of.the.kubeconfig")
    assert through_proxy(named, variables).proxy == "http://of.the.kubeconfig"
