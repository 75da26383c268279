"""`python -m tests.beds.real_node fetch|up`: get what a node runs, or run a cluster of nodes until interrupted."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence

from tests.beds.control_plane import ControlPlaneUnavailable, ProcessError, obtain
from tests.beds.control_plane.cache import say
from tests.beds.real_node.binaries import NodeUnavailable, obtain_node
from tests.beds.real_node.cluster import real_cluster
from tests.beds.real_node.requirements import missing


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0, or 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m tests.beds.real_node", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("fetch", help="obtain the programs and print their folder")
    up = actions.add_parser("up", help="start a control plane and nodes; Ctrl-C ends them")
    up.add_argument("--nodes", type=int, default=1, choices=range(1, 4))
    options = parser.parse_args(arguments)
    if reasons := missing():
        print(f"NO REAL NODES, this machine can have none: {'; '.join(reasons)}", file=sys.stderr)
        return 0 if options.action == "fetch" else 1
    try:
        if options.action == "fetch":
            print(obtain_node().folder)
        else:
            asyncio.run(run_until_interrupted(options.nodes))
    except (ControlPlaneUnavailable, NodeUnavailable, ProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


async def run_until_interrupted(count: int) -> None:
    """Run a cluster, say how to point kubectl at it, and take it down on SIGINT or SIGTERM."""
    control, programs = obtain(complete=True), obtain_node()
    async with real_cluster(control, programs, [f"node-{number}" for number in range(1, count + 1)]) as cluster:
        say(f"{', '.join(cluster.nodes)} Ready; they pull from {cluster.registry.address}, whatever an image's host")
        print(f"export KUBECONFIG={cluster.plane.kubeconfig}\nexport PATH={control.folder}:$PATH", flush=True)
        say("Ctrl-C ends it, and nothing of it stays")
        asked = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, asked.set)
        await asked.wait()


if __name__ == "__main__":
    sys.exit(main())
