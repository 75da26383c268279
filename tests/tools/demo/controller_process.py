"""The controller as its own process, by its real command line."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.beds.control_plane import Process
from tests.beds.control_plane.access import get
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.control_plane.processes import ProcessError, free_port
from tests.tools.demo.bed import DemoCluster

CHECKOUT = Path(__file__).resolve().parents[3]
START_SECONDS, DRAIN_SECONDS = 60.0, 20.0


def command_line(bed: DemoCluster, *more: str) -> list[str]:
    """What starts the controller on `bed`; `kruise-ds-controller` is the same as `python -m controller`."""
    return [sys.executable, "-m", "controller", "--kubeconfig", str(bed.controller_kubeconfig), *more]


def start(bed: DemoCluster, command: Sequence[str]) -> Process:
    """Start this checkout's controller; its log is `Process.log`. The caller's own settings do not reach it."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("KRUISE_DS_")}
    return Process("controller", command, folder=bed.folder, env={**ours, "PYTHONPATH": str(CHECKOUT)})


@asynccontextmanager
async def running_controller(bed: DemoCluster) -> AsyncIterator[Process]:
    """Run the controller, from when it is ready. When it ends by itself, so does the block: ProcessError."""
    health = f"{LOOPBACK}:{free_port()}"
    process = start(bed, _alone(bed, health))

    async def ready() -> bool:
        return (await get(f"http://{health}/readyz"))[0] == 200

    try:
        await process.until(ready, what="ready", seconds=START_SECONDS)
        async with asyncio.TaskGroup() as group:
            guard = group.create_task(_must_live(process))
            yield process
            guard.cancel()
    finally:
        await process.stop(grace=DRAIN_SECONDS)


def _alone(bed: DemoCluster, health: str) -> list[str]:
    return command_line(
        bed, "--no-leader-elect", "--metrics-bind-address", "0", "--health-probe-bind-address", health
    )


async def _must_live(process: Process) -> None:
    code = await process.ended()
    raise ProcessError(f"the controller ended with {code}{process.tail()}")
