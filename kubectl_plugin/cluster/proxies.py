"""The proxy variables of the environment, read as kubectl does, that is as Go's `httpproxy` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from msgspec.structs import replace

from controller.kube.connection import Connection
from controller.kube.kubeconfig import checked_proxy

_PORTS: Final = {"http": "80", "https": "443"}
_Address: TypeAlias = IPv4Address | IPv6Address


def through_proxy(connection: Connection, environ: Mapping[str, str]) -> Connection:
    """`connection` through the proxy of `environ`, unless the kubeconfig names a proxy. Raises as `proxy_for`."""
    return connection if connection.proxy else replace(connection, proxy=proxy_for(connection.server, environ))


def proxy_for(url: str, environ: Mapping[str, str]) -> str:
    """The URL of the proxy of `environ` for `url`. Empty: there is none, NO_PROXY names the server, or the server is
    on this machine. Raises ConfigError for a proxy that cannot be used."""
    parts = urlsplit(url)
    name = f"{parts.scheme.upper()}_PROXY"
    proxy = _variable(name, environ)
    host, port = _host_and_port(parts.netloc.rpartition("@")[2])
    if not proxy or _is_direct(host, port or _PORTS[parts.scheme], _variable("NO_PROXY", environ)):
        return ""
    return checked_proxy(proxy if "://" in proxy else f"http://{proxy}", f"{name} of the environment")


def _variable(name: str, environ: Mapping[str, str]) -> str:
    """The variable in capitals, unless it is empty; else the one in small letters."""
    return environ.get(name) or environ.get(name.lower(), "")


def _is_direct(host: str, port: str, exempt: str) -> bool:
    """Whether the server is reached without a proxy: `exempt` is NO_PROXY."""
    if host == "localhost":
        return True
    address, host = _address(host), _ascii(host.lower())
    if address is not None and address.is_loopback:
        return True
    for word in (word.strip().lower() for word in exempt.split(",")):
        if word == "*" or (word and _names(word, host, port, address)):
            return True
    return False


def _names(word: str, host: str, port: str, address: _Address | None) -> bool:
    """Whether a word of NO_PROXY names the server: a network, an address, or a domain; the latter two perhaps with a
    port. A domain names all below it, and, unless it begins with a dot, itself; it never names an address."""
    network, slash, length = word.partition("/")
    if slash and length.isdigit():
        with suppress(ValueError):
            return address is not None and address in ip_network(f"{network}/{length}", strict=False)
    named, of_port = _host_and_port(word)
    if not named or of_port not in ("", port):
        return False
    if address is not None:
        return _address(named) == address
    named = _ascii(named.removeprefix("*") if named.startswith("*.") else named)
    return host.endswith(named if named.startswith(".") else f".{named}") or host == named


def _host_and_port(text: str) -> tuple[str, str]:
    """`host:port` and `[IPv6]:port` in two; of an address without a port, the second is empty."""
    host, colon, port = text.rpartition(":")
    if text.startswith("["):
        return (host[1:-1], port) if host.endswith("]") else (text.strip("[]"), "")
    return (host, port) if colon and ":" not in host else (text, "")


def _address(text: str) -> _Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _ascii(host: str) -> str:
    """A name outside of ASCII as DNS has it."""
    with suppress(UnicodeError):
        return ".".join(one if one.isascii() else one.encode("idna").decode() for one in host.split("."))
    return host
