"""The summary of a pass over a world, and its states in one line."""

from __future__ import annotations

from msgspec.structs import replace

from controller.api.containers import PodProblem
from controller.api.daemonset import LifecycleHook
from controller.api.node import Node
from controller.api.pod import Pod
from controller.planner.plan import plan
from controller.planner.summary import Summary
from controller.planner.world import World
from tests.beds.worlds import node, pod

HOOK = LifecycleHook(labels_handler={"hook": "yes"})


def summary(of: World) -> Summary:
    seen = plan(of).summary
    assert seen is not None
    return seen


def states(seen: Summary) -> str:
    """`a: 2 updated, 1 old; b: 1 failed`, without the zeros."""
    return "; ".join(
        f"{zone}: " + ", ".join(f"{number} {state}" for state, number in numbers.items() if number)
        for zone, numbers in sorted(seen.zones.items())
    )


def ailing(on: str, problem: PodProblem, rev: str = "v2") -> Pod:
    return replace(pod(on, rev, ready=None), problem=problem)


def canary(*names: str) -> list[Node]:
    return [node(f"node-{number}", labels={"c": "y"} if f"node-{number}" in names else {}) for number in range(5)]
