"""`status -w`, `promote --wait` and `--wait` while others change the rollout at random for a minute: whatever they
end with, the controller's own record says so at that moment.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.beds.api import MERGE_PATCH, NODES, Object
from tests.plugin import scene as scenes
from tests.plugin.playing import Meanwhile
from tests.plugin.scene import NAME, NAMESPACE, PACE, Scene, held, rolling, template
from tests.plugin.verbs.few_nodes import stored

HOME = ("-n", NAMESPACE)
CONFIRMS = {0: {"Held", "Healthy"}, 4: {"Stalled"}, 5: {"Paused"}}
"""Phases behind an exit code; with 3, 6 and nothing else it may be in any."""


def others(seed: int) -> Meanwhile:
    """With an even seed they leave the spec alone, and nobody is overtaken: nodes come, and change their labels."""
    chance = random.Random(seed)

    async def change(scene: Scene) -> None:
        match chance.randrange(0 if seed % 2 else 4, 6):
            case 0:
                await scene.edit({"spec": rolling(partition=chance.choice([0, 8, 16, 22, "30%"]))})
            case 1:
                await scene.edit({"spec": {"template": template(f"2.0.{chance.randrange(3)}")}})
            case 2:
                await scene.edit({"spec": rolling(paused=chance.random() < 0.5)})
            case 3:
                selector = chance.choice([None, {"matchLabels": {"track": "canary"}}])
                await scene.edit({"spec": rolling(selector=selector)})
            case 4:
                label = {"metadata": {"labels": {"track": chance.choice(["canary", None])}}}
                await scene.api.patch(NODES, chance.choice(scenes.NODES), label, content_type=MERGE_PATCH)
            case 5:
                await scenes.join(scene, [f"d-{chance.randrange(10**6)}"])

    async def meanwhile(scene: Scene) -> None:
        for _ in range(20):
            await asyncio.sleep(chance.uniform(0.1, 6.0))
            await change(scene)

    return meanwhile


def confirmed(code: int, found: Object) -> bool:
    status = found["status"]
    if code in (3, 6):
        return True
    seen = status["observedGeneration"] == found["metadata"]["generation"]
    return seen and status["rollout"]["phase"] in CONFIRMS[code]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "words",
    [
        ("status", NAME, "-w", "--timeout", "20m"),
        ("promote", NAME, "--wait", "--timeout", "20m"),
        ("set-partition", NAME, "12", "--wait", "--timeout", "20m"),
    ],
    ids=lambda words: words[0],
)
def test_the_record_confirms_the_exit_code(words: tuple[str, ...], seed: int) -> None:
    with held() as scene:
        scene.nodes.behave("*", PACE)
        scene.do(scene.edit({"spec": rolling(partition=14)}))
        ran = scene.run(*words, *HOME, meanwhile=others(seed))
        found = stored(scene)
    assert confirmed(ran.code, found), f"{ran.code}: {found['status']['rollout']} {ran.out[-300:]}{ran.err[-300:]}"
