"""A proxy before the API server that can be shut for one client, while all others go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from tests.beds.control_plane import ControlPlane, User
from tests.beds.control_plane.access import write_kubeconfig
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.control_plane.processes import free_port


class ApiProxy:
    """Shut at first: connections are refused. Shutting it again cuts those that are open."""

    def __init__(self, plane: ControlPlane, user: User, name: str) -> None:
        self._port, self._behind = free_port(), urlsplit(plane.url).port
        self.kubeconfig: Path = plane.folder / f"kubeconfig-{name}"
        url = f"https://{LOOPBACK}:{self._port}"
        write_kubeconfig(self.kubeconfig, url=url, certificates=plane.ca_path, user=user)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._silent = False

    async def open(self) -> None:
        """Let everything pass. Connections that were swallowed meanwhile are cut: a gap is not healed."""
        if self._silent:
            self._silent = False
            self._cut()
        if self._server is None:
            self._server = await asyncio.start_server(self._pass, LOOPBACK, self._port)

    def fall_silent(self) -> None:
        """Swallow every byte, as a network that is partitioned does: nothing is refused and nothing answers."""
        self._silent = True

    async def shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        self._cut()

    def _cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:  # shut since it was let in
            writer.transport.abort()
            return
        self._open.add(writer)  # before there is a way on: a proxy that is shut meanwhile cuts this one too
        with suppress(OSError):
            back_reader, back_writer = await asyncio.open_connection(LOOPBACK, self._behind)
            self._open.add(back_writer)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pour(reader, back_writer))
                    group.create_task(self._pour(back_reader, writer))
            finally:
                self._open.discard(back_writer)
                back_writer.transport.abort()
        self._open.discard(writer)
        writer.transport.abort()

    async def _pour(self, source: asyncio.StreamReader, into: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await source.read(65_536):
                if not self._silent:
                    into.write(chunk)
                    await into.drain()
        into.close()


@asynccontextmanager
async def proxy_to(plane: ControlPlane, user: User, name: str) -> AsyncIterator[ApiProxy]:
    proxy = ApiProxy(plane, user, name)
    try:
        yield proxy
    finally:
        await proxy.shut()
