"""The order of the measurements: script, one peer, the other, never two at once; then all over again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Set

from tests.beds.control_plane import Process
from tests.tools.bench import figures, measure, proc
from tests.tools.bench.audit import by_kind
from tests.tools.bench.bed import BenchCluster
from tests.tools.bench.figures import Values
from tests.tools.bench.peers import NATIVE_PEER, OUR_PEER, Peer

LOSSES = 20
RESTARTS = 3
ON_BED = ("deploy", "roll", "lost", "start", "memory")


async def rounds(bed: BenchCluster, parts: Set[str], count: int, say: Callable[[str], None]) -> Values:
    """Measure `parts` (names of `ON_BED`) `count` times on both peers; every second time ours goes first."""
    values = figures.no_values()
    await measure.script(bed)  # the API server is slow when it does something for the first time
    for number, peers in zip(range(count), _orders(), strict=False):
        scripted = await measure.script(bed) if "deploy" in parts else None
        if scripted is not None:
            say(f"round {number + 1}: script {scripted:.2f} s (load average {os.getloadavg()[0]:.1f})")
        rolled: dict[str, float] = {}
        for peer in peers:
            rolled |= await _one(bed, peer, parts, values, scripted, say)
        if len(rolled) == 2:
            values[figures.ROLL]["native"].append(1.0)
            values[figures.ROLL]["ours"].append(rolled["ours"] / rolled["native"])
    return values


def _orders() -> Iterator[tuple[Peer, Peer]]:
    while True:
        yield NATIVE_PEER, OUR_PEER
        yield OUR_PEER, NATIVE_PEER


async def _one(
    bed: BenchCluster, peer: Peer, parts: Set[str], values: Values, scripted: float | None, say: Callable[[str], None]
) -> dict[str, float]:
    """One peer's turn, from its start to an empty namespace; gives its time for the roll, if it was measured."""
    rolled = {}
    async with peer.running(bed.plane) as process:
        cost = await measure.deploy(bed, peer, process)
        say(f"  {peer.name}: deployed in {cost.seconds:.2f} s: {by_kind(cost.requests)}")
        if scripted is not None:
            values[figures.DEPLOY][peer.name].append(cost.seconds / scripted)
            _note_deploy(values, bed, peer, cost)
        if "roll" in parts:
            cost = await measure.roll(bed, peer, process)
            say(f"  {peer.name}: rolled in {cost.seconds:.2f} s: {by_kind(cost.requests)}")
            rolled[peer.name] = cost.seconds
            _note_roll(values, bed, peer, cost)
        if "lost" in parts:
            losses = await measure.lose(bed, peer, process, min(LOSSES, bed.nodes))
            values[figures.LOST][peer.name].append(measure.milliseconds(losses.gaps))
            values[figures.LOST_CPU][peer.name].append(losses.cpu * 1000)
        if "memory" in parts:
            values[figures.MEMORY][peer.name].append(_peak(process))
    if "start" in parts:
        for _ in range(RESTARTS):
            seconds, cpu = await measure.first_action(bed, peer)
            values[figures.START][peer.name].append(seconds)
            values[figures.START_CPU][peer.name].append(cpu * 1000)
    await bed.clean()
    return rolled


def _note_deploy(values: Values, bed: BenchCluster, peer: Peer, cost: measure.Cost) -> None:
    values[figures.DEPLOY_WRITES][peer.name].append(len(cost.writes) / bed.nodes)
    values[figures.DEPLOY_FAILED][peer.name].append(cost.failed)
    values[figures.DEPLOY_CPU][peer.name].append(cost.cpu * 1000 / bed.nodes)
    values[figures.DEPLOY_STATUS][peer.name].append(cost.status_writes)
    values[figures.DEPLOY_EVENTS][peer.name].append(cost.events)


def _note_roll(values: Values, bed: BenchCluster, peer: Peer, cost: measure.Cost) -> None:
    values[figures.ROLL_WRITES][peer.name].append(len(cost.writes) / bed.nodes)
    values[figures.ROLL_FAILED][peer.name].append(cost.failed)
    values[figures.ROLL_CPU][peer.name].append(cost.cpu * 1000 / bed.nodes)
    values[figures.ROLL_STATUS][peer.name].append(cost.status_writes)
    values[figures.ROLL_EVENTS][peer.name].append(cost.events)


def _peak(process: Process) -> float:
    return proc.peak_mebibytes(process.pid)
