"""What a decision costs the processor, and what its records weigh, beside plain dicts in the same run."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median

import msgspec

from controller.api import node, pod, revision
from controller.api.daemonset import DaemonSet
from controller.kube.decode import Decoder
from controller.kube.kinds import PODS
from controller.planner.actions import Plan
from controller.planner.budget import DEFAULT_BURST
from controller.planner.plan import plan
from controller.planner.validation import compiled
from controller.planner.world import Accepted, World
from tests.tools.bench import manifests, plain, wire
from tests.tools.bench.api import JSON
from tests.tools.bench.bed import ROOT
from tests.tools.bench.figures import layout, spread

SIZES = (1000, 5000, 10_000)
REPEATS = 15
EVENTS = 5000
HELD_NODES, HELD_PODS = 5000, 30_000

_HEAD = ("figure", "plain dicts", "ours", "ours/plain", "target", "")


def decide(say: Callable[[str], None]) -> str:
    """The table, as text."""
    rows: list[Sequence[str]] = [_HEAD]
    for size in SIZES:
        say(f"decisions on {size} nodes and pods")
        rows += _decisions(size)
    say(f"decoding {EVENTS} watch events")
    rows.append(_decoding())
    say(f"holding {HELD_NODES} nodes and {HELD_PODS} pods")
    rows.append(_holding())
    return "decisions (min / median / max)\n" + layout(rows)


def _decisions(size: int) -> list[Sequence[str]]:
    nodes, pods = [wire.node(index) for index in range(size)], list(wire.pods(size))
    owner = wire.parsed_owner()
    quiet = _world(owner, nodes, pods, manifests.FIRST_IMAGE)
    rows = [
        _decision(f"nothing to do, {size} nodes (ms)", quiet, nodes, pods, 0),
        _decision(f"the first look at {size} nodes (ms)", quiet, nodes, pods, 0, cold=True),
        _decision(f"a pod for each of {size} nodes (ms)", msgspec.structs.replace(quiet, pods=()), nodes, [], size),
    ]
    rolling = _world(owner, nodes, pods, manifests.NEXT_IMAGE)
    rows.append(_decision(f"a wave of {size} nodes (ms)", rolling, nodes, pods, size // 10))
    return rows


def _world(owner: DaemonSet, nodes: list[JSON], pods: list[JSON], image: str) -> World:
    """The world in which the pods have revision `HASH` and the template is that of `image`."""
    view = wire.revision(manifests.template(image))
    label = wire.HASH if image == manifests.FIRST_IMAGE else wire.HASH[::-1]
    view["metadata"]["labels"]["controller-revision-hash"] = label
    stored = revision.project(msgspec.convert(view, revision.RevisionView))
    assert stored is not None
    spec = msgspec.structs.replace(owner.spec, template=stored.template)
    records = [pod.project(msgspec.convert(one, pod.PodView)) for one in pods]
    wanted = msgspec.structs.replace(owner, spec=spec, identity=stored.identity)
    return World(
        daemonset=wanted,
        rules=compiled(wanted),
        nodes=tuple([node.project(msgspec.convert(one, node.NodeView)) for one in nodes]),
        pods=tuple([record for record in records if record is not None]),
        revisions=(stored,),
        verdicts={label: Accepted()},
        now=time.time(),
    )


def _decision(
    text: str, world: World, nodes: list[JSON], pods: list[JSON], actions: int, *, cold: bool = False
) -> Sequence[str]:
    """`actions`: how many ours must decide on, so that no other thing is measured than is said."""

    def ours() -> Plan:
        rules = compiled(world.daemonset) if cold else world.rules
        return plan(msgspec.structs.replace(world, rules=rules))

    found = len(ours().actions)
    if found != min(actions, DEFAULT_BURST):
        raise AssertionError(f"{text}: {found} actions, not {min(actions, DEFAULT_BURST)}")
    document, label, limit = wire.owner(), world.revisions[0].hash, len(nodes) // 10
    mine = _timed(ours)
    theirs = _timed(lambda: plain.decide(document, nodes, pods, label, limit))
    return _row(text, theirs, mine, 15.0 if len(nodes) == 5000 else None)


def _decoding() -> Sequence[str]:
    lines = [wire.event(one) for one in wire.pods(EVENTS)]
    decoder = Decoder(PODS)
    mine = _timed(lambda: [decoder.line(line) for line in lines], repeats=5)
    theirs = _timed(lambda: [json.loads(line) for line in lines], repeats=5)
    text = f"reading a pod event of {len(lines[0])} bytes (µs)"
    return _row(text, _for_one(theirs), _for_one(mine), None)


def _for_one(taken: list[float]) -> list[float]:
    """Microseconds for one event, from milliseconds for all."""
    return [1000 * value / EVENTS for value in taken]


def _holding() -> Sequence[str]:
    def held(how: str) -> float:
        command = [sys.executable, "-m", "tests.tools.bench.hold", how, str(HELD_NODES), str(HELD_PODS)]
        return float(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)

    text = f"resident with {HELD_NODES} nodes and {HELD_PODS} pods (MiB)"
    return _row(text, [held("plain")], [held("ours")], 120.0)


def _timed(call: Callable[[], object], repeats: int = REPEATS) -> list[float]:
    """Milliseconds of processor time of each call, after one that does not count.

    Not of the clock on the wall: a decision waits for nothing, so the difference is what others did meanwhile.
    """
    call()
    gc.collect()
    taken = []
    for _ in range(repeats):
        begun = time.process_time()
        call()
        taken.append((time.process_time() - begun) * 1000)
    return taken


def _row(text: str, theirs: list[float], mine: list[float], target: float | None) -> Sequence[str]:
    ratio = f"{median(mine) / median(theirs):.2f}"
    if target is None:
        return text, spread(theirs), spread(mine), ratio, "-", ""
    met = "met" if median(mine) <= target else "MISSED"
    return text, spread(theirs), spread(mine), ratio, f"<= {target:g}", met
