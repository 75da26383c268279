"""Which proxy leads to which server. `tests/plugin/cluster/test_proxied.py` holds kubectl against the same tables."""

from __future__ import annotations

import pytest

from controller.kube.connection import Connection, Credentials
from controller.kube.errors import ConfigError
from kubectl_plugin.cluster.session import through_proxy

PROXY = "http://proxy.example:3128"
OTHER = "http://other.example:3128"
API = "https://api.nowhere.example:6443"
HERE = "https://0.0.0.0:6443"
"""This machine, by an address that is none of its loopback."""

VARIABLES: list[tuple[str, dict[str, str], str]] = [
    (API, {"HTTPS_PROXY": PROXY}, PROXY),
    (API, {"https_proxy": PROXY}, PROXY),
    (API, {"HTTPS_PROXY": PROXY.removeprefix("http://")}, PROXY),
    (API, {"https_proxy": OTHER, "HTTPS_PROXY": PROXY}, PROXY),
    (API, {"https_proxy": PROXY, "HTTPS_PROXY": ""}, PROXY),
    (API, {"https_proxy": "", "HTTPS_PROXY": PROXY}, PROXY),
    (API, {"HTTP_PROXY": PROXY, "ALL_PROXY": PROXY}, ""),
    (API, {}, ""),
    ("http://api.nowhere.example:6443", {"HTTP_PROXY": PROXY}, PROXY),
    ("http://api.nowhere.example:6443", {"HTTPS_PROXY": PROXY}, ""),
    ("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, ""),
    ("https://127.1.2.3:6443", {"HTTPS_PROXY": PROXY}, ""),
    ("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, ""),
    ("https://localhost:6443", {"HTTPS_PROXY": PROXY}, ""),
    ("https://x.localhost:6443", {"HTTPS_PROXY": PROXY}, PROXY),
    (HERE, {"HTTPS_PROXY": PROXY}, PROXY),
]
"""Which variable is read: server, environment, the proxy that is used."""

NO_PROXY: list[tuple[str, str, bool]] = [
    (API, "", True),
    (API, "*", False),
    (API, "x, *", False),
    (API, "*.*", True),
    (API, "x, api.nowhere.example", False),
    (API, "API.Nowhere.EXAMPLE", False),
    ("https://API.nowhere.example:6443", "api.nowhere.example", False),
    (API, "nowhere.example", False),
    (API, ".nowhere.example", False),
    (API, "*.nowhere.example", False),
    (API, ".api.nowhere.example", True),
    (API, "*.api.nowhere.example", True),
    (API, "where.example", True),
    (API, "*where.example", True),
    (API, "api.nowhere.example:6443", False),
    (API, "api.nowhere.example:443", True),
    (API, ".nowhere.example:6443", False),
    ("https://api.nowhere.example", "api.nowhere.example:443", False),
    (API, ",, ,x", True),
    (API, "api.nowhere.example x", True),
    (API, ":6443", True),
    (API, "0.0.0.0/0", True),
    ("https://bücher.nowhere.example:6443", "BÜCHER.nowhere.example", False),
    (HERE, "0.0.0.0", False),
    (HERE, "0.0.0.0:6443", False),
    (HERE, "0.0.0.0:443", True),
    (HERE, "x,0.0.0.0/8", False),
    (HERE, "0.1.2.3/8", False),
    (HERE, "0.0.0.0/33, x/8,0.0.0.0/8", False),
    (HERE, "0.0.0.0/255.0.0.0", True),
    (HERE, "10.0.0.0/8", True),
    (HERE, "0.0", True),
    (HERE, ".0.0", True),
    (HERE, "0.0.0.*", True),
    ("https://[::]:6443", "::", False),
    ("https://[::]:6443", "[::]:6443", False),
    ("https://[::]:6443", "[::]:443", True),
    ("https://[::]:6443", "0.0.0.0/0,fd00::/8", True),
    ("https://[::]:6443", "::/8", False),
]
"""What is exempt: server, NO_PROXY, whether a proxy is used."""


@pytest.mark.parametrize(("server", "variables", "proxy"), VARIABLES)
def test_a_proxy_is_that_of_the_variable_that_go_reads(server: str, variables: dict[str, str], proxy: str) -> None:
    assert through_proxy(Connection(server=server, credentials=Credentials()), variables).proxy == proxy
    named = Connection(server=server, credentials=Credentials(), proxy="http://of.the.kubeconfig")
    assert through_proxy(named, variables).proxy == "http://of.the.kubeconfig"


@pytest.mark.parametrize(("server", "exempt", "proxied"), NO_PROXY)
def test_what_no_proxy_exempts_is_what_go_exempts(server: str, exempt: str, proxied: bool) -> None:
    for variable in ("NO_PROXY", "no_proxy"):
        variables = {"HTTPS_PROXY": PROXY, variable: exempt}
        found = through_proxy(Connection(server=server, credentials=Credentials()), variables).proxy
        assert found == (PROXY if proxied else "")


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        ("socks5://me:secret@127.0.0.1:1080", "HTTPS_PROXY of the environment: a socks5 proxy cannot be used"),
        ("SOCKS5h://127.0.0.1:1080", "HTTPS_PROXY of the environment: a socks5h proxy cannot be used"),
        ("ftp://proxy", "HTTPS_PROXY of the environment: no URL of a proxy, such as http://proxy:3128"),
        ("http://[", "HTTPS_PROXY of the environment: no URL of a proxy, such as http://proxy:3128"),
    ],
)
def test_an_unusable_proxy_is_refused_by_the_name_of_its_variable(proxy: str, words: str) -> None:
    connection = Connection(server=API, credentials=Credentials())
    with pytest.raises(ConfigError) as raised:
        through_proxy(connection, {"https_proxy": proxy})
    assert str(raised.value) == words
    assert through_proxy(connection, {"https_proxy": proxy, "NO_PROXY": "*"}) == connection
