"""What many histories prove, as a page. Outcomes in, text out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.simulation.oracle import HOWS
from tests.simulation.record import MID_BATCH
from tests.simulation.story import Outcome
from tests.simulation.troubles import QUOTA, REVERTS, REWRITES, TROUBLES

MANY = 2000
"""Histories in which a fault of each kind happens."""
KINDS = (
    *TROUBLES,
    *(QUOTA, REWRITES, REVERTS),
    *(f"Prometheus {how}" for how in HOWS),
    *("the Lease changes hands", "the Lease is lost", MID_BATCH, "lease: deleted", "lease: stolen"),
    *("lease: not reached by its holder", "lease: not renewed in time, while there is work"),
    *("process: killed", "process: SIGTERM", "process: suspended", "process: suspended at a write"),
    *("killed before a write is sent", "killed after a write is sent", "the leader is cut off", "clock: jumps"),
    *("etcd: restored from a backup", "etcd: a generation comes again, with another spec"),
    *("node: re-created under its name", "pod: deleted by others", "pod: evicted", "pod: failed by others"),
    *("pod: finalizer", "pod: its container restarts", "pod: a puller is deleted by others"),
    *("user: empties the status", "user and plugin edit at once"),
)
"""The faults that are counted one by one. Each has to happen, or the run has not tried it."""


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

    @property
    def absent(self) -> list[str]:
        """Kinds of faults that never happened in many histories."""
        return [kind for kind in KINDS if not self.fired[kind]] if self.told >= MANY else []

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
        f"| kinds of faults, those that never happened | {len(KINDS)}, {', '.join(proof.absent) or 'none'} |",
        "",
        *_table("fault or move", "happened", proof.fired),
        *_table("law", "asked", proof.judged),
        *(f"- seed {seed}: {words}" for seed, words in sorted(proof.broken.items())),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _table(what: str, counted: str, counts: Counter[str]) -> list[str]:
    rows = [f"| {name} | {count:,} |" for name, count in sorted(counts.items())]
    return [f"| {what} | {counted} |", "|---|--:|", *rows, ""]
