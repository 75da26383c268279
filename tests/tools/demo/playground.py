"""A cluster for your own kubectl, until Ctrl-C."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path

from tests.beds.control_plane import Binaries, ControlPlane, Process
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.control_plane.processes import free_port
from tests.beds.nodes import Nodes
from tests.tools.demo import fleet
from tests.tools.demo.controller_process import DRAIN_SECONDS, command_line, start
from tests.tools.demo.real import MANIFESTS, real_plane

PROGRAMS = Path(sys.executable).parent
"""Where `kubectl-kruise_ds` is."""


async def play(binaries: Binaries) -> None:
    """Run control plane, nodes and controller, and say how to use them. Ends only by being cancelled."""
    print(f"Starting Kubernetes {binaries.version}", flush=True)
    async with (
        real_plane(binaries, audit=False) as (plane, bed),
        Nodes(bed.transport, schedule=not bed.has_scheduler) as nodes,
    ):
        await fleet.join(nodes, pace=1.0)
        metrics = f"{LOOPBACK}:{free_port()}"
        command = command_line(bed, "--metrics-bind-address", metrics, "--health-probe-bind-address", "0")
        controller = start(bed, command)
        try:
            print(_greeting(plane, bed.title, controller, metrics), flush=True)
            code = await controller.ended()
            print(f"The controller ended with {code}{controller.tail(5)}", file=sys.stderr)
            print(f"The cluster goes on. Start it again with:\n  {shlex.join(command)}", file=sys.stderr)
            await asyncio.Event().wait()
        finally:
            await controller.stop(grace=DRAIN_SECONDS)


def _greeting(plane: ControlPlane, title: str, controller: Process, metrics: str) -> str:
    sample = shlex.quote(str(MANIFESTS / "samples" / "ds.demo.yaml"))
    return f"""
{title} with {len(fleet.NAMES)} nodes in three zones and the controller (process {controller.pid})
is ready at {plane.url}.

In another terminal:
  export KUBECONFIG={plane.kubeconfig}
  export PATH={plane.kubectl.parent}:{PROGRAMS}:$PATH

Try:
  kubectl apply -f {sample}
  kubectl get ads,pods -o wide
  kubectl kruise-ds set-image demo '*=busybox:1.37' --hold-at 16
  kubectl kruise-ds status demo -w
  kubectl kruise-ds plan demo --partition 0
  kubectl kruise-ds rollback demo -y

The controller's log:     {controller.log}
The controller's metrics: http://{metrics}/metrics
Ctrl-C here ends all of it and removes its folder."""
