"""`python -m tests.beds.control_plane fetch|up`: get the binaries, or run a control plane until interrupted."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence

from tests.beds.control_plane.binaries import Binaries, obtain
from tests.beds.control_plane.cluster import DEFAULT_CONTROLLERS, ControlPlane
from tests.beds.control_plane.processes import ProcessError
from tests.beds.control_plane.sources import Unavailable, say


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0, or 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m tests.beds.control_plane", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("fetch", help="obtain the binaries and print their folder")
    up = actions.add_parser("up", help="start the control plane; Ctrl-C ends it")
    up.add_argument("--no-scheduler", action="store_true", help="leave pods unbound that no one else binds")
    options = parser.parse_args(arguments)
    try:
        binaries = obtain()
        if options.action == "fetch":
            print(binaries.folder)
        else:
            asyncio.run(run_until_interrupted(binaries, scheduler=not options.no_scheduler))
    except (Unavailable, ProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


async def run_until_interrupted(binaries: Binaries, *, scheduler: bool) -> None:
    """Run a control plane, say how to point kubectl at it, and take it down on SIGINT or SIGTERM."""
    loop, begun = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    async with ControlPlane(binaries, controllers=DEFAULT_CONTROLLERS, scheduler=scheduler) as plane:
        say(f"Kubernetes {binaries.version} is ready at {plane.url} after {loop.time() - begun:.1f} s")
        print(f"export KUBECONFIG={plane.kubeconfig}\nexport PATH={plane.kubectl.parent}:$PATH", flush=True)
        say("Ctrl-C ends it and removes its folder")
        asked = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, asked.set)
        await asked.wait()


if __name__ == "__main__":
    sys.exit(main())
