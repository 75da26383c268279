"""What a decision costs the processor, and what its records weigh, beside plain dicts in the same run."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from controller.api import node, pod, revision
from controller.api.daemonset import DaemonSet
from controller.kube.decode import Decoder
from controller.kube.requests import PODS
from controller.planner.limits import DEFAULT_BURST
from controller.planner.plan import Plan, plan
from controller.planner.validation import compiled
from controller.planner.world import Accepted, World
from tests.tools.bench import manifests, plain, wire
from tests.tools.bench.api import JSON
from tests.tools.bench.bed import ROOT
from tests.tools.bench.figures import Comparison, Report, compared

SIZES = (1000, 5000, 10_000)
REPEATS = 15
EVENTS = 5000
HELD_NODES, HELD_PODS = 5000, 30_000

QUIET, COLD, CREATES, WAVE, NEW = 0.6, 0.75, 3.0, 0.8, 0.95
"""Ceilings of a decision ÷ a plain pass over the same dicts, which only names the nodes that lack a pod."""
QUIET_MOST, NEW_MOST = 3.0, 15.0
"""Milliseconds for 5,000 nodes."""
EVENT, PROCESS, CACHED_POD = 1.0, 0.12, 0.05
"""Those of decoding ÷ `json.loads`, and of the memory ÷ that of the dicts."""


def decide(say: Callable[[str], None]) -> Report:
    rows = list[Comparison]()
    for size in SIZES:
        say(f"decisions on {size} nodes and pods")
        rows += _decisions(size)
    say(f"decoding {EVENTS} watch events")
    rows.append(_decoding())
    say(f"holding {HELD_NODES} nodes and {HELD_PODS} pods")
    rows += _holding()
    return compared("decisions", rows)


def _decisions(size: int) -> list[Comparison]:
    nodes, pods = [wire.node(index) for index in range(size)], list(wire.pods(range(size)))
    owner = wire.parsed_owner()
    quiet = world_of(owner, nodes, pods, manifests.FIRST_IMAGE)
    rows = [
        _decision(f"nothing to do, {size} nodes (ms)", quiet, nodes, pods, 0, QUIET, most=QUIET_MOST),
        _decision(f"the first look at {size} nodes (ms)", quiet, nodes, pods, 0, COLD, cold=True),
        _decision(f"a pod for each of {size} nodes (ms)", replace(quiet, pods=()), nodes, [], size, CREATES),
    ]
    rolling = world_of(owner, nodes, pods, manifests.NEXT_IMAGE)
    rows.append(_decision(f"a wave of {size} nodes (ms)", rolling, nodes, pods, size // 10, WAVE))
    text = f"a new template, {size} nodes (ms)"
    rows.append(_decision(text, rolling, nodes, pods, size // 10, NEW, cold=True, most=NEW_MOST))
    return rows


def world_of(owner: DaemonSet, nodes: list[JSON], pods: list[JSON], image: str) -> World:
    """The world in which the pods have revision `HASH` and the template is that of `image`."""
    label = wire.HASH if image == manifests.FIRST_IMAGE else wire.HASH[::-1]
    stored = stored_revision(image, label)
    spec = replace(owner.spec, template=stored.template)
    records = [pod.project(msgspec.convert(one, pod.PodView)) for one in pods]
    wanted = replace(owner, spec=spec, identity=stored.identity)
    return World(
        daemonset=wanted,
        rules=compiled(wanted),
        nodes=tuple([node.project(msgspec.convert(one, node.NodeView)) for one in nodes]),
        pods=tuple([record for record in records if record is not None]),
        revisions=(stored,),
        verdicts={label: Accepted()},
        now=time.time(),
    )


def stored_revision(image: str, label: str) -> revision.Revision:
    view = wire.revision(manifests.template(image))
    view["metadata"]["labels"]["controller-revision-hash"] = label
    stored = revision.project(msgspec.convert(view, revision.RevisionView))
    assert stored is not None
    return stored


def _decision(
    text: str,
    world: World,
    nodes: list[JSON],
    pods: list[JSON],
    actions: int,
    ceiling: float,
    *,
    cold: bool = False,
    most: float | None = None,
) -> Comparison:
    """`actions`: how many ours must decide on, so that no other thing is measured than is said. `most` is for 5,000
    nodes."""

    def ours() -> Plan:
        rules = compiled(world.daemonset) if cold else world.rules
        return plan(replace(world, rules=rules))

    found = len(ours().actions)
    if found != min(actions, DEFAULT_BURST):
        raise AssertionError(f"{text}: {found} actions, not {min(actions, DEFAULT_BURST)}")
    document, label, limit = wire.owner(), world.revisions[0].hash, len(nodes) // 10
    theirs, mine = timed(lambda: plain.decide(document, nodes, pods, label, limit), ours)
    return Comparison(text, theirs, mine, ceiling, most if len(nodes) == 5000 else None)


def _decoding() -> Comparison:
    lines = [wire.event(one) for one in wire.pods(range(EVENTS))]
    decoder = Decoder(PODS)
    theirs, mine = timed(lambda: _done(map(json.loads, lines)), lambda: _done(map(decoder.line, lines)), repeats=5)
    text = f"reading a pod event of {len(lines[0])} bytes (µs)"
    return Comparison(text, _for_one(theirs), _for_one(mine), EVENT)


def _done(each: Iterator[object]) -> None:
    """Nothing is kept: what the garbage collector makes of many objects is the memory's own row."""
    deque(each, maxlen=0)


def _for_one(taken: list[float]) -> list[float]:
    """Microseconds for one event, from milliseconds for all."""
    return [1000 * value / EVENTS for value in taken]


def _holding() -> list[Comparison]:
    def held(how: str) -> tuple[float, float]:
        command = [sys.executable, "-m", "tests.tools.bench.hold", how, str(HELD_NODES), str(HELD_PODS)]
        whole, pod = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
        return float(whole), float(pod)

    (plain_whole, plain_pod), (whole, pod) = held("plain"), held("ours")
    text = f"resident with {HELD_NODES} nodes and {HELD_PODS} pods (MiB)"
    return [
        Comparison(text, [plain_whole], [whole], PROCESS),
        Comparison("memory of a cached pod (bytes)", [plain_pod], [pod], CACHED_POD),
    ]


def timed(
    theirs: Callable[[], object], mine: Callable[[], object], repeats: int = REPEATS
) -> tuple[list[float], list[float]]:
    """Milliseconds of processor time of each call, after one that does not count, in turns: a slow moment of the
    machine meets both.

    Not of the clock on the wall: a decision waits for nothing, so the difference is what others did meanwhile.
    """
    calls, taken = (theirs, mine), (list[float](), list[float]())
    for call in calls:
        call()
    gc.collect()
    for _ in range(repeats):
        for call, times in zip(calls, taken, strict=True):
            begun = time.process_time()
            call()
            times.append((time.process_time() - begun) * 1000)
    return taken
