"""A simulated cluster to play with: `python -m tests.beds.simulator --nodes 24 --kubeconfig FILE`."""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

from controller.runtime.clock import system_clock
from tests.beds.nodes import INSTANT, LIFELIKE, Nodes
from tests.beds.nodes.fleet import add_workers
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.server import serving, write_kubeconfig
from tests.beds.simulator.transport import InProcess


async def play(*, nodes: int, port: int, kubeconfig: Path | None, lifelike: bool, watch_list: bool) -> None:
    """Serve until SIGINT or SIGTERM. The line `serving URL` is printed once everything is there."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    cluster = Cluster(system_clock, watch_list=watch_list)
    behaviour = LIFELIKE if lifelike else INSTANT
    async with (
        serving(InProcess(cluster, keep=0), port=port) as url,
        Nodes(InProcess(cluster, keep=0), behaviour=behaviour, heartbeat=10.0, pod_garbage=40.0) as machines,
    ):
        await add_workers(machines, nodes)
        if kubeconfig is not None:
            write_kubeconfig(kubeconfig, url)
            print(f"kubeconfig {kubeconfig}", flush=True)
        print(f"serving {url} with {nodes} nodes", flush=True)
        await stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.beds.simulator", description=__doc__)
    parser.add_argument("--nodes", type=int, default=24, help="how many machines (default: 24)")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1 (default: a free one)")
    parser.add_argument("--kubeconfig", type=Path, help="write a kubeconfig to this file")
    parser.add_argument("--instant", action="store_true", help="pods are ready and gone at once, not after seconds")
    parser.add_argument("--no-watch-list", action="store_true", help="refuse sendInitialEvents, as older servers do")
    asked = parser.parse_args()
    asyncio.run(
        play(
            nodes=asked.nodes,
            port=asked.port,
            kubeconfig=asked.kubeconfig,
            lifelike=not asked.instant,
            watch_list=not asked.no_watch_list,
        )
    )


if __name__ == "__main__":
    main()
