"""What a controller and the control plane have used so far, to be read before and after a change."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.access import get, run_to_end
from tests.tools.bench.proc import cpu_seconds

PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
WATCH_EVENTS = "apiserver_watch_events_total"
_BYTES = re.compile(r" bytes_(?:acked|received):(\d+)")


@dataclass(frozen=True, slots=True)
class Usage:
    cpu: float
    """Seconds of the controller."""
    plane_cpu: float
    """Seconds of etcd, API server, scheduler and the controllers that collect garbage."""
    watch_events: float
    """Sent by the API server, to all its clients."""
    connections: Mapping[str, int]
    """Bytes both ways on each open connection of the controller, TLS included; empty where there is no `ss`."""

    def bytes_since(self, before: Usage) -> int:
        """A connection that was closed meanwhile does not count. Controllers keep theirs."""
        return sum(size - before.connections.get(name, 0) for name, size in self.connections.items())


async def usage(plane: ControlPlane, pid: int) -> Usage:
    cpu, plane_cpu = cpu_seconds(pid), sum(cpu_seconds(plane.process(name).pid) for name in PLANE)
    status, text = await get(f"{plane.url}/metrics", token=plane.token, certificates=plane.ca_path, seconds=60)
    if status != 200:
        raise RuntimeError(f"the API server's metrics: {status} {text}")
    return Usage(cpu, plane_cpu, metric(text, WATCH_EVENTS), connections(await _sockets(plane), pid))


def metric(text: str, name: str) -> float:
    """The sum over all series of that name, in Prometheus' text format."""
    return sum(map(float, re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)))


def connections(lines: Iterable[str], pid: int) -> dict[str, int]:
    """By its own port, from lines of `ss`."""
    ours = [line for line in lines if f"pid={pid}," in line]
    return {line.split()[2]: sum(map(int, _BYTES.findall(line))) for line in ours}


async def _sockets(plane: ControlPlane) -> list[str]:
    if (ss := shutil.which("ss")) is None:
        return []
    filters = ("state", "established", "dst", plane.url.removeprefix("https://"))
    _, out, _ = await run_to_end((ss, "-tinpHO", *filters), {})
    return out.splitlines()
