"""`python -m tests.tools.bench`: measure, and print a table for each number of nodes."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.beds.control_plane import Binaries, ControlPlaneUnavailable, obtain
from tests.beds.control_plane.gotool import GoToolUnavailable
from tests.beds.kwok import obtain_kwok
from tests.beds.real_node import NodeUnavailable, obtain_node
from tests.beds.real_node.requirements import missing
from tests.tools.bench import figures
from tests.tools.bench.bed import bed
from tests.tools.bench.clients import clients
from tests.tools.bench.decide import decide
from tests.tools.bench.figures import Values
from tests.tools.bench.look import look
from tests.tools.bench.loop import loop
from tests.tools.bench.pulls import pulls
from tests.tools.bench.rounds import ON_BED, rounds

ALONE = {"decide": decide, "loop": loop, "pulls": pulls}
"""What needs no control plane."""
PARTS = (*ALONE, "look", *ON_BED, "clients")


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 whatever the figures are: judging them is the reader's part. 1 where there is no control plane."""
    options = _parser().parse_args(arguments)
    unknown = set(options.only) - set(PARTS)
    if unknown:
        print(f"--only: no part {', '.join(sorted(unknown))}; known: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    parts = frozenset(options.only)
    for name, measured in ALONE.items():
        if name in parts:
            print(f"\n{measured(_say)}\n", flush=True)
    if "look" in parts:
        try:
            print(f"\n{look(obtain(), _say)}\n", flush=True)
        except ControlPlaneUnavailable as error:
            print(error, file=sys.stderr)
            return 1
    if parts & set(ON_BED):
        try:
            binaries, kwok = obtain(complete=True), obtain_kwok()
        except (ControlPlaneUnavailable, GoToolUnavailable) as error:
            print(error, file=sys.stderr)
            return 1
        for nodes in options.nodes:
            values = asyncio.run(_measure(binaries, kwok, nodes, parts, options.rounds))
            print(f"\n{figures.table(values, nodes)}\n", flush=True)
    if "clients" in parts:
        if reasons := missing():
            _say(f"no clients: this machine can have no real nodes: {'; '.join(reasons)}")
            return 0
        try:
            control, programs = obtain(complete=True), obtain_node()
        except (ControlPlaneUnavailable, NodeUnavailable) as error:
            print(error, file=sys.stderr)
            return 1
        print(f"\n{asyncio.run(clients(control, programs, options.rounds, _say))}\n", flush=True)
    return 0


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
