"""The connection to the API server for one command. Imports aiohttp: import it only when a server is needed."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from controller.kube.client import Client
from controller.kube.connection import Connection
from controller.kube.kubeconfig import Access
from controller.kube.requests import Transport
from controller.kube.sender import CALL_SECONDS, Exchange, Sender
from kubectl_plugin.clock import ServerClock
from kubectl_plugin.cluster.proxies import through_proxy
from kubectl_plugin.failures import UsageError
from kubectl_plugin.flags import GlobalFlags
from kubectl_plugin.host import Host
from kubectl_plugin.report.installation.facts import NAMESPACE

PROGRAM: Final = "kubectl-kruise-ds"
CONTROLLER_NAMESPACE: Final = "KRUISE_DS_CONTROLLER_NAMESPACE"
"""The environment variable in place of `--controller-namespace`."""


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
            on_warning=None if warn is None else _once(warn),
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


def _once(warn: Callable[[str], None]) -> Callable[[str], None]:
    told: set[str] = set()

    def warned(text: str) -> None:
        if text not in told:
            told.add(text)
            warn(text)

    return warned


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
