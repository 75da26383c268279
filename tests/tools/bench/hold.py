"""`python -m tests.tools.bench.hold ours|plain NODES PODS`: fill the caches of a controller, print MiB resident, and
bytes for each pod.

A process of its own, because memory that was used once stays resident. Objects arrive as bytes one by one and the
bytes are dropped, as from a stream. PODS belong to as many DaemonSets as it takes to put one of each on a node.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from controller.kube.decode import Decoder, ErrorEvent
from controller.kube.requests import NODES, PODS, W
from controller.reconcile.caches import Caches
from controller.runtime.store import Record, StoreWriter
from controller.runtime.watch import Init
from tests.tools.bench import wire
from tests.tools.bench.api import JSON
from tests.tools.bench.proc import resident_mebibytes

R = TypeVar("R", bound=Record)


def main(how: str, nodes: int, pods: int) -> None:
    importlib.import_module("controller.app")  # all code of the controller counts
    resident = list[float]()
    fill = _ours if how == "ours" else _plain
    held = fill(nodes, pods, lambda: resident.append(resident_mebibytes(os.getpid())))
    with_nodes, with_pods = resident
    print(f"{with_pods:.1f} {(with_pods - with_nodes) * 2**20 / pods:.0f}")
    del held


def _ours(nodes: int, pods: int, measure: Callable[[], None]) -> Caches:
    """Measured with the nodes, and with the pods as well."""
    caches = Caches()
    _fill(caches.nodes.writers[""], Decoder(NODES), map(wire.node, range(nodes)))
    measure()
    _fill(caches.pods.writers[""], Decoder(PODS), _pods(nodes, pods))
    measure()
    if len(caches.fleet) != nodes or len(caches.pods) != pods:
        raise AssertionError(f"{len(caches.fleet)} nodes and {len(caches.pods)} pods are held")
    return caches


def _plain(nodes: int, pods: int, measure: Callable[[], None]) -> list[JSON]:
    held = list[JSON]()
    for some in (map(wire.node, range(nodes)), _pods(nodes, pods)):
        held += [json.loads(msgspec.json.encode(one)) for one in some]
        measure()
    return held


def _pods(nodes: int, pods: int) -> Iterator[JSON]:
    for owner in range(-(-pods // nodes)):
        yield from wire.pods(range(min(nodes, pods - owner * nodes)), owner)


def _fill(writer: StoreWriter[R], decoder: Decoder[W, R], found: Iterator[JSON]) -> None:
    writer.apply(Init())
    for one in found:
        seen = decoder.line(wire.event(one))
        if isinstance(seen, ErrorEvent):
            raise TypeError(f"an error instead of an event: {seen.body!r}")
        writer.apply(seen)
    for _ in writer.replace("1000000"):
        pass


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
