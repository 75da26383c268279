"""A forecast in a line for each wave."""

from __future__ import annotations

from typing import Any

from controller.planner.world import World
from kubectl_plugin.forecast.forecast import Forecast
from kubectl_plugin.forecast.moves import How, Wave
from tests.beds.worlds import ds, everywhere, world

MARK = {How.RECREATE: "", How.SURGE: "^", How.CREATE: "+", How.FINISH: "=", How.REMOVE: "-", How.IN_PLACE: "*"}
"""What stands before a node's number; "!" after it: at once, outside the budget."""


def told(found: Forecast) -> list[str]:
    """`["4 3", "2 1"]`: two waves of two nodes each, all re-created."""
    return [_wave(one) for one in found.waves]


def _wave(wave: Wave) -> str:
    return " ".join(
        f"{MARK[one.how]}{one.node.removeprefix('node-')}{'!' if one.is_urgent else ''}" for one in wave.moves
    )


def old(count: int = 5, **strategy: Any) -> World:
    """node-0 … with v1 everywhere, and v2 wanted."""
    return world(ds("v2", **strategy), nodes=count, pods=everywhere(count))
