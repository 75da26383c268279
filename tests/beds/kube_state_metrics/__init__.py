"""kube-state-metrics, built from its published module, against one control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.beds.control_plane import ControlPlane, Process
from tests.beds.control_plane.access import User, get
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.control_plane.golang import obtain_go_tool
from tests.beds.control_plane.processes import free_port
from tests.beds.manifests import MANIFESTS

FOLDER = MANIFESTS / "kube-state-metrics"
CONFIGURATION, ROLE = FOLDER / "custom-resource-state.yaml", FOLDER / "clusterrole.yaml"
PATIENCE = 60.0


def obtain_kube_state_metrics() -> Path:
    """The path of the program, built when the cache has none; raises `Unavailable`."""
    return obtain_go_tool(Path(__file__).parent, "kube-state-metrics")


@asynccontextmanager
async def state_metrics(plane: ControlPlane, program: Path, user: User, *resources: str) -> AsyncIterator[int]:
    """One with our configuration, of `user`'s rights, that also watches these native resources; its port."""
    port, telemetry = free_port(), free_port()
    flags = {
        "kubeconfig": str(plane.kubeconfig_for(user)),
        "custom-resource-state-config-file": str(CONFIGURATION),
        "resources": ",".join(resources),
        "host": LOOPBACK,
        "port": str(port),
        "telemetry-host": LOOPBACK,
        "telemetry-port": str(telemetry),
    }
    command = [str(program), *(f"--{name}={value}" for name, value in flags.items())]
    process = Process("kube-state-metrics", command, folder=plane.folder)

    async def ready() -> bool:
        return (await get(f"http://{LOOPBACK}:{port}/livez"))[0] == 200

    try:
        await process.until(ready, what="ready", seconds=PATIENCE)
        yield port
    finally:
        await process.stop()
