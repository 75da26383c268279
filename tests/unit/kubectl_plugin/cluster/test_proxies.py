"""Which proxy leads to which server. `tests/plugin/cluster/test_proxied.py` holds kubectl against the same tables."""

from __future__ import annotations

import pytest

from controller.kube.connection import Connection, Credentials
from controller.kube.errors import ConfigError
from kubectl_plugin.cluster.session import through_proxy
from tests.unit.kubectl_plugin.cluster.proxies import API, NO_PROXY, PROXY, VARIABLES


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
