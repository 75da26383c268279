"""Random days of a cluster, in virtual time: whatever happened, in the end every node has what it should."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from tests.beds.api import PODS, Refusal
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import simulated
from tests.beds.nodes import INSTANT, Behaviour
from tests.beds.objects import daemonset
from tests.beds.simulator.faults import Answer, CloseWatch, ErrorEvent, LateWatch, LoseAnswer, LoseRequest, Rule
from tests.system.replay import film

FAULTS = [
    Rule(verb="create", resource="pods", percentage=30, effect=Answer(500)),
    Rule(verb="create", resource="pods", percentage=30, effect=LoseAnswer()),
    Rule(verb="delete", resource="pods", percentage=30, effect=LoseAnswer()),
    Rule(verb="patch", resource="*", percentage=40, effect=Answer(409)),
    Rule(verb="patch", resource="*", percentage=30, effect=LoseAnswer()),
    Rule(verb="create", resource="controllerrevisions.apps", percentage=50, effect=LoseRequest()),
    Rule(verb="watch", resource="*", percentage=50, effect=LateWatch(seconds=2)),
    Rule(verb="watch", resource="*", percentage=50, effect=CloseWatch(events=2, reset=True)),
    Rule(verb="watch", resource="*", percentage=50, effect=ErrorEvent(events=1)),
]
KUBELETS = [INSTANT, Behaviour(start=0.5, ready=0.5, terminate=0.5), Behaviour(ready=None), Behaviour(fail=3.0)]
ROLLING = [
    {"maxUnavailable": 1, "maxSurge": 0},
    {"maxUnavailable": "50%", "maxSurge": 0},
    {"maxUnavailable": 0, "maxSurge": 1},
    {"partition": 2},
    {"partition": None},
    {"paused": True},
    {"paused": False},
]
LAST = {"maxUnavailable": 2, "maxSurge": 0, "partition": None, "paused": False}


class Day:
    """What can happen, drawn from one seed."""

    def __init__(self, bed: Bed, seed: int) -> None:
        self.bed, self.chance = bed, random.Random(seed)
        self.image = "registry.example/agent:v1"
        self.trouble: Rule | None = None

    async def new_image(self) -> None:
        self.image = f"registry.example/agent:v{self.chance.randint(1, 4)}"
        await self.bed.set_image(self.image)

    async def new_strategy(self) -> None:
        await self.bed.edit({"updateStrategy": {"rollingUpdate": self.chance.choice(ROLLING)}})

    async def new_patience(self) -> None:
        await self.bed.edit({"minReadySeconds": self.chance.choice([0, 1, 5])})

    async def node_comes_or_goes(self) -> None:
        name = f"node-{self.chance.randint(0, 7)}"
        if name in self.bed.nodes.names:
            await self.bed.nodes.remove(name)
            for pod in await self.bed.api.list(PODS):  # what the pod garbage collector would do
                if pod["spec"].get("nodeName") == name:
                    await self.bed.api.delete(PODS, pod["metadata"]["name"], options={"gracePeriodSeconds": 0})
        else:
            await self.bed.nodes.add(name)

    async def node_changes(self) -> None:
        name = self.chance.choice(self.bed.nodes.names)
        effect = self.chance.choice(["NoSchedule", "NoExecute", ""])
        await self.bed.taint(name, *([{"key": "reserved", "effect": effect}] if effect else []))

    async def kubelet_changes(self) -> None:
        self.bed.nodes.behave(self.chance.choice(self.bed.nodes.names), self.chance.choice(KUBELETS))

    async def pod_goes(self) -> None:
        if pods := await self.bed.api.list(PODS):
            await self.bed.api.delete(PODS, self.chance.choice(pods)["metadata"]["name"])

    async def pod_loses_its_owner(self) -> None:
        if pods := await self.bed.api.list(PODS):
            name = self.chance.choice(pods)["metadata"]["name"]
            await self.bed.api.patch(PODS, name, {"metadata": {"ownerReferences": None}})

    async def controller_dies(self) -> None:
        await self.bed.controller.kill()
        self.bed.controller.start()

    async def trouble_changes(self) -> None:
        faults = self.bed.simulator.link.faults
        if self.trouble is not None:
            faults.remove(self.trouble)
        self.trouble = self.chance.choice([None, *FAULTS])
        if self.trouble is not None:
            faults.add(self.trouble)

    async def pass_by(self) -> None:
        """Some things happen, one after another or together, and then all is well again."""
        acts = [
            self.new_image,
            self.new_image,
            self.new_strategy,
            self.new_patience,
            self.node_comes_or_goes,
            self.node_changes,
            self.kubelet_changes,
            self.pod_goes,
            self.pod_loses_its_owner,
            self.controller_dies,
            self.trouble_changes,
        ]
        for _ in range(25):
            with suppress(Refusal):  # what it was about has gone meanwhile
                await self.chance.choice(acts)()
            await self.bed.idle(self.chance.choice([0.0, 0.05, 0.5, 5.0]))
        if self.trouble is not None:
            self.bed.simulator.link.faults.remove(self.trouble)
            self.bed.simulator.link.drop_watches()
        for name in self.bed.nodes.names:
            self.bed.nodes.behave(name, None)
            await self.bed.taint(name)
        await self.bed.edit({"updateStrategy": {"rollingUpdate": LAST}, "minReadySeconds": 0})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """16 days that are always the same; under `make test-deep`, which gives a seed, new ones."""
    given = metafunc.config.getoption("--hypothesis-seed", None)
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(16) if given is None else range(int(given), int(given) + 200))


async def test_after_a_random_day_every_node_has_its_pod_and_nothing_else(seed: int) -> None:
    async with simulated(latency=0.02) as bed:
        bed.patience = 7200.0
        await bed.add_nodes(5)
        history = await film(bed)
        await bed.deploy(daemonset())
        day = Day(bed, seed)
        await day.pass_by()
        await bed.settled()
        await bed.runs_on(*bed.nodes.names, image=day.image)
        wheres = await history.crowded(same_image=True)
        assert wheres == [], "two pods of one image on a node"
        await bed.idle(1000)
        bed.journal.clear()
        await bed.idle(3600)
        assert bed.journal.writes == []
