"""`python -m tests.tools.bench`: measure, and print a table for each number of nodes."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from tests.beds.control_plane import Binaries, obtain
from tests.beds.control_plane.sources import Unavailable
from tests.beds.kwok import obtain_kwok
from tests.beds.real_node import obtain_node
from tests.beds.real_node.binaries import missing
from tests.tools.bench import figures
from tests.tools.bench.bed import bed
from tests.tools.bench.clients import clients
from tests.tools.bench.decide import decide
from tests.tools.bench.figures import Report, Values
from tests.tools.bench.look import look
from tests.tools.bench.loop import loop
from tests.tools.bench.progressive import progressive
from tests.tools.bench.pulls import pulls
from tests.tools.bench.rounds import ON_BED, rounds

Part: TypeAlias = Callable[[Callable[[str], None]], Report]

ALONE: Mapping[str, Part] = {"decide": decide, "progressive": progressive, "loop": loop, "pulls": pulls}
"""What needs no control plane."""
PARTS = (*ALONE, "look", *ON_BED, "clients")


def main(arguments: Sequence[str] | None = None, alone: Mapping[str, Part] = ALONE) -> int:
    """Return 1 where a ratio is above its ceiling, and where there is no control plane. What says as much about the
    machine, such as milliseconds, ends nothing."""
    options = _parser().parse_args(arguments)
    unknown = set(options.only) - set(PARTS)
    if unknown:
        print(f"--only: no part {', '.join(sorted(unknown))}; known: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    parts = frozenset(options.only)
    missed = _missed({name: part for name, part in alone.items() if name in parts})
    try:
        _on_control_planes(options, parts)
    except Unavailable as error:
        print(error, file=sys.stderr)
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


def _on_control_planes(options: argparse.Namespace, parts: frozenset[str]) -> None:
    if "look" in parts:
        print(f"\n{look(obtain(), _say)}\n", flush=True)
    if parts & set(ON_BED):
        binaries, kwok = obtain(complete=True), obtain_kwok()
        for nodes in options.nodes:
            values = asyncio.run(_measure(binaries, kwok, nodes, parts, options.rounds))
            print(f"\n{figures.table(values, nodes)}\n", flush=True)
    if "clients" in parts:
        if reasons := missing():
            _say(f"no clients: this machine can have no real nodes: {'; '.join(reasons)}")
            return
        control, programs = obtain(complete=True), obtain_node()
        print(f"\n{asyncio.run(clients(control, programs, options.rounds, _say))}\n", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench", description=__doc__)
    parser.add_argument(
        "--nodes", type=_numbers, default=[200, 1000], help="fleet sizes, with commas (default 200,1000)"
    )
    parser.add_argument("--rounds", type=int, default=2, help="how often each part is repeated (default 2)")
    parser.add_argument(
        "--only", type=_words, default=list(PARTS), help=f"parts, with commas, of: {', '.join(PARTS)} (default all)"
    )
    return parser


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def _words(text: str) -> list[str]:
    return text.split(",")


async def _measure(binaries: Binaries, kwok: Path, nodes: int, parts: frozenset[str], count: int) -> Values:
    _say(f"{nodes} nodes, {count} rounds")
    async with bed(binaries, kwok, nodes) as it:
        return await rounds(it, parts, count, _say)


def _say(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
