"""The connection to the API server for one command.

Imports aiohttp: import this module only when a server is needed.
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

from controller.api.names import SYSTEM_NAMESPACE
from controller.api.objects import JSONObject
from controller.kube.client import Client
from controller.kube.connection import Connection
from controller.kube.kubeconfig import Access, checked_proxy
from controller.kube.requests import Transport
from controller.kube.sender import CALL_SECONDS, Exchange, Sender
from kubectl_plugin.errors import CommandError, ExitCode, UsageError
from kubectl_plugin.flags import GlobalFlags, Options, Output
from kubectl_plugin.host import Host, ServerClock
from kubectl_plugin.terminal import Terminal
from kubectl_plugin.wording import CLIENT

_PORTS: Final = {"http": "80", "https": "443"}
_Address: TypeAlias = IPv4Address | IPv6Address
CONTROLLER_NAMESPACE: Final = "KRUISE_DS_CONTROLLER_NAMESPACE"
"""The environment variable equivalent to `--controller-namespace`."""


def through_proxy(connection: Connection, environ: Mapping[str, str]) -> Connection:
    """`connection` through the proxy of `environ`, unless the kubeconfig sets one. Raises ConfigError."""
    return connection if connection.proxy else replace(connection, proxy=proxy_for(connection.server, environ))


def proxy_for(url: str, environ: Mapping[str, str]) -> str:
    """The proxy URL of `environ` for `url`; empty for this machine and hosts in NO_PROXY. Raises ConfigError."""
    parts = urlsplit(url)
    name = f"{parts.scheme.upper()}_PROXY"
    proxy = _variable(name, environ)
    host, port = _host_and_port(parts.netloc.rpartition("@")[2])
    if not proxy or _is_direct(host, port or _PORTS[parts.scheme], _variable("NO_PROXY", environ)):
        return ""
    return checked_proxy(proxy if "://" in proxy else f"http://{proxy}", f"{name} of the environment")


def _variable(name: str, environ: Mapping[str, str]) -> str:
    """The upper-case variable unless empty, else the lower-case one."""
    return environ.get(name) or environ.get(name.lower(), "")


def _is_direct(host: str, port: str, exempt: str) -> bool:
    """Whether the server is reached without a proxy. `exempt` is NO_PROXY."""
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
    """Whether an entry of NO_PROXY matches: a network, or an address or domain with an optional port. A domain
    includes its subdomains and, unless it begins with a dot, itself; it never matches an address."""
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
    """Splits `host:port` or `[IPv6]:port`; the port is empty if missing."""
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
    """The IDNA form of a host name."""
    with suppress(UnicodeError):
        return ".".join(one if one.isascii() else one.encode("idna").decode() for one in host.split("."))
    return host


@dataclass(frozen=True)
class Session:
    """Access to the server, and what messages say about it."""

    client: Client
    sender: Sender
    namespace: str
    """From `--namespace`, else the context, else `default`."""
    controller_namespace: str
    """The namespace of the controller and its Lease."""
    server: str
    """The server's URL."""
    context: str
    """The kubeconfig's context; empty without one, as in a pod."""
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
    """Connects as the user, which may run an exec plugin; sends no request yet. Raises ConfigError.

    `request_timeout`: seconds for each answer and the plugin, 0 for no limit. Without it a call, with its retries,
    ends within `CALL_SECONDS`. It does not limit watches. `trace` gets method, path, status and milliseconds of each
    request, never headers or bodies. `clock` learns the server's time. `warn` gets each warning of the server once.
    """
    login_seconds = math.inf if request_timeout == 0 else request_timeout
    connection = through_proxy(await host.connection(access, login_seconds), host.environ)
    user_agent = f"{CLIENT}/{host.version()}"
    async with host.transport(connection, user_agent) as transport:
        yield session_over(
            transport,
            connection,
            on_response=_response_recorder(trace, clock),
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
    user_agent: str = CLIENT,
    on_response: Callable[[Exchange], None] | None = None,
    on_warning: Callable[[str], None] | None = None,
) -> Session:
    """As `open_session`, over a given transport. Raises UsageError for an invalid namespace."""
    for one in (namespace or connection.namespace, controller_namespace or SYSTEM_NAMESPACE):
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
        controller_namespace=controller_namespace or SYSTEM_NAMESPACE,
        server=connection.server,
        context=connection.context,
        user_agent=user_agent,
    )


