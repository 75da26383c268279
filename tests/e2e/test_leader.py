"""A leader whose event loop is blocked. Fail-over is in test_interrupted.py."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from controller.api.names import LEASE_NAME
from controller.runtime.clock import system_clock
from controller.runtime.leader_election import LEASE_DURATION
from tests.beds.api import LEASES, Api, Object
from tests.beds.simulator import Cluster, InProcess, serving
from tests.beds.simulator.server import write_kubeconfig

OUTLIVED = 7
PROGRAM = f"""
import os, signal, time
from controller.__main__ import main

def block(*_):
    time.sleep({LEASE_DURATION})
    os._exit({OUTLIVED})

signal.signal(signal.SIGUSR1, block)
main()
"""
"""Handlers run in the thread of the event loop. Once the Lease has run out, another process may lead."""


@pytest.mark.real  # a Lease runs out in real time
async def test_a_leader_whose_loop_is_blocked_ends_before_its_lease_does(tmp_path: Path) -> None:
    cluster, renewals = Cluster(system_clock), set[str]()
    api = Api(InProcess(cluster), "kruise-ds-system")
    await api.create(LEASES, {"metadata": {"name": LEASE_NAME}})  # so that it leads at once

    def renewed(leases: list[Object]) -> bool:
        renewals.update(one["spec"]["renewTime"] for one in leases if one.get("spec"))
        return len(renewals) > 1

    async with serving(InProcess(cluster)) as url, asyncio.timeout(120):
        write_kubeconfig(tmp_path / "config", url)
        options = (
            "--kubeconfig",
            str(tmp_path / "config"),
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, *options, stderr=asyncio.subprocess.PIPE
        )
        try:
            await api.wait_for(LEASES, renewed, "it leads, and has renewed its Lease")
            process.send_signal(signal.SIGUSR1)
            _, told = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 1, "by itself, in time"
    assert b"\nTimeout (" in told, "where it was blocked"
