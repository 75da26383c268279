"""`python -m tests.tools.bench.growth`: the last section of docs/cost.md and its plot, from docs/cost.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import TypeAlias

import msgspec

from tests.tools.bench import crowd, figures, look
from tests.tools.bench.bed import ROOT
from tests.tools.bench.figures import Figure, Values, short
from tests.tools.bench.loop import SETS, STEPS
from tests.tools.bench.plot import Panel, drawn

RESULTS, PAGE, PLOT = (ROOT / "docs" / name for name in ("cost.json", "cost.md", "img/growth.png"))
Results: TypeAlias = dict[int, dict[str, dict[str, list[float]]]]
"""Fleet size to figure to peer to what was measured."""
TITLE = "\n## As the cluster grows\n"
NAMES = {"native": "native", "openkruise": "OpenKruise", "ours": "kruise-ds"}
PLOTTED = (figures.OF["roll", "controller CPU per pod (ms)"], figures.MEMORY, figures.ROLL)
PER_POD = (
    "controller CPU per pod (ms)",
    "control plane's CPU per pod (ms)",
    "writes per pod",
    "requests per pod",
    "watch events per pod, to all clients",
    "KiB to and from the server per pod",
)
BESIDE = (
    figures.DEPLOY,
    figures.ROLL,
    *(figures.OF[change, what] for what in PER_POD for change in ("deploy", "roll")),
    figures.MEMORY,
    figures.START,
    figures.LOST,
)
VERBS = ("status agent", "nodes agent", "plan agent")
ALONE = (*STEPS.values(), *(of[verb] for verb in VERBS for of in (look.SECONDS, look.MEMORY)), figures.WAIT)
ABOUT = f"""
One DaemonSet on all nodes, played by kwok, and one API server (`make bench-scale`, medians). For the longest step
there are {SETS} DaemonSets, the first on all nodes, each other on a twentieth of them. For the longest wait there are
{crowd.SETS}, each on a twentieth, while ten nodes are replaced a minute, a webhook refuses the pods of one DaemonSet,
and another webhook never answers for those of a second one.

![The same as lines](img/growth.png)
"""


def read(path: Path) -> Results:
    """Nothing, where there is no such file."""
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.exists() else {}


def add(path: Path, nodes: int, values: Values) -> None:
    """What is measured again takes the place of what was there."""
    results = read(path)
    there = results.setdefault(nodes, {})
    for figure, found in values.items():
        there[figure.text] = {peer: [float(f"{value:.4g}") for value in some] for peer, some in found.items()}
    fleets = ",\n".join(f'"{size}": {{\n{_lines(results[size])}\n}}' for size in sorted(results))
    path.write_text(f"{{\n{fleets}\n}}\n")


def _lines(found: Mapping[str, object]) -> str:
    """A figure on each."""
    return ",\n".join(f" {json.dumps(text)}: {json.dumps(peers)}" for text, peers in found.items())


def section(found: Results) -> str:
    """The table has a column for each fleet; in a cell the controllers one after the other."""
    peers = [peer for peer in NAMES if any(peer in of[figures.ROLL.text] for of in found.values())]
    sizes = sorted(found)
    heads = ["; ".join(NAMES[peer] for peer in peers), *(f"{size:,} nodes" for size in sizes)]
    shown = [*((figure, peers) for figure in BESIDE), *((figure, ["ours"]) for figure in ALONE)]
    rows = [_row(found, figure, of) for figure, of in shown if any(figure.text in fleet for fleet in found.values())]
    lines = [heads, ["---"] * len(heads), *rows]
    return TITLE + ABOUT + "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def page(before: str, found: Results) -> str:
    """The whole page, with the section as its last."""
    return before.partition(TITLE)[0] + section(found) if found else before


def plot(found: Results) -> bytes:
    return drawn([_panel(found, figure) for figure in PLOTTED])


def _row(found: Results, figure: Figure, peers: list[str]) -> list[str]:
    def cells() -> Iterator[str]:
        for _, of in sorted(found.items()):
            there = of.get(figure.text, {})
            yield "; ".join(short(median(there[peer])) if there.get(peer) else "-" for peer in peers)

    return [figure.text, *cells()]


def _panel(found: Results, figure: Figure) -> Panel:
    sizes = sorted(size for size in found if figure.text in found[size])
    lines = {NAMES[peer]: [found[size][figure.text].get(peer, []) for size in sizes] for peer in NAMES}
    medians = {name: [median(some) for some in values] for name, values in lines.items() if all(values)}
    return Panel(figure.text, sizes, medians)


def main() -> None:
    found = read(RESULTS)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
    PLOT.parent.mkdir(exist_ok=True)
    PLOT.write_bytes(plot(found))


if __name__ == "__main__":
    main()
