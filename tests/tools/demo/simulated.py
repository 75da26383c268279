"""The simulated cluster: in memory, with a door for the controller that counts who goes through, and another one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from controller.runtime.clock import system_clock
from tests.beds.control_plane.processes import temporary_folder
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.server import serving, write_kubeconfig
from tests.beds.simulator.transport import InProcess
from tests.tools.demo.bed import DemoCluster, Writes


@asynccontextmanager
async def simulated_bed() -> AsyncIterator[DemoCluster]:
    """A cluster without nodes, for as long as the block runs."""
    cluster = Cluster(system_clock)
    door = InProcess(cluster)

    def writes() -> Writes:
        real = [seen for seen in door.writes() if ("dryRun", "All") not in seen.request.query]
        return Writes.of((f"{seen.route.verb} {seen.route.resource}", seen.status) for seen in real)

    with temporary_folder() as folder:
        async with serving(door) as url, serving(InProcess(cluster, keep=0)) as not_counted:
            write_kubeconfig(controller := folder / "controller.kubeconfig", url)
            write_kubeconfig(kubeconfig := folder / "kubeconfig", not_counted)
            yield DemoCluster(
                title="simulated cluster",
                transport=InProcess(cluster, keep=0),
                folder=folder,
                controller_kubeconfig=controller,
                kubeconfig=kubeconfig,
                has_scheduler=False,
                controller_writes=writes,
            )
