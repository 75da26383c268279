"""A leader whose event loop is blocked: the installed program, with its own Lease and watchdog, in real time."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from controller.api.wellknown import LEASE_NAME
from controller.kube.request import Request, Response, Stream, Transport
from controller.runtime.clock import system_clock
from controller.runtime.lease_rules import Timing
from tests.beds.api import LEASES, Api
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.kubeconfig import write_kubeconfig
from tests.beds.simulator.route import route
from tests.beds.simulator.server import serving
from tests.beds.simulator.transport import InProcess

PATIENCE = 120.0
OUTLIVED = 7

PROGRAM = f"""
import os, signal, time
from controller.__main__ import main

def block(*_):
    time.sleep({Timing().duration})
    os._exit({OUTLIVED})

signal.signal(signal.SIGUSR1, block)
main()
"""
"""Handlers run in the thread of the event loop. Once the Lease has run out, somebody else may lead."""


class Renewed:
    """A `Transport` that tells when a leader has renewed its Lease: it leads since the write before that."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._patched = 0
        self.happened = asyncio.Event()

    async def exchange(self, request: Request) -> Response:
        where = route(request)
        if where.verb == "patch" and where.plural == "leases":
            self._patched += 1
            if self._patched > 1:
                self.happened.set()
        return await self._inner.exchange(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(request)


async def test_a_leader_whose_loop_is_blocked_ends_before_its_lease_does(tmp_path: Path) -> None:
    cluster = Cluster(system_clock)
    renewed = Renewed(InProcess(cluster))
    lease = {"metadata": {"name": LEASE_NAME}}  # so that it leads at once
    await Api(InProcess(cluster), "kruise-ds-system").create(LEASES, lease)
    async with serving(renewed) as url, asyncio.timeout(PATIENCE):
        write_kubeconfig(tmp_path / "config", url)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM),
            *("--kubeconfig", str(tmp_path / "config")),
            *("--metrics-bind-address", "0", "--health-probe-bind-address", "0"),
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            await renewed.happened.wait()
            process.send_signal(signal.SIGUSR1)
            _, told = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 1, "by itself, in time"
    assert told.endswith(b"the event loop was blocked past the leader lease; ending the process\n")
