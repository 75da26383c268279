"""`python -m tests.tools.bench`: measure, and print a table for each number of nodes."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from tests.beds.control_plane import obtain
from tests.beds.control_plane.sources import Unavailable
from tests.beds.kwok import obtain_kwok
from tests.beds.real_node import obtain_node
from tests.beds.real_node.binaries import missing
from tests.tools.bench import figures, growth
from tests.tools.bench.bed import bed
from tests.tools.bench.clients import clients
from tests.tools.bench.crowd import crowd
from tests.tools.bench.decide import decide
from tests.tools.bench.figures import Report
from tests.tools.bench.look import look
from tests.tools.bench.loop import loop
from tests.tools.bench.peers import peers
from tests.tools.bench.progressive import progressive
from tests.tools.bench.pulls import pulls
from tests.tools.bench.rounds import ON_BED, rounds
from tests.tools.bench.verbs import verbs

Part: TypeAlias = Callable[[Callable[[str], None]], Report]

ALONE: Mapping[str, Part] = {"decide": decide, "progressive": progressive, "pulls": pulls, "verbs": verbs}
"""What needs no control plane."""
PARTS = (*ALONE, "loop", "look", *ON_BED, "clients")
LONG = ("crowd",)
"""Only where they are named."""
JUDGED = 1000
"""What says nothing on smaller fleets is measured from so many nodes on, and above them in one round."""


def main(arguments: Sequence[str] | None = None, alone: Mapping[str, Part] = ALONE) -> int:
    """Return 1 where a ratio is above its ceiling, there is no control plane, or the time was not enough. What says
    as much about the machine, such as milliseconds, ends nothing."""
    options = _parser().parse_args(arguments)
    unknown = set(options.only) - {*PARTS, *LONG}
    if unknown:
        print(f"--only: no part {', '.join(sorted(unknown))}; known: {', '.join((*PARTS, *LONG))}", file=sys.stderr)
        return 2
    parts = frozenset(options.only)
    missed = _missed({name: part for name, part in alone.items() if name in parts})
    try:
        asyncio.run(_bounded(options, parts))
    except (Unavailable, TimeoutError) as error:
        print(str(error) or f"ended after {options.minutes:g} minutes", file=sys.stderr)
        return 1
    return 1 if missed else 0


def _missed(parts: Mapping[str, Part]) -> list[str]:
    """Measure these, print what they give, and say which ratios are above their ceilings."""
    missed = list[str]()
    for name, part in parts.items():
        report = part(_say)
        print(f"\n{report.text}\n", flush=True)
        missed += [f"{name}: {words}" for words in report.missed]
    for words in missed:
        _say(f"MISSED {words}")
    return missed


async def _bounded(options: argparse.Namespace, parts: frozenset[str]) -> None:
    async with asyncio.timeout(options.minutes * 60):
        for nodes in options.nodes if parts & {"loop", "look", *ON_BED, *LONG} else ():
            await _fleet(options, parts, nodes)
        if "clients" not in parts:
            return
        if reasons := missing():
            _say(f"no clients: this machine can have no real nodes: {'; '.join(reasons)}")
            return
        control, programs = obtain(), obtain_node()
        print(f"\n{await clients(control, programs, options.rounds, _say)}\n", flush=True)


async def _fleet(options: argparse.Namespace, parts: frozenset[str], nodes: int) -> None:
    """Whatever ends it, what was measured so far is printed, and kept."""
    values, count = figures.no_values(), options.rounds if nodes <= JUDGED else 1
    _say(f"{nodes} nodes, {count} rounds")
    try:
        if "loop" in parts and nodes >= JUDGED:
            await asyncio.to_thread(loop, nodes, values, _say)
        if "look" in parts and nodes >= JUDGED:
            await look(obtain(), nodes, values, _say)
        if parts & set(ON_BED):
            async with bed(obtain(), obtain_kwok(), nodes) as it:
                await rounds(it, peers(os.environ), parts, count, values, _say)
        if "crowd" in parts and nodes == JUDGED:
            await crowd(obtain(), obtain_kwok(), nodes, values, _say)
    finally:
        print(f"\n{figures.table(values, nodes)}\n", flush=True)
        if options.into:
            growth.add(options.into, nodes, values)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench", description=__doc__)
    parser.add_argument(
        "--nodes", type=_numbers, default=[200, 1000], help="fleet sizes, with commas (default 200,1000)"
    )
    parser.add_argument(
        "--rounds", type=int, default=2, help=f"how often each part is repeated, up to {JUDGED} nodes (default 2)"
    )
    parser.add_argument("--minutes", type=float, default=120, help="what takes longer is ended (default 120)")
    parser.add_argument("--into", type=Path, help="a file for the results, beside those that it has")
    parser.add_argument(
        "--only",
        type=_words,
        default=list(PARTS),
        help=f"parts, with commas, of: {', '.join(PARTS)} (default: these), {', '.join(LONG)}",
    )
    return parser


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def _words(text: str) -> list[str]:
    return text.split(",")


def _say(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
