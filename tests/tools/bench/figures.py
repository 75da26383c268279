"""Figures by name, and the tables in which ours stands beside the other controllers' or beside a plain script's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """One line of the table. `targets`: the most that ours may reach from so many nodes on; fewer are not judged, for
    what is done once, such as storing a revision, weighs more there."""

    text: str
    targets: Mapping[int, float] = field(default_factory=dict)
    relative: bool = False
    """The target is a factor: of the best median of the others."""

    def target_at(self, nodes: int) -> float | None:
        """None: not judged."""
        sizes = [size for size in self.targets if size <= nodes]
        return self.targets[max(sizes)] if sizes else None

    def verdict(self, found: Mapping[str, Sequence[float]], nodes: int) -> str:
        """Of our median; empty where there is nothing to judge, or no other beside us."""
        others = [median(values) for peer, values in found.items() if peer != "ours" and values]
        target = self.target_at(nodes)
        if not found.get("ours") or target is None or (self.relative and not others):
            return ""
        most = target * min(others) if self.relative else target
        return "met" if median(found["ours"]) <= most else "MISSED"


PEERS = ("native", "openkruise", "kubectl get", "ours")
"""In the order of their columns."""

DEPLOY = Figure("apply -> all available / a script's time", {1000: 1.3})
ROLL = Figure("10 % rolling update (s)", {200: 1.0, 1000: 0.9, 5000: 1.0}, relative=True)
_MOST = {
    "deploy": (1000, {"writes per pod": 1.02, "failed writes": 0, "status writes": 10, "event writes": 27}),
    "roll": (200, {"writes per pod": 2.05, "failed writes": 0, "status writes": 30, "event writes": 25}),
}
_BESIDE = {
    "requests per pod": 1.0,
    "watch events per pod, to all clients": 1.02,
    "KiB to and from the server per pod": 1.0,
    "controller CPU per pod (ms)": 0.8,
    "control plane's CPU per pod (ms)": 1.0,
}
OF = {
    (change, what): Figure(f"{change}: {what}", {nodes: most})
    for change, (nodes, targets) in _MOST.items()
    for what, most in targets.items()
} | {
    (change, what): Figure(f"{change}: {what}", {1000: part}, relative=True)
    for change in _MOST
    for what, part in _BESIDE.items()
}
"""What a change of all pods takes."""
LOST = Figure("lost pod gone -> replacement created (ms)", {1000: 13, 3000: 20})
LOST_CPU = Figure("controller CPU per lost pod (ms)", {1000: 20, 3000: 40})
START = Figure("process start -> first right action (s)", {1000: 1.0})
START_CPU = Figure("controller CPU until then (ms)", {1000: 600})
MEMORY = Figure("peak resident memory (MiB)", {1000: 70, 5000: 85, 15_000: 130})
WAIT = Figure("longest wait of another key (s)", {1000: 0.5})

Values = defaultdict[Figure, defaultdict[str, list[float]]]
"""Figure to peer to what was measured, in the order of the rounds."""


def no_values() -> Values:
    return defaultdict(lambda: defaultdict(list))


def table(values: Values, nodes: int) -> str:
    """min/median/max of each figure, the ratios of the medians, and whether ours is within its target."""
    peers = [peer for peer in PEERS if any(found.get(peer) for found in values.values())]
    others = [peer for peer in peers if peer != "ours"]
    rows = [("figure", *peers, *(f"ours/{peer}" for peer in others), "target", "")]
    for figure, found in values.items():
        most = figure.target_at(nodes)
        target = "-" if most is None else f"<= {most:g}{' of the best' if figure.relative else ''}"
        spreads = [spread(found.get(peer, [])) for peer in peers]
        ratios = [_ratio(found.get("ours", []), found.get(peer, [])) for peer in others]
        rows.append((figure.text, *spreads, *ratios, target, figure.verdict(found, nodes)))
    return f"{nodes} nodes (min / median / max)\n" + layout(rows)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours beside a plain script or beside less of ours, from the same run. The ratio of the medians is judged: it
    travels."""

    text: str
    plain: Sequence[float]
    ours: Sequence[float]
    ceiling: float
    most: float | None = None
    """Of ours, on the machine of docs/cost.md: ends nothing."""

    @property
    def ratio(self) -> float:
        return median(self.ours) / median(self.plain)

    @property
    def missed(self) -> bool:
        return self.ratio > self.ceiling

    @property
    def verdict(self) -> str:
        slow = self.most is not None and median(self.ours) > self.most
        return "MISSED" if self.missed else "slow" if slow else "met"


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
        ceiling = f"<= {row.ceiling:g}" + ("" if row.most is None else f", {row.most:g}")
        cells.append((row.text, spread(row.plain), spread(row.ours), f"{row.ratio:.2f}", ceiling, row.verdict))
    missed = [f"{row.text}: {row.ratio:.2f} of {plain}, not <= {row.ceiling:g}" for row in rows if row.missed]
    return Report(f"{title} (min / median / max)\n{layout(cells)}", tuple(missed))


def spread(values: Sequence[float]) -> str:
    """`median`, or `min / median / max` where there are several."""
    if not values:
        return "-"
    if len(values) == 1:
        return short(values[0])
    return " / ".join(short(value) for value in (min(values), median(values), max(values)))


def layout(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join((lines[0], "-" * (sum(widths) + 2 * len(widths)), *lines[1:]))


def _ratio(ours: Sequence[float], other: Sequence[float]) -> str:
    return f"{median(ours) / median(other):.2f}" if ours and other and median(other) else "-"


def short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
