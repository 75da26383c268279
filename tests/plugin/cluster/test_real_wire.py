"""The program on a real API server behind a wire on which some requests hang, or get another's answer.

Where something hangs it does so for ever, and the program is told to wait for ever: that it ends at all is the proof.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from tests.beds.api import DAEMONSETS, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.kubectl import run_to_end
from tests.plugin.cluster.test_real_acting import Place, place
from tests.plugin.cluster.wire import Fault, Wire, faulty_wire

pytestmark = pytest.mark.real
__all__ = ["place"]

FOR_EVER = "--request-timeout=0"


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


async def test_a_pause_and_a_resume_are_written_though_nothing_can_be_listed(bed: Bed) -> None:
    bed.wire.faults += [
        Fault("GET /api/v1/nodes*"),
        Fault("GET /api/v1/namespaces/*/pods*"),
        Fault("GET */controllerrevisions*"),
        Fault("POST */selfsubjectreviews*"),
        Fault("POST */events*"),
        Fault("GET */leases/*"),
    ]
    for verb, paused in (("pause", True), ("resume", False)):
        code, out, err = await bed.run(verb, "agent", FOR_EVER)
        assert (code, out[: out.find("\n")]) == (0, f"daemonset.apps.kruise.io/agent {verb}d"), err
        assert "note: less can be said: nodes: no answer within 1s" in err
        assert (await bed.agent())["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is paused
