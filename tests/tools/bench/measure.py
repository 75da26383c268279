"""One deployment, one roll, one series of lost pods, one restart: what each takes of a controller."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median

from tests.beds.control_plane import Process
from tests.tools.bench import manifests, proc
from tests.tools.bench.audit import Entry, asked_by, written_by
from tests.tools.bench.bed import NAMESPACE, BenchCluster
from tests.tools.bench.manifests import FIRST_IMAGE, NAME, NEXT_IMAGE
from tests.tools.bench.peers import NATIVE_PEER, Peer
from tests.tools.bench.usage import Usage, usage

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
PAUSE = 0.3
"""Seconds between a replaced pod and the next loss: each loss is one of its own."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a change of the whole fleet took."""

    seconds: float
    """From the request until the bench has seen the last pod available."""
    before: Usage
    after: Usage
    """When its status says the last word as well."""
    requests: list[Entry]
    """All of the controller but watches: dry runs and events too."""

    @property
    def writes(self) -> list[Entry]:
        """Without events."""
        return [entry for entry in self.requests if entry.writes]

    @property
    def events(self) -> int:
        return sum(entry.mutates and not entry.writes for entry in self.requests)

    @property
    def failed(self) -> int:
        return sum(entry.failed for entry in self.writes)

    @property
    def status_writes(self) -> int:
        return sum(entry.resource == "daemonsets" and entry.subresource == "status" for entry in self.writes)


async def script(bed: BenchCluster) -> float:
    """Seconds that this bed needs for the same pods when a script creates them. Leaves the namespace empty."""
    owner = await bed.script.create(NATIVE_PEER.collection, manifests.daemonset("apps/v1", NAMESPACE))
    owner |= {"apiVersion": "apps/v1", "kind": "DaemonSet"}
    bodies = list(manifests.daemon_pods(owner, range(bed.nodes)))
    begun = time.monotonic()
    await bed.script.create_all(PODS, bodies)
    await bed.until(lambda: bed.pods.ready(FIRST_IMAGE) == bed.nodes, what="all available")
    seconds = time.monotonic() - begun
    await bed.settle()
    await bed.clean()
    return seconds


async def deploy(bed: BenchCluster, peer: Peer, process: Process) -> Cost:
    manifest = manifests.daemonset(peer.api_version, NAMESPACE)
    return await _cost(bed, peer, process, lambda: bed.script.create(peer.collection, manifest), FIRST_IMAGE)


async def roll(bed: BenchCluster, peer: Peer, process: Process) -> Cost:
    patch = {"spec": {"template": manifests.template(NEXT_IMAGE)}}
    target = f"{peer.collection}/{NAME}"
    return await _cost(bed, peer, process, lambda: bed.script.merge(target, patch), NEXT_IMAGE)


async def _cost(
    bed: BenchCluster, peer: Peer, process: Process, change: Callable[[], Awaitable[object]], image: str
) -> Cost:
    before, mark, begun = await usage(bed.plane, process.pid), bed.audit.mark(), time.monotonic()
    await change()
    await bed.until(lambda: bed.pods.ready(image) == bed.nodes, what=f"all available ({peer.name})")
    seconds = time.monotonic() - begun
    await _final_status(bed, peer)
    await bed.settle()
    requests = asked_by(peer.user, bed.audit.since(mark))
    return Cost(seconds, before, await usage(bed.plane, process.pid), requests)


async def _final_status(bed: BenchCluster, peer: Peer) -> None:
    fields = ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable")
    async with asyncio.timeout(bed.patience):
        while True:
            daemonset = await bed.script.get(f"{peer.collection}/{NAME}")
            status = daemonset.get("status", {})
            observed = status.get("observedGeneration") == daemonset["metadata"]["generation"]
            if observed and all(status.get(field) == bed.nodes for field in fields):
                return
            await asyncio.sleep(0.1)


@dataclass(frozen=True, slots=True)
class Losses:
    """What a series of single lost pods took."""

    gaps: list[float]
    """Seconds from a pod's end to its replacement's creation, by the API server's clock."""
    cpu: float
    """Seconds of the controller for one loss."""


async def lose(bed: BenchCluster, peer: Peer, process: Process, count: int) -> Losses:
    """Delete pods one after the other, spread over the nodes, each when the last one is replaced."""
    mark, used = bed.audit.mark(), proc.cpu_seconds(process.pid)
    nodes = sorted(bed.pods.names_by_node())[:: max(1, bed.nodes // count)][:count]
    lost = [await _lose(bed, node) for node in nodes]
    await _final_status(bed, peer)
    await bed.settle()
    cpu = proc.cpu_seconds(process.pid) - used
    entries = bed.audit.since(mark)
    return Losses([_gap(entries, peer, name) for name in lost], cpu / len(lost))


async def _lose(bed: BenchCluster, node: str) -> str:
    name = bed.pods.names_by_node()[node]
    await bed.script.delete(f"{PODS}/{name}")
    await bed.until(
        lambda: name not in bed.pods.pods and node in bed.pods.names_by_node(), what=f"a new pod on {node}"
    )
    await asyncio.sleep(PAUSE)
    return name


def _gap(entries: list[Entry], peer: Peer, name: str) -> float:
    gone = max(
        (entry for entry in entries if entry.verb == "delete" and entry.name == name and not entry.failed),
        key=lambda entry: entry.done,
    )
    return _first_create(entries, peer, gone.received) - gone.done


def _first_create(entries: list[Entry], peer: Peer, since: float) -> float:
    return min(
        entry.done
        for entry in written_by(peer.user, entries)
        if entry.resource == "pods" and entry.verb == "create" and entry.done > since and not entry.failed
    )


async def first_action(bed: BenchCluster, peer: Peer) -> tuple[float, float]:
    """From the start of the process to the creation of a pod that went missing while it was away: seconds, and
    those of CPU."""
    name = next(iter(bed.pods.pods))
    await bed.script.delete(f"{PODS}/{name}", gracePeriodSeconds=0)
    await bed.until(lambda: name not in bed.pods.pods, what="rid of one pod")
    mark, begun = bed.audit.mark(), time.time()
    async with peer.running(bed.plane) as process:
        await bed.until(lambda: len(bed.pods.names_by_node()) == bed.nodes, what="complete again")
        cpu = proc.cpu_seconds(process.pid)
        return _first_create(bed.audit.since(mark), peer, begun) - begun, cpu


def milliseconds(seconds: list[float]) -> float:
    """The median."""
    return median(seconds) * 1000
