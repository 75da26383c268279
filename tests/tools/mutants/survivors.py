"""`python -m tests.tools.mutants.survivors`, after `mutmut run`: the mutants that no test has noticed.

mutmut changes one operator, constant, argument or name at a time (`[tool.mutmut]` in pyproject.toml) and keeps the
results in `mutants/`. `mutmut show NAME` prints the change of one that is listed here.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import Final

LEAST_KILLED: Final = 0.85
"""The share of all mutants that tests must notice. Many of the others change nothing that can be observed: the text
of an error that is never raised, the default of an argument that is always given."""


def main() -> int:
    """Exit code 1 when fewer than `LEAST_KILLED` were noticed, or when any was not tried."""
    command = [sys.executable, "-m", "mutmut", "results", "--all", "true"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = [line.strip().rpartition(": ")[::2] for line in listed.splitlines() if ": " in line]
    return judged(found)


def judged(found: list[tuple[str, str]]) -> int:
    """`main` for mutants and what became of them, in mutmut's words."""
    outcomes = Counter(outcome for _, outcome in found)
    print("\n".join(f"{outcome}: {mutant}" for mutant, outcome in found if outcome != "killed"))
    killed = outcomes["killed"] + outcomes["timeout"]
    share = killed / max(len(found), 1)
    print(f"\n{killed} of {len(found)} mutants were noticed, {share:.1%}; at least {LEAST_KILLED:.0%} must be")
    return 0 if share >= LEAST_KILLED and not outcomes["not checked"] else 1


if __name__ == "__main__":
    sys.exit(main())