def check_path_segment(name: str, what: str) -> None:
    """Raises UsageError for a name that would change the API path, as in kubectl."""
    if name in (".", "..") or "/" in name or "%" in name:
        raise UsageError(f'invalid {what} "{name}": a name has no "/" or "%", and is not "." or ".."')


def access_of(flags: GlobalFlags) -> Access:
    return Access(**{field: getattr(flags, field) for field in Access.__struct_fields__})


def _response_recorder(trace: Callable[[str], None] | None, clock: ServerClock | None) -> Callable[[Exchange], None]:
    """Traces each request once its answer, or the first line of its stream, has arrived. Sets `clock` by successful
    answers only, because a refusal may come from a load balancer with its own time."""

    def record(exchange: Exchange) -> None:
        if clock is not None and exchange.date and exchange.status < 300:
            clock.learn(exchange.date, clock.local() - exchange.seconds)
        if trace is not None:
            asked = exchange.request
            query = f"?{urlencode(asked.query)}" if asked.query else ""
            ended = f"{exchange.status or 'unanswered'} {round(exchange.seconds * 1000)}ms"
            trace(f"{asked.method} {asked.path}{query} {ended}")

    return record


@dataclass(frozen=True)
class Invocation:
    session: Session
    terminal: Terminal
    output: Output | None
    """The format after `-o`; None for output that a person reads."""
    host: Host
    namespace: str | None = None
    """The namespace after `-n`; use `session.namespace`."""
    began: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    """Start of the verb, in seconds of the event loop's clock."""
    event: str = ""
    """`Entry.event` of the verb."""

    def answers_a_program(self, names: Iterable[str], document: Callable[[], JSONObject]) -> bool:
        """Prints `names` or `document` if `-o` requests either; returns whether it did."""
        if self.output is Output.NAME:
            self.terminal.say(*names)
        elif self.output in (Output.JSON, Output.YAML):
            self.terminal.say_document(document(), self.output)
        else:
            return False
        return True

    def note_unread(self, missing: Iterable[str]) -> None:
        """Prints one note for each distinct thing that could not be read."""
        for words in dict.fromkeys(missing):
            self.terminal.note(f"not everything could be read: {words}")


REPORT_SECONDS: Final = 0.5
"""Seconds past the deadline for code that checks it itself and reports how far the rollout is."""


class TimedOut(CommandError):
    def __init__(self, after: str) -> None:
        super().__init__(f"timed out after {after}: the server does not answer", exit_code=ExitCode.TIMED_OUT)


class Deadline:
    """The end of `--timeout`, counted from the start of the command and again from each answer to a prompt."""

    def __init__(self, invocation: Invocation, options: Options) -> None:
        self.text, self._invocation, self._seconds = options.timeout, invocation, options.seconds

    @property
    def _at(self) -> float:
        return max(self._invocation.began, self._invocation.terminal.answered) + self._seconds

    @property
    def seconds_left(self) -> float:
        """Negative after the deadline, infinite without one."""
        return self._at - asyncio.get_running_loop().time()

    @asynccontextmanager
    async def enforced(self) -> AsyncIterator[None]:
        """Cancels the block at the deadline, and does not begin it afterwards. Raises TimedOut."""
        if self.seconds_left <= -REPORT_SECONDS:
            raise TimedOut(self.text)
        try:
            async with asyncio.timeout_at(None if self._at == math.inf else self._at + REPORT_SECONDS) as scope:
                yield
        except TimeoutError:
            if not scope.expired():
                raise
            raise TimedOut(self.text) from None
