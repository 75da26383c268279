"""What two verbs of the plugin take: `plan` beside one decision of the planner, and `--help` beside typer alone."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from controller.api.daemonset import RollingUpdate, UpdateStrategy
from controller.planner.plan import plan
from controller.planner.validation import compiled
from controller.planner.world import World
from tests.beds.forecasts import forecast
from tests.tools.bench import manifests, wire
from tests.tools.bench.bed import ROOT
from tests.tools.bench.decide import timed, world_of
from tests.tools.bench.figures import Comparison, Report, compared

NODES = 10_000
WAVES = 10
"""As many as `plan` works out unless it is told otherwise."""
FORECAST, HELP = 110.0, 2.5
"""Ceilings: of ten waves ÷ one decision, of `--help` ÷ `import typer`."""
TYPER = ("-c", "import typer")


def verbs(say: Callable[[str], None]) -> Report:
    say(f"a plan for {NODES} nodes, and --help")
    return compared("verbs of the plugin", [_ten_waves(), _help()], plain="beside", ours="the verb")


def _ten_waves() -> Comparison:
    world = _world(NODES, "10%")
    found = forecast(world, waves=WAVES)
    assert len(found.waves) == WAVES, len(found.waves)
    decision, whole = timed(lambda: plan(world), lambda: forecast(world, waves=WAVES), repeats=3)
    return Comparison(f"plan, {WAVES} waves of {NODES} nodes (ms)", decision, whole, FORECAST)


def _help() -> Comparison:
    pairs = [(_took(TYPER), _took(("-m", "kubectl_plugin", "--help"))) for _ in range(5)]
    alone, ours = zip(*pairs, strict=True)
    return Comparison("--help (ms)", alone, ours, HELP)


def _took(words: Sequence[str]) -> float:
    """Milliseconds of processor time."""
    began = _of_children()
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True, capture_output=True)
    return 1000.0 * (_of_children() - began)


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _world(count: int, max_unavailable: int | str) -> World:
    nodes, pods = [wire.node(index) for index in range(count)], list(wire.pods(range(count)))
    world = world_of(wire.parsed_owner(), nodes, pods, manifests.NEXT_IMAGE)
    strategy = UpdateStrategy(type="RollingUpdate", rolling_update=RollingUpdate(max_unavailable=max_unavailable))
    daemonset = replace(world.daemonset, spec=replace(world.daemonset.spec, update_strategy=strategy))
    return replace(world, daemonset=daemonset, rules=compiled(daemonset))
