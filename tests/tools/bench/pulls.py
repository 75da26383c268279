"""An ImagePullJob for many nodes: how much memory the controller's process had at most, with and without it, and how
long it takes beside the arithmetic. A simulated server and kubelets in this process, the controller in its own."""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from controller.runtime.clock import system_clock
from tests.beds.api import IMAGE_PULL_JOBS, NAMESPACES, NODES, Api
from tests.beds.control_plane import Process
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.control_plane.processes import free_port
from tests.beds.nodes import Behaviour, Nodes
from tests.beds.nodes.fleet import add_workers
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.server import serving, write_kubeconfig
from tests.beds.simulator.transport import InProcess
from tests.tools.bench import proc, wire
from tests.tools.bench.bed import ROOT
from tests.tools.bench.figures import MEMORY, Report, layout
from tests.tools.bench.peers import flags_of, ready

FLEET, AT_ONCE, SECONDS = 5000, 50, 2.0
"""Nodes, on how many of them it is pulled at a time, and for how long."""
PATIENCE = 1800.0


def pulls(say: Callable[[str], None]) -> Report:
    return Report(asyncio.run(_pulls(say)))


async def _pulls(say: Callable[[str], None]) -> str:
    cluster = Cluster(system_clock)
    with TemporaryDirectory() as folder:
        async with (
            serving(InProcess(cluster, keep=0), port=0) as url,
            Nodes(InProcess(cluster, keep=0), behaviour=Behaviour(pull=SECONDS)) as machines,
        ):
            say(f"{FLEET} nodes with {len(wire.node(0)['status']['images'])} images each")
            api = Api(InProcess(cluster, keep=0), "bench")
            await api.create(NAMESPACES, {"metadata": {"name": "bench"}})
            for name in await add_workers(machines, FLEET):
                await api.patch(NODES, name, {"status": {"images": wire.node(0)["status"]["images"]}}, sub="status")
            kubeconfig = Path(folder) / "kubeconfig"
            write_kubeconfig(kubeconfig, url)
            async with _controller(kubeconfig) as process:
                before = proc.peak_mebibytes(process.pid)
                say(f"one image on all of them, {AT_ONCE} at a time")
                seconds = await _carried_out(api)
                after = proc.peak_mebibytes(process.pid)
    target = MEMORY.target_at(FLEET) or 0.0
    least = math.ceil(FLEET / AT_ONCE) * SECONDS
    head = ("an image on many nodes", "ours", "target", "")
    rows = [
        ("peak resident memory with the caches full (MiB)", f"{before:.0f}", "", ""),
        ("and after the job (MiB)", f"{after:.0f}", f"{target:.0f}", "met" if after <= target else "MISSED"),
        ("time / that of the pulls alone", f"{seconds / least:.2f}", "", ""),
    ]
    return f"{FLEET} nodes, {AT_ONCE} at a time\n" + layout([head, *rows])


async def _carried_out(api: Api) -> float:
    """Seconds from the job's creation until it is over."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    spec = {"image": "registry.example/agent:v2", "parallelism": AT_ONCE, "completionPolicy": {"type": "Always"}}
    await api.create(IMAGE_PULL_JOBS, {"metadata": {"name": "pull"}, "spec": spec})
    (job,) = await api.wait_for(
        IMAGE_PULL_JOBS,
        lambda found: bool(found and (found[0].get("status") or {}).get("completionTime")),
        "the job is over",
        seconds=PATIENCE,
    )
    assert job["status"]["succeeded"] == FLEET, job["status"]
    return loop.time() - began


@asynccontextmanager
async def _controller(kubeconfig: Path) -> AsyncIterator[Process]:
    health = f"{LOOPBACK}:{free_port()}"
    flags = {
        "kubeconfig": str(kubeconfig),
        "feature-gates": "PreDownloadImageForDaemonSetUpdate=true",
        "metrics-bind-address": f"{LOOPBACK}:{free_port()}",
        "health-probe-bind-address": health,
    }
    command = [sys.executable, "-m", "controller", "--no-leader-elect", *flags_of(flags)]
    process = Process("ours", command, folder=kubeconfig.parent, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        await ready(process, health, seconds=PATIENCE)
        yield process
    finally:
        await process.stop(grace=10)
