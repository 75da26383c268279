"""The order of the measurements: script, one peer, the other, never two at once; then all over again."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence, Set

from tests.tools.bench import figures, measure, proc
from tests.tools.bench.audit import by_kind
from tests.tools.bench.bed import BenchCluster
from tests.tools.bench.figures import Values
from tests.tools.bench.peers import Peer

LOSSES = 20
RESTARTS = 3
ON_BED = ("deploy", "roll", "lost", "start", "memory")


async def rounds(
    bed: BenchCluster, peers: Sequence[Peer], parts: Set[str], count: int, values: Values, say: Callable[[str], None]
) -> None:
    """Measure `parts` (names of `ON_BED`) `count` times on all peers, into `values`; each time another goes first."""
    say(f"{bed.nodes} nodes are ready")
    for peer in peers:
        await peer.prepare(bed.plane)
    await measure.script(bed)  # the API server is slow when it does something for the first time
    for number in range(count):
        scripted = await measure.script(bed) if "deploy" in parts else None
        if scripted is not None:
            say(f"round {number + 1}: script {scripted:.2f} s (load average {os.getloadavg()[0]:.1f})")
        first = number % len(peers)
        for peer in (*peers[first:], *peers[:first]):
            await _one(bed, peer, parts, values, scripted, say)


async def _one(
    bed: BenchCluster, peer: Peer, parts: Set[str], values: Values, scripted: float | None, say: Callable[[str], None]
) -> None:
    """One peer's turn, from its start to an empty namespace."""
    async with peer.running(bed.plane) as process:
        cost = await measure.deploy(bed, peer, process)
        say(f"  {peer.name}: deployed in {cost.seconds:.2f} s: {by_kind(cost.requests)}")
        if scripted is not None:
            values[figures.DEPLOY][peer.name].append(cost.seconds / scripted)
            _note(values, "deploy", peer, cost, bed.nodes)
        if "roll" in parts:
            cost = await measure.roll(bed, peer, process)
            say(f"  {peer.name}: rolled in {cost.seconds:.2f} s: {by_kind(cost.requests)}")
            values[figures.ROLL][peer.name].append(cost.seconds)
            _note(values, "roll", peer, cost, bed.nodes)
        if "lost" in parts:
            losses = await measure.lose(bed, peer, process, min(LOSSES, bed.nodes))
            values[figures.LOST][peer.name].append(measure.milliseconds(losses.gaps))
            values[figures.LOST_CPU][peer.name].append(losses.cpu * 1000)
        if "memory" in parts:
            values[figures.MEMORY][peer.name].append(proc.peak_mebibytes(process.pid))
    if "start" in parts:
        for _ in range(RESTARTS):
            seconds, cpu = await measure.first_action(bed, peer)
            values[figures.START][peer.name].append(seconds)
            values[figures.START_CPU][peer.name].append(cpu * 1000)
    await bed.clean()


def _note(values: Values, change: str, peer: Peer, cost: measure.Cost, pods: int) -> None:
    before, after = cost.before, cost.after
    found = {
        "writes per pod": len(cost.writes) / pods,
        "failed writes": cost.failed,
        "status writes": cost.status_writes,
        "event writes": cost.events,
        "requests per pod": len(cost.requests) / pods,
        "watch events per pod, to all clients": (after.watch_events - before.watch_events) / pods,
        "controller CPU per pod (ms)": (after.cpu - before.cpu) * 1000 / pods,
        "control plane's CPU per pod (ms)": (after.plane_cpu - before.plane_cpu) * 1000 / pods,
    }
    if after.connections:
        found["KiB to and from the server per pod"] = after.bytes_since(before) / 1024 / pods
    for what, value in found.items():
        values[figures.OF[change, what]][peer.name].append(value)
