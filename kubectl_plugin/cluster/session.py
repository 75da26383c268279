"""The connection to the API server for one command, and what every verb gets to work with.

Imports aiohttp: import it only when a server is needed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, TypeAlias
from urllib.parse import urlencode, urlsplit

from msgspec.structs import replace

from controller.api.objects import JSONObject
from controller.kube.client import Client
from controller.kube.connection import Connection
from controller.kube.kubeconfig import Access, checked_proxy
from controller.kube.requests import Transport
from controller.kube.sender import CALL_SECONDS, Exchange, Sender
from kubectl_plugin.errors import UsageError
from kubectl_plugin.flags import GlobalFlags, Output
from kubectl_plugin.host import Host
from kubectl_plugin.rollout.installation import NAMESPACE
from kubectl_plugin.terminal import Terminal
from kubectl_plugin.units import ServerClock

_PORTS: Final = {"http": "80", "https": "443"}
_Address: TypeAlias = IPv4Address | IPv6Address
PROGRAM: Final = "kubectl-kruise-ds"
CONTROLLER_NAMESPACE: Final = "KRUISE_DS_CONTROLLER_NAMESPACE"
"""The environment variable in place of `--controller-namespace`."""


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


@dataclass(frozen=True)
class Session:
    """What a command uses to ask the server, and what it tells people about that server."""

    client: Client
    sender: Sender
    namespace: str
    """From `--namespace`, else from the context, else `default`."""
    controller_namespace: str
    """Where the controller and its Lease are looked for."""
    server: str
    """The server's URL."""
    context: str
    """The kubeconfig's context; empty if there is none, as in a pod."""
    user_agent: str


@asynccontextmanager
async def open_session(
    host: Host,
    access: Access,
    *,
    namespace: str | None = None,
    controller_namespace: str | None = None,
    request_timeout: float | None = None,
    trace: Callable[[str], None] | None = None,
    clock: ServerClock | None = None,
    warn: Callable[[str], None] | None = None,
) -> AsyncIterator[Session]:
    """Find out where the server is and who asks it, which may run an exec plugin; no request is sent yet. Raises
    ConfigError.

    `request_timeout`: seconds for each answer and for the plugin, 0 for no limit. Without it a call, including its
    wait for a busy server, ends within `CALL_SECONDS`. A watch lasts as long as it is read. `trace` gets one line for
    each request: method, path, status and milliseconds, never a header or a body. `clock` learns the server's time
    from the answers. `warn` gets each text by which the server warns of a write or dry run, once.
    """
    login_seconds = math.inf if request_timeout == 0 else request_timeout
    connection = through_proxy(await host.connection(access, login_seconds), host.environ)
    user_agent = f"{PROGRAM}/{host.version()}"
    async with host.transport(connection, user_agent) as transport:
        yield session_over(
            transport,
            connection,
            on_response=_heard(trace, clock),
            on_warning=None if warn is None else cache(warn),  # each text once
            namespace=namespace,
            controller_namespace=controller_namespace or host.environ.get(CONTROLLER_NAMESPACE),
            request_timeout=request_timeout,
            user_agent=user_agent,
        )


def session_over(
    transport: Transport,
    connection: Connection,
    *,
    namespace: str | None = None,
    controller_namespace: str | None = None,
    request_timeout: float | None = None,
    user_agent: str = PROGRAM,
    on_response: Callable[[Exchange], None] | None = None,
    on_warning: Callable[[str], None] | None = None,
) -> Session:
    """The session over a given transport; `open_session` explains the arguments. Raises UsageError for a namespace
    that is no name."""
    for one in (namespace or connection.namespace, controller_namespace or NAMESPACE):
        check_path_segment(one, "namespace")
    request_seconds = math.inf if request_timeout == 0 else request_timeout
    sender = Sender(
        transport,
        on_response=on_response,
        on_warning=on_warning,
        refresh=connection.credentials.refresh,
        call_seconds=max(CALL_SECONDS, request_seconds or 0),
        request_seconds=request_seconds,
    )
    return Session(
        client=Client(sender),
        sender=sender,
        namespace=namespace or connection.namespace,
        controller_namespace=controller_namespace or NAMESPACE,
        server=connection.server,
        context=connection.context,
        user_agent=user_agent,
    )


def check_path_segment(name: str, what: str) -> None:
    """Raises UsageError for a name that would lead to another path of the API, as kubectl does."""
    if name in (".", "..") or "/" in name or "%" in name:
        raise UsageError(f'invalid {what} "{name}": a name has no "/" or "%", and is not "." or ".."')


def access_of(flags: GlobalFlags) -> Access:
    """The flags about which server to ask and who asks it."""
    return Access(**{field: getattr(flags, field) for field in Access.__struct_fields__})


def _heard(trace: Callable[[str], None] | None, clock: ServerClock | None) -> Callable[[Exchange], None]:
    """Sets `clock` by successful answers, because a refusal may come from a load balancer with its own time. Traces
    each request when its answer, or the first line of its stream, has arrived."""

    def heard(one: Exchange) -> None:
        if clock is not None and one.date and one.status < 300:
            clock.learn(one.date, clock.local() - one.seconds)
        if trace is not None:
            asked = one.request
            query = f"?{urlencode(asked.query)}" if asked.query else ""
            ended = f"{one.status or 'unanswered'} {round(one.seconds * 1000)}ms"
            trace(f"{asked.method} {asked.path}{query} {ended}")

    return heard


@dataclass(frozen=True)
class Invocation:
    """One call of a verb, once its session is open."""

    session: Session
    terminal: Terminal
    output: Output | None
    """The format after `-o`; None if a person reads the result."""
    host: Host
    namespace: str | None = None
    """The namespace after `-n`; `session.namespace` is the one to use."""
    began: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    """When the verb began, on the event loop's clock."""

    def answers_a_program(self, names: Iterable[str], document: Callable[[], JSONObject]) -> bool:
        """Print the `names` or the `document` where `-o` asks for either; returns whether it did."""
        if self.output is Output.NAME:
            self.terminal.say(*names)
        elif self.output in (Output.JSON, Output.YAML):
            self.terminal.say_document(document(), self.output)
        else:
            return False
        return True

    def note_unread(self, missing: Iterable[str]) -> None:
        """Print a note for each thing that could not be read, once."""
        for words in dict.fromkeys(missing):
            self.terminal.note(f"not everything could be read: {words}")
