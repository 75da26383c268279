"""The controller as its own process, by its real command line."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.control_plane import Process
from tests.control_plane.processes import ProcessError
from tests.demo.bed import Bed

CHECKOUT = Path(__file__).resolve().parents[2]
DRAIN_SECONDS = 20.0


def command_line(bed: Bed, *more: str) -> list[str]:
    """What starts the controller on `bed`; `kruise-ds-controller` is the same as `python -m controller`."""
    options = ["--kubeconfig", str(bed.controller_kubeconfig), "--no-leader-elect", *more]
    return [sys.executable, "-m", "controller", *options]


def start(bed: Bed, command: Sequence[str]) -> Process:
    """Start this checkout's controller; its log is `Process.log`. The caller's own settings do not reach it."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("KRUISE_DS_")}
    return Process("controller", command, folder=bed.folder, env={**ours, "PYTHONPATH": str(CHECKOUT)})


@asynccontextmanager
async def running_controller(bed: Bed) -> AsyncIterator[Process]:
    """Run the controller without ports of its own. When it ends by itself, so does the block: ProcessError."""
    process = start(bed, command_line(bed, "--metrics-bind-address", "0", "--health-probe-bind-address", "0"))
    try:
        async with asyncio.TaskGroup() as group:
            guard = group.create_task(_must_live(process))
            yield process
            guard.cancel()
    finally:
        await process.stop(grace=DRAIN_SECONDS)


async def _must_live(process: Process) -> None:
    code = await process.ended()
    raise ProcessError(f"the controller ended with {code}{process.tail()}")
