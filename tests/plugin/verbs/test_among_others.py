"""`status -w` and `--wait` while others change the rollout at random for a minute: whatever they
end with, the controller's own record says so at that moment.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, replace

import pytest

from tests.beds.api import MERGE_PATCH, NODES, Object
from tests.plugin import scene as scenes
from tests.plugin.playing import Meanwhile, Ran
from tests.plugin.scene import NAME, NAMESPACE, PACE, Scene, rolling, template
from tests.plugin.verbs import few_nodes
from tests.plugin.verbs.few_nodes import KIND, stored

HOME = ("-n", NAMESPACE)
SEEDS = range(6)
"""Each patience, with others who change the spec and without; the next four end with the same codes."""
PATIENCE = (100.0, 240.0, 240.0)
"""Seconds of `--timeout`, one seed after the other."""
DEADLINE = {"metadata": {"annotations": {"kruise-ds/progress-deadline-seconds": "120"}}}


def others(seed: int) -> Meanwhile:
    """With an even seed they leave the spec alone, and no verb is overtaken: nodes come, change their labels, and get
    no pod ready any more.
    """
    chance = random.Random(seed)

    async def change(scene: Scene) -> None:
        match chance.randrange(0 if seed % 2 else 4, 7):
            case 0:
                await scene.edit({"spec": rolling(partition=chance.choice([0, 1, 2, 3, "30%"]))})
            case 1:
                await scene.edit({"spec": {"template": template(f"2.0.{chance.randrange(3)}")}})
            case 2:
                await scene.edit({"spec": rolling(paused=chance.random() < 0.5)})
            case 3:
                selector = chance.choice([None, {"matchLabels": {"track": "canary"}}])
                await scene.edit({"spec": rolling(selector=selector)})
            case 4:
                label = {"metadata": {"labels": {"track": chance.choice(["canary", None])}}}
                await scene.api.patch(NODES, chance.choice(few_nodes.NODES), label, content_type=MERGE_PATCH)
            case 5:
                await scenes.join(scene, [f"d-{chance.randrange(10**6)}"])
            case 6 if chance.random() < 0.3:
                scene.nodes.behave("*", replace(PACE, ready=chance.choice([30.0, None])))

    async def meanwhile(scene: Scene) -> None:
        for _ in range(20):
            await asyncio.sleep(chance.uniform(0.1, 6.0))
            await change(scene)

    return meanwhile


@dataclass
class End:
    """How a verb ended, and what was stored at that moment."""

    ran: Ran
    late: bool
    """Whether its time was over."""
    found: Object
    mine: int
    """The generation of the spec if only the verb has changed it since it began."""

    @property
    def phase(self) -> str:
        """As the controller has recorded it; empty where its record is of an earlier spec."""
        status, generation = self.found["status"], self.found["metadata"]["generation"]
        return str(status["rollout"]["phase"]) if status["observedGeneration"] == generation else ""

    def confirmed(self, verb: str) -> bool:
        generation, rollout = self.found["metadata"]["generation"], self.found["status"]["rollout"]
        overtaken = verb != "status" and generation > self.mine
        match self.ran.code:
            case 0:
                finished = self.phase in ("Held", "Healthy") and rollout["done"] == rollout["target"]
                return finished and not overtaken
            case 3:
                return self.late and self.phase in ("", "Progressing", "Degraded") and not overtaken
            case 4:
                return self.phase == "Stalled" and not overtaken
            case 5:
                return self.phase == "Paused" and not overtaken
            case 6:
                return overtaken
        return False

    def __str__(self) -> str:
        generation, rollout = self.found["metadata"]["generation"], self.found["status"]["rollout"]
        return f"{self.ran.code} at generation {generation} ({self.mine} is its own): {rollout} {self.ran.err[-300:]}"


def ended(words: tuple[str, ...], seed: int) -> End:
    with few_nodes.at_half() as scene:
        scene.nodes.behave("*", PACE)
        scene.do(scene.edit({**DEADLINE, "spec": rolling(partition=1)}))
        before, began = stored(scene)["metadata"]["generation"], scene.now()
        patience = PATIENCE[seed % len(PATIENCE)]
        ran = scene.run(*words, "--timeout", f"{patience:.0f}s", *HOME, meanwhile=others(seed))
        late = scene.now() - began >= patience
        written = [seen for seen in scene.door.link.writes(KIND) if seen.status == 200]
        return End(ran, late, stored(scene), before + len(written))


@pytest.mark.parametrize(
    ("words", "codes"),
    [(("status", NAME, "-w"), {0, 3, 4, 5}), (("set-partition", NAME, "0", "--wait"), {0, 3, 4, 6})],
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)
def test_the_record_confirms_the_exit_code(words: tuple[str, ...], codes: set[int]) -> None:
    """Among the seeds is each of the codes with which such a minute may end."""
    ends = {seed: ended(words, seed) for seed in SEEDS}
    wrong = [f"seed {seed}: {end}" for seed, end in ends.items() if not end.confirmed(words[0])]
    assert not wrong, "\n".join(wrong)
    assert {end.ran.code for end in ends.values()} == codes
