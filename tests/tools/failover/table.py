"""Many rounds as one table. Outcomes in, lines out."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from tests.tools.failover.rounds import Outcome
from tests.tools.failover.ways import Way

HEAD = ("end of the leader", "rounds", "lease: min", "median", "max", "first write: median", "max", "late writes")


def table(outcomes: Sequence[Outcome], ways: Sequence[Way]) -> str:
    """Seconds from the leader's end; a way without rounds has no row."""
    rows: list[tuple[str, ...]] = [HEAD]
    for way in ways:
        mine = [outcome for outcome in outcomes if outcome.way == way.name]
        if mine:
            rows.append(_row(way.name, mine))
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def failures(outcomes: Sequence[Outcome], ways: Sequence[Way]) -> list[str]:
    """What should not have been: a late write, or a successor that took too long. One line each."""
    limits = {way.name: way.limit for way in ways}
    late = [f"{outcome.way}: late: {write}" for outcome in outcomes for write in outcome.late]
    slow = [
        f"{outcome.way}: {outcome.lease:.2f} s, not {limits[outcome.way]:g} s"
        for outcome in outcomes
        if outcome.lease >= limits[outcome.way]
    ]
    return late + slow


def _row(name: str, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    leases, works = [one.lease for one in outcomes], [one.work for one in outcomes]
    seconds = (min(leases), median(leases), max(leases), median(works), max(works))
    late = sum(len(one.late) for one in outcomes)
    return (name, str(len(outcomes)), *(f"{value:.2f}" for value in seconds), str(late))
