"""The 24 nodes: what they are called, where they stand, and how fast they are."""

from __future__ import annotations

import zlib

from tests.beds.nodes import Behaviour, Nodes
from tests.beds.nodes.fleet import ZONE_LABEL, ZONES

NODES_PER_ZONE = 8
LABEL = ("gpu", "cuda")
"""On every node; the story takes it from one and gives it back."""

BAD_IMAGE = "busybox:1.73"
"""No node can pull it."""

NAMES = {
    f"{zone.removeprefix('zone-')}-{number:02}": zone for zone in ZONES for number in range(1, NODES_PER_ZONE + 1)
}
"""Name and zone of each node."""


async def join(nodes: Nodes, pace: float) -> None:
    """Let all nodes join the cluster. `pace` 1 is for people; 0.1 is ten times as fast."""
    for name, zone in NAMES.items():
        await nodes.add(name, labels=dict([(ZONE_LABEL, zone), LABEL]), behaviour=_behaviour(name, pace))


def _behaviour(name: str, pace: float) -> Behaviour:
    """No two machines are alike, but each is the same in every run."""
    factor = pace * (0.7 + 0.6 * (zlib.crc32(name.encode()) % 100) / 100)
    missing = (BAD_IMAGE,)
    return Behaviour(
        pull=0.8 * factor, start=0.3 * factor, ready=0.8 * factor, terminate=0.6 * factor, missing_images=missing
    )
