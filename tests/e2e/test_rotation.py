"""Credentials of a pod change while the controller runs: its token, and the authority of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from controller.app import run
from controller.assembly import Parts
from controller.kube.in_cluster import in_cluster
from controller.kube.request import NotConnected, Request, Response, Stream, Transport
from controller.kube.transport import open_transport
from controller.settings import Settings
from tests.beds.api import DAEMONSETS, NODES, PODS
from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.controller.running import SHARED
from tests.beds.installed.workspace import sample
from tests.beds.nodes.machine import node_manifest
from tests.e2e.conftest import ACCOUNT, bare_plane, installed
from tests.e2e.tokens import HOME, administrator, end, fresh_token

pytestmark = pytest.mark.real


class Listening:
    """A transport that remembers how its requests went."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.statuses: list[int] = []
        self.failures: list[str] = []

    async def exchange(self, request: Request) -> Response:
        try:
            response = await self._transport.exchange(request)
        except NotConnected as error:
            self.failures.append(str(error))
            raise
        self.statuses.append(response.status)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        try:
            async with self._transport.stream(request) as stream:
                self.statuses.append(stream.status)
                yield stream
        except NotConnected as error:
            self.failures.append(str(error))
            raise


class Volume:
    """The projected volume of a service account: a link to the newest directory, renamed onto the one before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "namespace").write_text(HOME)
        for name in ("token", "ca.crt"):
            (folder / name).symlink_to(f"..data/{name}")
        self._turn = 0

    def project(self, token: str, authority: bytes) -> None:
        self._turn += 1
        made = self.folder / f"..{self._turn}"
        made.mkdir()
        (made / "token").write_text(token)
        (made / "ca.crt").write_bytes(authority)
        (self.folder / "..next").symlink_to(made.name)
        (self.folder / "..next").rename(self.folder / "..data")


@asynccontextmanager
async def in_a_pod(plane: ControlPlane, volume: Volume, *, elect: bool = True) -> AsyncIterator[Listening]:
    """The controller with nothing but what a pod has."""
    parts = urlsplit(plane.url)
    environ = {"KUBERNETES_SERVICE_HOST": str(parts.hostname), "KUBERNETES_SERVICE_PORT": str(parts.port)}
    connection, stop = in_cluster(environ, volume.folder), asyncio.Event()
    settings = Settings(metrics_address=None, health_address=None, lease_namespace=HOME, leader_elect=elect)
    async with open_transport(connection) as transport, asyncio.TaskGroup() as group:
        listening = Listening(transport)
        assembled = Parts(settings, listening, refresh=connection.credentials.refresh)
        group.create_task(run(settings, assembled, stop, SHARED))
        yield listening
        stop.set()


async def works(plane: ControlPlane, node: str) -> None:
    """A node joins, and gets its pod: watches and writes both go on."""
    async with administrator(plane) as api:
        await api.create(NODES, node_manifest(node, {}, [], {}, "2026-11-22T00:00:00Z"))
        await api.wait_for(
            PODS, lambda pods: any(node in str(pod["spec"]) for pod in pods), f"a pod for {node}", seconds=60.0
        )


async def test_a_rotated_token_and_a_rotated_authority_cost_nothing_but_a_new_connection(
    complete_binaries: Binaries, tmp_path: Path
) -> None:
    async with bare_plane(complete_binaries, [ACCOUNT]) as plane:
        await installed(plane, "overlays/default")
        async with administrator(plane) as api:
            await api.create(DAEMONSETS, sample("ds.demo.yaml"))
        volume = Volume(tmp_path / "serviceaccount")
        first, old_authority = await fresh_token(plane, "first"), plane.ca_path.read_bytes()
        volume.project(first, old_authority)
        async with in_a_pod(plane, volume) as heard:
            await works(plane, "before")

            volume.project(await fresh_token(plane, "second"), old_authority)
            await end(plane, first, "first")
            await works(plane, "with-another-token")
            assert 401 not in heard.statuses, "nobody noticed"

        volume.project(ACCOUNT.token, old_authority)  # one that outlives the key of the next authority
        async with in_a_pod(plane, volume, elect=False) as heard:  # a leader ends after ten seconds without a server
            await works(plane, "with-a-token-that-lasts")
            await plane.kill_apiserver()
            for file in (plane.ca_path, plane.ca_path.with_suffix(".key")):
                file.unlink()
            await plane.start_apiserver()
            async with asyncio.timeout(60):
                while not any("certificate verify failed" in words for words in heard.failures):
                    await asyncio.sleep(0.05)
            volume.project(ACCOUNT.token, plane.ca_path.read_bytes())
            await works(plane, "with-another-authority")
            assert 401 not in heard.statuses
