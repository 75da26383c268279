"""The two controllers that are compared, and how each is started."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.beds.control_plane import ControlPlane, Process
from tests.beds.control_plane.access import get
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.control_plane.processes import free_port
from tests.tools.bench.bed import NAMESPACE, NATIVE, OURS, ROOT


@dataclass(frozen=True, slots=True)
class Peer:
    """A controller, the API that it serves, and the user whose requests are its own in the audit log."""

    name: str
    api_version: str
    user: str
    start: Callable[[ControlPlane], Awaitable[Process]]
    """Returns when it is healthy."""

    @property
    def collection(self) -> str:
        """Path of the DaemonSets of the bench."""
        return f"/apis/{self.api_version}/namespaces/{NAMESPACE}/daemonsets"

    @asynccontextmanager
    async def running(self, plane: ControlPlane) -> AsyncIterator[Process]:
        process = await self.start(plane)
        try:
            yield process
        finally:
            await process.stop(grace=10)


async def _start_native(plane: ControlPlane) -> Process:
    kubeconfig = plane.kubeconfig_for(NATIVE)
    return await plane.start_controller_manager(["daemonset-controller"], name="native", kubeconfig=kubeconfig)


async def _start_ours(plane: ControlPlane) -> Process:
    health = f"{LOOPBACK}:{free_port()}"
    flags = {
        "kubeconfig": str(plane.kubeconfig_for(OURS)),
        "metrics-bind-address": f"{LOOPBACK}:{free_port()}",
        "health-probe-bind-address": health,
    }
    command = [sys.executable, "-m", "controller", "--no-leader-elect"]
    command += [f"--{name}={value}" for name, value in flags.items()]
    process = Process("ours", command, folder=plane.folder, env={**os.environ, "PYTHONPATH": str(ROOT)})

    async def ready() -> bool:
        return (await get(f"http://{health}/readyz"))[0] == 200

    try:
        await process.until(ready, what="ready", seconds=60)
    except BaseException:
        process.kill()
        raise
    return process


NATIVE_PEER = Peer("native", "apps/v1", NATIVE.name, _start_native)
OUR_PEER = Peer("ours", "apps.kruise.io/v1beta1", OURS.name, _start_ours)
