"""`agent` on a real server, and the plugin as a program that reaches it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from tests.beds.api import DAEMONSETS, Api, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.access import run_to_end
from tests.beds.installed.plugin import PROGRAM
from tests.plugin.cluster.wire import Wire, faulty_wire


@dataclass
class Place:
    """A namespace on the real server with the DaemonSet `agent`, which no controller acts on."""

    plane: ControlPlane
    namespace: str
    api: Api

    async def act(self, *words: str, code: int = 0) -> str:
        """Run the plugin as a program; returns what it printed."""
        process = await asyncio.create_subprocess_exec(
            *(*PROGRAM, *words, "-n", self.namespace),
            f"--kubeconfig={self.plane.kubeconfig}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == code, err.decode()
        return out.decode()

    async def agent(self) -> Object:
        return await self.api.get(DAEMONSETS, "agent")

    async def rolling(self) -> Object:
        settings: Object = (await self.agent())["spec"]["updateStrategy"]["rollingUpdate"]
        return settings


@pytest.fixture
def place(plane: ControlPlane, real_api: Api) -> Place:
    return Place(plane, real_api.namespace, real_api)


@dataclass
class Bed:
    """`agent` in a namespace of its own, and a program that reaches it over `wire`."""

    place: Place
    wire: Wire

    async def run(self, *words: str, seconds: float = 60.0) -> tuple[int, str, str]:
        options = ("-n", self.place.namespace, f"--server={self.wire.url}")
        command = (sys.executable, "-m", "kubectl_plugin", *words, *options)
        return await run_to_end(command, {"PATH": ""}, seconds=seconds)

    async def agent(self) -> Object:
        return await self.place.api.get(DAEMONSETS, "agent")


@pytest.fixture
async def bed(place: Place, plane: ControlPlane) -> AsyncIterator[Bed]:
    async with faulty_wire(plane) as wire:
        yield Bed(place, wire)
