"""`python -m tests.beds.real_node fetch|up|images`: get what a node and its control plane run, run nodes until
interrupted, or write the images that tests roll out, for another cluster to load."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.beds.control_plane import ProcessError, obtain
from tests.beds.control_plane.sources import Unavailable, say
from tests.beds.oci import write_archive
from tests.beds.real_node.binaries import missing, obtain_agent, obtain_node
from tests.beds.real_node.cluster import real_cluster
from tests.beds.real_node.registry import HOST, Images


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0, or 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m tests.beds.real_node", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("fetch", help="obtain the programs and print their folders")
    up = actions.add_parser("up", help="start a control plane and nodes; Ctrl-C ends them")
    up.add_argument("--nodes", type=int, default=1, choices=range(1, 4))
    up.add_argument("--load", type=Path, action="append", default=[], help="archive of images for each node")
    images = actions.add_parser("images", help="write the agent's images into an archive")
    images.add_argument("archive", type=Path)
    options = parser.parse_args(arguments)
    if options.action != "images" and (reasons := missing()):
        print(f"NO REAL NODES, this machine can have none: {'; '.join(reasons)}", file=sys.stderr)
        return 0 if options.action == "fetch" else 1
    try:
        if options.action == "fetch":
            print(obtain().folder, obtain_node().folder, sep="\n")
        elif options.action == "images":
            made = Images(obtain_agent()).versions()
            print(write_archive(options.archive, {f"{HOST}/{name}": image for name, image in made.items()}))
        else:
            asyncio.run(run_until_interrupted(options.nodes, options.load))
    except (Unavailable, ProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


async def run_until_interrupted(count: int, archives: Sequence[Path]) -> None:
    """Run a cluster, say how to point kubectl at it, and take it down on SIGINT or SIGTERM."""
    control, programs, asked = obtain(), obtain_node(), asyncio.Event()
    async with real_cluster(control, programs, [f"node-{number}" for number in range(1, count + 1)]) as cluster:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, asked.set)
        for name, image in cluster.images.versions().items():
            cluster.registry.put(name, image)
        async with asyncio.TaskGroup() as loading:
            for node in cluster.nodes.values():
                for archive in archives:
                    loading.create_task(node.load(archive))
        say(f"{', '.join(cluster.nodes)} Ready; they pull from {cluster.registry.address}, whatever an image's host")
        print(f"export KUBECONFIG={cluster.plane.kubeconfig}\nexport PATH={control.folder}:$PATH", flush=True)
        say("Ctrl-C ends it, and nothing of it stays")
        await asked.wait()


if __name__ == "__main__":
    sys.exit(main())
