"""`python -m tests.tools.mutants [WORDS]`: plant each fault in a copy, run its tests, and tell which were not caught.

WORDS: only faults in files, or with sentences, in which all of these words are. An entry that does not fit
the code any more is reported and left out; `make test` reports it as well.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

from tests.tools.mutants.faults import Fault, faults
from tests.tools.mutants.plant import Outcome, copied, outcome, tried

HEALTHY = 3600.0
"""Seconds for all of the tests together, without a fault."""


def main(arguments: Sequence[str] | None = None) -> int:
    """0: every fault was caught. 1: one was not, or cannot be planted any more, or the tests fail without any."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORDS", help="only faults that have these words in them")
    parser.add_argument("--at-once", type=int, default=2, help="how many side by side (default 2)")
    options = parser.parse_args(arguments)
    chosen = [one for one in faults() if all(word in f"{one.file} {one.says}" for word in options.words)]
    misfits = [words for one in chosen if (words := one.misfit())]
    print("\n".join(misfits), file=sys.stderr)
    chosen = [one for one in chosen if not one.misfit()]
    with ExitStack() as stack:
        folders: SimpleQueue[Path] = SimpleQueue()
        for _ in range(options.at_once):
            folders.put(stack.enter_context(copied()))
        if not _is_healthy(chosen, folders):
            return 1
        missed = _missed(chosen, folders, options.at_once)
    print(f"\n{len(chosen) - len(missed)} of {len(chosen)} planted faults were caught")
    return 1 if missed or misfits else 0


def _is_healthy(chosen: Sequence[Fault], folders: SimpleQueue[Path]) -> bool:
    """Whether all of the tests pass without any fault: otherwise to fail would mean nothing."""
    folder = folders.get()
    verdict, said = outcome(sorted({test for one in chosen for test in one.tests.split()}), folder, HEALTHY)
    folders.put(folder)
    if verdict is not Outcome.SURVIVED:
        print(f"the tests do not pass without a fault:\n{said}", file=sys.stderr)
    return verdict is Outcome.SURVIVED


def _missed(chosen: Sequence[Fault], folders: SimpleQueue[Path], at_once: int) -> list[Fault]:
    """Those that were not caught. Each is printed when its tests have ended."""

    def one(fault: Fault) -> tuple[Outcome, str]:
        folder = folders.get()
        try:
            return tried(fault, folder)
        finally:
            folders.put(folder)

    missed = []
    with ThreadPoolExecutor(at_once) as threads:
        for fault, (verdict, said) in zip(chosen, threads.map(one, chosen), strict=True):
            print(f"{verdict.value:9} {fault.file}: {fault.says}", flush=True)
            if verdict is not Outcome.CAUGHT:
                missed.append(fault)
                print(f"  - {fault.was!r}\n  + {fault.now!r}\n  {fault.tests}\n{said[-2000:]}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())
