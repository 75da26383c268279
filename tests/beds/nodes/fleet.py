"""The machines of demos and of most tests: worker-01, worker-02 … in three zones."""

from __future__ import annotations

import asyncio

from tests.beds.nodes.play import Nodes

ZONE_LABEL = "topology.kubernetes.io/zone"
ZONES = ("zone-a", "zone-b", "zone-c")
AT_ONCE = 8


def worker(number: int) -> str:
    """The name of the `number`th machine, counted from 1."""
    return f"worker-{number:02d}"


def labels_of(number: int) -> dict[str, str]:
    """The zones take turns."""
    return {ZONE_LABEL: ZONES[(number - 1) % len(ZONES)], "node-role.kubernetes.io/worker": ""}


async def add_workers(nodes: Nodes, count: int) -> list[str]:
    """Add worker-01 to worker-`count`; returns their names."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def add(number: int) -> None:
        async with gate:
            await nodes.add(worker(number), labels=labels_of(number))

    async with asyncio.TaskGroup() as group:
        for number in range(1, count + 1):
            group.create_task(add(number))
    return [worker(number) for number in range(1, count + 1)]
