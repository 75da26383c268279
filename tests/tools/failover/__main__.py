"""`python -m tests.tools.failover`: many rounds, some side by side, and a table of what was measured."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys

from tests.beds.control_plane import DEFAULT_CONTROLLERS, obtain
from tests.beds.control_plane.sources import Unavailable
from tests.e2e.conftest import bare_plane, installed, same_rights
from tests.tools.failover.pair import LEADER, STANDBY, played_nodes
from tests.tools.failover.rounds import Outcome, play
from tests.tools.failover.table import failures, table
from tests.tools.failover.ways import WAYS, Way


def main() -> int:
    """0: all rounds ended well, in time and without a late write. 1: they did not, or there is no control plane."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="how many (default 50)")
    parser.add_argument("--at-once", type=int, default=5, help="how many side by side (default 5, for two cores)")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="of the moments of the ends")
    options = parser.parse_args()
    try:
        outcomes, broken = asyncio.run(_all(options.rounds, options.at_once, random.Random(options.seed)))
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 1
    print(f"\n{table(outcomes, WAYS)}\n")
    wrong = [*broken, *failures(outcomes, WAYS)]
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        print(f"repeat it with: make test-failover SEED={options.seed}", file=sys.stderr)
    return 1 if wrong else 0


async def _all(rounds: int, at_once: int, chance: random.Random) -> tuple[list[Outcome], list[str]]:
    """What was measured, and one text for each round that went wrong."""
    turn = [way for way in WAYS for _ in range(way.share)]
    outcomes: list[Outcome] = []
    broken: list[str] = []
    gate = asyncio.Semaphore(at_once)
    async with bare_plane(obtain(), [LEADER, STANDBY]) as plane, played_nodes(plane) as nodes:
        await installed(plane, "overlays/default")
        await same_rights(plane, STANDBY)
        await plane.start_controller_manager(DEFAULT_CONTROLLERS)

        async def one(number: int, way: Way, moment: float) -> None:
            async with gate:
                try:
                    outcomes.append(await play(plane, nodes, way, f"round-{number}", moment))
                except Exception as error:
                    broken.append(f"round {number}, {way.name}: {_innermost(error)}")
                print("." if not broken else "!", end="", flush=True)

        async with asyncio.TaskGroup() as group:
            for number in range(rounds):
                group.create_task(one(number, turn[number % len(turn)], chance.random()))
    return outcomes, broken


def _innermost(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(main())
