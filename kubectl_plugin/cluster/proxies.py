"""The proxy variables of the environment, read as kubectl does: HTTPS_PROXY, HTTP_PROXY and NO_PROXY."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from controller.kube.connection import Connection

_EXEMPT: Final[Callable[[str, Mapping[str, str]], bool]] = vars(urllib.request)["proxy_bypass_environment"]
"""Taken from `vars`, because the type stubs of the standard library do not declare it."""


def through_proxy(connection: Connection, environ: Mapping[str, str]) -> Connection:
    """`connection` through the proxy of `environ`, unless the kubeconfig names a proxy or the server is on this
    machine."""
    parts = urlsplit(connection.server)
    proxy, exempt = _proxy_variable(parts.scheme, environ), _proxy_variable("no", environ)
    if connection.proxy or not proxy or _is_direct(parts.hostname or "", parts.netloc, exempt):
        return connection
    return replace(connection, proxy=proxy if "://" in proxy else f"http://{proxy}")


def _proxy_variable(what: str, environ: Mapping[str, str]) -> str:
    """The variable in small letters wins over the one in capitals, as everywhere in Python."""
    name = f"{what}_proxy"
    return environ.get(name, environ.get(name.upper(), ""))


def _is_direct(host: str, netloc: str, exempt: str) -> bool:
    """Whether the host is reached without a proxy. Python's own rules do not know networks in NO_PROXY."""
    if host == "localhost" or _EXEMPT(netloc, {"no": exempt}):
        return True
    with suppress(ValueError):
        address = ip_address(host)
        return address.is_loopback or any(_is_within(address, word.strip()) for word in exempt.split(","))
    return False


def _is_within(address: IPv4Address | IPv6Address, network: str) -> bool:
    """False for a word that is no network."""
    with suppress(ValueError):
        return address in ip_network(network, strict=False)
    return False
