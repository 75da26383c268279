"""Plain `kubectl get ads -w` beside the real controller: whoever has no plugin sees how far a rollout is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.beds.control_plane import ControlPlane
from tests.beds.installed.workspace import Workspace, sample

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller")]

NODES = ("seen-0", "seen-1", "seen-2", "seen-3")


class Watch:
    """`rows`: what was printed so far, by the names of the columns."""

    def __init__(self, out: asyncio.StreamReader) -> None:
        self._out = out
        self._titles: list[str] = []
        self.rows: list[dict[str, str]] = []

    async def until(self, **cells: str) -> None:
        """Read on to the first row with these cells."""
        async with asyncio.timeout(60):
            while not self.rows or not cells.items() <= self.rows[-1].items():
                line = (await self._out.readline()).decode()
                assert line, f"kubectl has ended; it printed {self.rows}"
                printed = re.split(" {2,}", line.strip())
                if self._titles:
                    self.rows.append(dict(zip(self._titles, printed, strict=True)))
                else:
                    self._titles = printed


@asynccontextmanager
async def watching(plane: ControlPlane, bed: Workspace) -> AsyncIterator[Watch]:
    words = ("get", "ads", "demo", "--watch", "--output=wide", f"--namespace={bed.namespace}")
    process = await asyncio.create_subprocess_exec(
        str(plane.kubectl), f"--kubeconfig={plane.kubeconfig}", *words, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield Watch(process.stdout)
    finally:
        process.kill()
        await process.wait()


async def test_a_watch_shows_each_step_of_a_rollout(plane: ControlPlane, bed: Workspace) -> None:
    await bed.workers(*NODES)
    demo = sample("ds.demo.yaml")
    await bed.apply(demo)
    await bed.settled(len(NODES))
    async with watching(plane, bed) as watch:
        await watch.until(PHASE="Healthy", TARGET="4", DONE="4", PARTITION="0")
        old = watch.rows[-1]["REVISION"]
        demo["spec"]["template"]["metadata"]["labels"]["ver"] = "v2"
        for done, partition in ((1, "75%"), (2, 2), (3, 1)):
            demo["spec"]["updateStrategy"] = {"rollingUpdate": {"partition": partition}}
            await bed.apply(demo)
            await watch.until(PHASE="Held", TARGET=str(done), DONE=str(done), PARTITION=str(partition))
        demo["spec"]["updateStrategy"] = {"rollingUpdate": {"partition": 0}}
        await bed.apply(demo)
        await watch.until(PHASE="Healthy", TARGET="4", DONE="4", PARTITION="0")
    (new,) = {pod["metadata"]["labels"]["controller-revision-hash"] for pod in await bed.pods()}
    of_new = [row for row in watch.rows if row["REVISION"] == new != old]
    done_so_far = [row["DONE"] for row in of_new]
    assert {*done_so_far} >= {"1", "2", "3", "4"}
    assert done_so_far == sorted(done_so_far), "no step back, and none of the revision before"
