"""kwok at work against one control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.beds.control_plane import ControlPlane, Process
from tests.beds.control_plane.access import get
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.control_plane.processes import free_port

STAGES = Path(__file__).parent / "stages.yaml"


@asynccontextmanager
async def kwok_nodes(plane: ControlPlane, kwok: Path) -> AsyncIterator[Process]:
    """Play every node of `plane`, those that exist and those to come, until the block ends.

    No lease is renewed: no node writes anything once it is ready.
    """
    port = free_port()
    flags = {
        "kubeconfig": str(plane.kubeconfig),
        "config": str(STAGES),
        "manage-all-nodes": "true",
        "node-lease-duration-seconds": "0",
        "server-address": f"{LOOPBACK}:{port}",
    }
    command = [str(kwok), *(f"--{name}={value}" for name, value in flags.items())]
    process = Process("kwok", command, folder=plane.folder)

    async def healthy() -> bool:
        return (await get(f"http://{LOOPBACK}:{port}/healthz"))[0] == 200

    try:
        await process.until(healthy, what="healthy", seconds=60)
        yield process
    finally:
        await process.stop()
