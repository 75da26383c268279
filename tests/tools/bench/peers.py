"""The controllers that are compared, and how each is started."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.beds.control_plane import ControlPlane, Process
from tests.beds.control_plane.access import get
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.control_plane.processes import free_port
from tests.beds.openkruise import other_crds
from tests.tools.bench.bed import NAMESPACE, NATIVE, OPENKRUISE, OURS, ROOT

WAITS = "waits.jsonl"
"""Of our last process, in the folder of the control plane."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A controller, the API that it serves, and the user whose requests are its own in the audit log."""

    name: str
    api_version: str
    user: str
    start: Callable[[ControlPlane], Awaitable[Process]]
    """Returns when it is healthy."""
    needs: Callable[[], Sequence[Path]] = tuple
    """Manifests of what it looks for when it starts."""

    @property
    def collection(self) -> str:
        """Path of the DaemonSets of the bench."""
        return f"/apis/{self.api_version}/namespaces/{NAMESPACE}/daemonsets"

    async def prepare(self, plane: ControlPlane) -> None:
        for path in self.needs():
            done = await plane.run_kubectl("apply", "--server-side", "-f", str(path))
            assert done.returncode == 0, done.stderr

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


async def _start_ours(profiler: Sequence[str], plane: ControlPlane) -> Process:
    """As in a pod."""
    account = plane.folder / "account"
    account.mkdir(exist_ok=True)
    (account / "token").write_text(OURS.token)
    (account / "ca.crt").write_bytes(plane.ca_path.read_bytes())
    health = f"{LOOPBACK}:{free_port()}"
    flags = {"metrics-bind-address": f"{LOOPBACK}:{free_port()}", "health-probe-bind-address": health}
    options = [str(account), str(plane.folder / WAITS), "--no-leader-elect", *flags_of(flags)]
    command = [sys.executable, *profiler, "-m", "tests.tools.bench.in_pod", *options]
    host, port = plane.url.removeprefix("https://").split(":")
    environ = {"PYTHONPATH": str(ROOT), "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    return await ready(Process("ours", command, folder=plane.folder, env={**os.environ, **environ}), health)


async def _start_openkruise(plane: ControlPlane) -> Process:
    """Without a brake on its requests, without what its node agent carries out, and with webhooks that are registered
    for nothing."""
    health = f"{LOOPBACK}:{free_port()}"
    flags = {
        "kubeconfig": str(plane.kubeconfig_for(OPENKRUISE)),
        "metrics-addr": f"{LOOPBACK}:{free_port()}",
        "health-probe-addr": health,
        "enable-leader-election": "false",
        "enable-pprof": "false",
        "feature-gates": "KruiseDaemon=false,PodWebhook=false",
        "rest-config-qps": "5000",
        "rest-config-burst": "10000",
    }
    webhooks = {"HOST": "localhost", "PORT": str(free_port()), "CERT_DIR": str(plane.folder / "openkruise")}
    environ = {**os.environ, **{f"WEBHOOK_{name}": value for name, value in webhooks.items()}}
    command = [os.environ["KRUISE_MANAGER"], *flags_of(flags)]
    process = Process("openkruise", command, folder=plane.folder, env=environ)
    return await ready(process, health, '"Starting workers" "controller"="daemonset-controller"')


def flags_of(values: Mapping[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items()]


async def ready(process: Process, health: str, says: str = "", seconds: float = 60) -> Process:
    async def is_ready() -> bool:
        return (await get(f"http://{health}/readyz"))[0] == 200 and says in process.log.read_text()

    try:
        await process.until(is_ready, what="ready", seconds=seconds)
    except BaseException:
        process.kill()
        raise
    return process


def _needs() -> list[Path]:
    return [Path(__file__).parent / "openkruise.yaml", *other_crds()]


NATIVE_PEER = Peer("native", "apps/v1", NATIVE.name, _start_native)
OPENKRUISE_PEER = Peer("openkruise", "apps.kruise.io/v1alpha1", OPENKRUISE.name, _start_openkruise, _needs)


def our_peer(*profiler: str) -> Peer:
    """`profiler`: what Python runs around it."""
    return Peer("ours", "apps.kruise.io/v1beta1", OURS.name, partial(_start_ours, profiler))


def peers(environ: Mapping[str, str]) -> Sequence[Peer]:
    """`$KRUISE_MANAGER`: OpenKruise's binary. `$PROFILE`: the file for cProfile's account of our last process."""
    profiler = ("-m", "cProfile", "-o", os.path.abspath(environ["PROFILE"])) if environ.get("PROFILE") else ()
    third = [OPENKRUISE_PEER] if environ.get("KRUISE_MANAGER") else []
    return (NATIVE_PEER, *third, our_peer(*profiler))
