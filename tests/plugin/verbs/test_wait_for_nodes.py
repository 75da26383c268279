"""A wait for nodes that cannot be reached says so while it waits and at its end, and ends when they are back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.plugin.kept import story
from tests.plugin.scene import PACE, Scene, rolling, template
from tests.plugin.verbs.few_nodes import acted, few_nodes, stop_serving

WHY = "waits for 1 unreachable node: a-04"


@story
def tolerant(scene: Scene, /, partition: int) -> None:
    """Revision 2, which tolerates everything, and a-04 cannot be reached since 10 minutes."""
    few_nodes.play(scene)
    made = template("1.9.0")
    made["spec"]["tolerations"] = [{"operator": "Exists"}]
    metadata = {"annotations": {"kruise-ds/steps": "3,2,0"}}
    scene.do(scene.edit({"metadata": metadata, "spec": {"template": made, **rolling(partition=partition)}}))
    scene.pass_time(600.0)
    scene.do(scene.nodes.lose("a-04"))
    scene.pass_time(600.0)


@pytest.mark.parametrize(
    "words",
    [
        ("set-image", "agent=registry.example.com/agent:2.0.0", "--hold-at", "3", "-y"),
        ("set-partition", "3"),
        ("promote", "--force"),
    ],
    ids=lambda words: str(words[0]),
)
def test_a_change_waits_and_says_for_which_nodes(words: Sequence[str]) -> None:
    with tolerant(4) as scene:
        ran = acted(scene, *words, "--wait", "--timeout", "20m")
    assert (ran.code, ran.err.rstrip().endswith(WHY)) == (3, True), ran.err
    *before, _ = (ran.out + ran.err).splitlines()
    assert WHY in before[-1], "the last line before the end says it too"


def test_after_the_rollout_it_says_so_too() -> None:
    with tolerant(0) as scene:
        scene.do(stop_serving(scene, "a-04"))
        ran = acted(scene, "status", "-w", "--timeout", "20m")
    assert (ran.code, ran.err.endswith("is at 3 of 4 nodes (Degraded), waiting for a-04\n")) == (3, True), ran.err
    assert "Degraded 3/4 updated: waiting for a-04 (no change for " in ran.out.splitlines()[-1]


def test_a_pod_has_time_to_get_ready_when_its_node_is_back() -> None:
    """The node was away for longer than the deadline, and so the rollout was Degraded for longer."""

    async def comes_back(scene: Scene) -> None:
        await asyncio.sleep(1200.0)
        await scene.nodes.regain("a-04", replace(PACE, ready=None))
        await asyncio.sleep(60.0)
        await scene.nodes.ready(await scene.pod_on("a-04"))

    with tolerant(0) as scene:
        scene.do(stop_serving(scene, "a-04"))
        ran = acted(scene, "status", "-w", "--timeout", "1h", meanwhile=comes_back)
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("timeout", ["1h", "0"])
def test_it_ends_well_when_the_node_is_back(timeout: str) -> None:
    async def comes_back(scene: Scene) -> None:
        await asyncio.sleep(1800.0)
        await scene.nodes.regain("a-04")

    with tolerant(4) as scene:
        ran = acted(scene, "set-partition", "3", "--wait", "--timeout", timeout, meanwhile=comes_back)
    assert ran.code == 0, ran.err
