"""What many histories prove, as a page. Outcomes in, text out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.simulation.story import Outcome


@dataclass
class Proof:
    first: int
    count: int
    told: int = 0
    seconds: float = 0.0
    """Of simulated time."""
    wall: float = 0.0
    fired: Counter[str] = field(default_factory=Counter)
    judged: Counter[str] = field(default_factory=Counter)
    broken: dict[int, str] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        self.told += 1
        self.seconds += outcome.seconds
        self.fired += outcome.fired
        self.judged += outcome.judged
        if outcome.charges:
            self.broken[outcome.seed] = outcome.charges.splitlines()[0][:200]


def page(proof: Proof) -> str:
    seeds = f"{proof.first} to {proof.first + proof.count - 1}"
    lines = [
        "# Proof",
        "",
        "Made by `make test-deep`. Each seed is one history of the whole controller on a simulated API server in",
        "virtual time; `make replay SEED=n` tells it again, to the last byte. The laws are asked of the server's",
        "record.",
        "",
        "| | |",
        "|---|---|",
        f"| histories | {proof.told:,} (seeds {seeds}) |",
        f"| simulated time | {proof.seconds / 3600:,.0f} hours |",
        f"| real time | {proof.wall / 60:.1f} minutes |",
        f"| laws broken | {len(proof.broken)} |",
        "",
        *_table("fault or move", "happened", proof.fired),
        *_table("law", "asked", proof.judged),
        *(f"- seed {seed}: {words}" for seed, words in sorted(proof.broken.items())),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _table(what: str, counted: str, counts: Counter[str]) -> list[str]:
    rows = [f"| {name} | {count:,} |" for name, count in sorted(counts.items())]
    return [f"| {what} | {counted} |", "|---|--:|", *rows, ""]
