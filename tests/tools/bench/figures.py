"""Figures by name, and the tables in which ours stands beside the native controller's or beside a plain script's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `target` is the most that ours may reach at 1,000 nodes.

    `large` holds at 3,000 and `small` at 200; without `small` fewer than 1,000 are not judged, for what is done
    once, such as storing a revision, weighs more there.
    """

    text: str
    target: float
    large: float | None = None
    small: float | None = None

    def target_at(self, nodes: int) -> float | None:
        """None: not judged."""
        if nodes < 1000:
            return self.small if nodes >= 200 else None
        return self.large if self.large is not None and nodes >= 3000 else self.target

    def verdict(self, ours: Sequence[float], nodes: int) -> str:
        """Of the median; empty where there is nothing to judge."""
        target = self.target_at(nodes)
        if not ours or target is None:
            return ""
        return "met" if median(ours) <= target else "MISSED"


DEPLOY = Figure("apply -> all available / a script's time", 1.3)
ROLL = Figure("10 % rolling update / native's time", 0.9, small=1.0)
DEPLOY_WRITES = Figure("writes per pod, deploy", 1.02)
ROLL_WRITES = Figure("writes per pod, roll", 2.05, small=2.05)
DEPLOY_FAILED = Figure("failed writes, deploy", 0)
ROLL_FAILED = Figure("failed writes, roll", 0, small=0)
DEPLOY_CPU = Figure("controller CPU per pod, deploy (ms)", 3.1)
ROLL_CPU = Figure("controller CPU per pod, roll (ms)", 4.6)
DEPLOY_STATUS = Figure("status writes, deploy", 10)
ROLL_STATUS = Figure("status writes, roll in ten waves", 30, small=30)
DEPLOY_EVENTS = Figure("event writes, deploy", 27)
ROLL_EVENTS = Figure("event writes, roll", 25, small=25)
LOST = Figure("lost pod gone -> replacement created (ms)", 13, large=20)
LOST_CPU = Figure("controller CPU per lost pod (ms)", 20, large=40)
START = Figure("process start -> first right action (s)", 1.0)
START_CPU = Figure("controller CPU until then (ms)", 600)
MEMORY = Figure("peak resident memory (MiB)", 80, large=100)

Values = defaultdict[Figure, defaultdict[str, list[float]]]
"""Figure to peer to what was measured, in the order of the rounds."""


def no_values() -> Values:
    return defaultdict(lambda: defaultdict(list))


def table(values: Values, nodes: int) -> str:
    """min/median/max of each figure, the ratio of the medians, and whether ours is within its target."""
    rows = [("figure", "native", "ours", "ours/native", "target", "")]
    for figure, peers in values.items():
        ours, native = peers.get("ours", []), peers.get("native", [])
        most, verdict = figure.target_at(nodes), figure.verdict(ours, nodes)
        target = "-" if most is None else f"<= {most:g}"
        rows.append((figure.text, spread(native), spread(ours), _ratio(ours, native), target, verdict))
    return f"{nodes} nodes (min / median / max)\n" + layout(rows)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours beside a plain script or beside less of ours, from the same run. The ratio of the medians is judged: it
    travels."""

    text: str
    plain: Sequence[float]
    ours: Sequence[float]
    ceiling: float

    @property
    def ratio(self) -> float:
        return median(self.ours) / median(self.plain)

    @property
    def missed(self) -> bool:
        return self.ratio > self.ceiling


@dataclass(frozen=True, slots=True)
class Report:
    """What one part has measured, as a table."""

    text: str
    missed: tuple[str, ...] = ()
    """Each ratio above its ceiling, in words."""


def compared(title: str, rows: Sequence[Comparison], plain: str = "plain", ours: str = "ours") -> Report:
    """`plain` and `ours` are the heads of the columns."""
    cells = [("figure", plain, ours, f"{ours}/{plain}", "ceiling", "")]
    for row in rows:
        verdict = "MISSED" if row.missed else "met"
        cells.append(
            (row.text, spread(row.plain), spread(row.ours), f"{row.ratio:.2f}", f"<= {row.ceiling:g}", verdict)
        )
    missed = [f"{row.text}: {row.ratio:.2f} of {plain}, not <= {row.ceiling:g}" for row in rows if row.missed]
    return Report(f"{title} (min / median / max)\n{layout(cells)}", tuple(missed))


def spread(values: Sequence[float]) -> str:
    """`median`, or `min / median / max` where there are several."""
    if not values:
        return "-"
    if len(values) == 1:
        return _short(values[0])
    return " / ".join(_short(value) for value in (min(values), median(values), max(values)))


def layout(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join((lines[0], "-" * (sum(widths) + 2 * len(widths)), *lines[1:]))


def _ratio(ours: Sequence[float], native: Sequence[float]) -> str:
    return f"{median(ours) / median(native):.2f}" if ours and native and median(native) else "-"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
