"""Tokens of the controller's service account that end when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from controller.kube.connection import Connection, Fixed, tls_context
from controller.kube.request import Request
from controller.kube.transport import open_transport
from tests.beds.api import Api, Resource
from tests.beds.control_plane import ControlPlane

HOME = "kruise-ds-system"
_SECRETS = Resource("/api/v1", "secrets", "Secret")


def connection_with(plane: ControlPlane, token: str) -> Connection:
    """By the authority as it is now."""
    return Connection(server=plane.url, credentials=Fixed(f"Bearer {token}"), tls=tls_context(str(plane.ca_path)))


@asynccontextmanager
async def administrator(plane: ControlPlane) -> AsyncIterator[Api]:
    async with open_transport(connection_with(plane, plane.token)) as transport:
        yield Api(transport)


async def fresh_token(plane: ControlPlane, secret: str) -> str:
    """One that ends with the Secret that it is bound to."""
    async with administrator(plane) as api:
        await api.create(_SECRETS, {"metadata": {"name": secret, "namespace": HOME}})
    words = ("create", "token", "kruise-ds-controller", "--bound-object-kind=Secret", f"--bound-object-name={secret}")
    done = await plane.run_kubectl("--namespace", HOME, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


async def end(plane: ControlPlane, token: str, secret: str) -> None:
    """Delete its Secret, and wait until the server refuses the token: it takes it for good for ten more seconds."""
    async with administrator(plane) as api:
        await api.delete(_SECRETS, secret, namespace=HOME)
    async with open_transport(connection_with(plane, token)) as transport, asyncio.timeout(60):
        while (await transport.exchange(Request(method="GET", path="/api"))).status != 401:  # it tells nobody
            await asyncio.sleep(0.2)
