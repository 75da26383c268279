"""`python -m tests.simulation`: many histories and what they prove; or one, to be read, and made shorter.

run --count 10000 --proof PROOF.md     histories of new seeds on all cores; the exit code is 1 where a law was broken,
                                       or a kind of fault never happened in 2,000 of them
replay SEED                            one history, line by line
shrink SEED                            the fewest of its moves that still break a law
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.simulation.proof import Proof, page
from tests.simulation.story import Outcome, Story, drawn, told

CHUNK = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(required=True)
    run = verbs.add_parser("run")
    run.add_argument("--first", type=int, default=0, help="the first seed")
    run.add_argument("--count", type=int, default=200)
    run.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    run.add_argument("--proof", type=Path, help="the page to write")
    run.set_defaults(verb=_run)
    for name, verb in (("replay", _replay), ("shrink", _shrink)):
        one = verbs.add_parser(name)
        one.add_argument("seed", type=int)
        one.add_argument("--without", type=int, nargs="*", default=(), help="numbers of moves to leave out, from 0")
        one.set_defaults(verb=verb)
    options = parser.parse_args()
    code: int = options.verb(options)
    return code


def _run(options: argparse.Namespace) -> int:
    proof, began = Proof(options.first, options.count), time.monotonic()
    seeds = range(options.first, options.first + options.count)
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    with ProcessPoolExecutor(options.workers, initializer=_frugal) as pool:
        for outcomes in pool.map(_all, chunks):
            for outcome in outcomes:
                proof.add(outcome)
                if outcome.charges:
                    print(f"seed {outcome.seed}: {outcome.charges.splitlines()[0][:300]}", flush=True)
    proof.wall = time.monotonic() - began
    text = page(proof)
    if options.proof:
        options.proof.write_text(text)
    print(text)
    return 1 if proof.broken or proof.absent else 0


def _frugal() -> None:
    """A cluster makes and drops many objects: with Python's own limits every tenth second is spent on cycles."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)


def _all(seeds: range) -> list[Outcome]:
    return [told(drawn(seed)).brief() for seed in seeds]


def _story(options: argparse.Namespace) -> Story:
    return drawn(options.seed).without(*options.without)


def _replay(options: argparse.Namespace) -> int:
    outcome = told(_story(options))
    print(*outcome.lines, sep="\n")
    print(f"record {outcome.digest}: {outcome.charges or 'no law is broken'}")
    return 1 if outcome.charges else 0


def _shrink(options: argparse.Namespace) -> int:
    story, left = _story(options), [*options.without]
    numbers = [number for number in range(len(drawn(options.seed).moves)) if number not in left]
    law = _law(told(story))
    if not law:
        print("no law is broken")
        return 0
    width = max(len(numbers) // 2, 1)
    while width:
        for start in range(0, len(numbers), width):
            tried = [*left, *numbers[start : start + width]]
            if _law(told(drawn(options.seed).without(*tried))) == law:
                left = tried
        numbers = [number for number in numbers if number not in left]
        width //= 2
    print(f"python -m tests.simulation replay {options.seed} --without {' '.join(map(str, sorted(left)))}")
    print(*(f"  {move}" for move in drawn(options.seed).without(*left).moves), sep="\n")
    return 1


def _law(outcome: Outcome) -> str:
    """Which is broken, without names and numbers of this very history."""
    words = outcome.charges.splitlines()[0].split() if outcome.charges else []
    return " ".join(word for word in words if word.isalpha() or word.endswith(":"))[:40]


if __name__ == "__main__":
    sys.exit(main())
