"""`status -w` and `promote --wait` on a real API server, while others change the rollout at random: whatever they end
with, the controller has recorded it while they ran, of the generation of which they say it.

It goes on until each kind of ending was there. `KRUISE_DS_OTHERS=60:7` in the environment: for so many seconds at
least, and with that seed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.beds.api import DAEMONSETS, MERGE_PATCH, NODES, Api, Object, closing
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.plugin import Plugin, Ran
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.nodes import Behaviour

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller")]

ON = tuple(f"others-{number}" for number in range(6))
SECONDS, SEED = os.environ.get("KRUISE_DS_OTHERS", "12:1").split(":")
PATIENCE = 20.0
COMMANDS = (("status", "demo", "-w", "-o", "json"), ("promote", "demo", "--wait", "-o", "json"))
ENDINGS = {("status", True), ("status", False), ("promote", True), ("promote", False)}
"""Well or not; that the time was over is neither."""


@dataclass(frozen=True)
class State:
    """Of the DaemonSet, by its spec and by the controller's record."""

    generation: int
    paused: bool
    phase: str
    """Empty where the record is of an earlier spec."""
    done: int
    target: int

    @property
    def finished(self) -> bool:
        return self.phase in ("Held", "Healthy") and self.done == self.target


def state_of(daemonset: Object) -> State:
    status, generation = daemonset.get("status") or {}, daemonset["metadata"]["generation"]
    rollout = status.get("rollout") or {}
    return State(
        generation=generation,
        paused=bool(daemonset["spec"]["updateStrategy"].get("rollingUpdate", {}).get("paused")),
        phase=str(rollout.get("phase")) if status.get("observedGeneration") == generation else "",
        done=rollout.get("done", 0),
        target=rollout.get("target", 0),
    )


def confirmed(ran: Ran, seconds: float, states: Sequence[State]) -> bool:
    """`states`: those that there were while it ran."""
    if ran.code == 3:
        return seconds >= PATIENCE
    return (_status_confirmed if ran.words[0] == "status" else _promotion_confirmed)(ran, states)


def _status_confirmed(ran: Ran, states: Sequence[State]) -> bool:
    """What it says last is a state that the controller has recorded."""
    told = json.loads(ran.out.splitlines()[-1])
    means = {0: ("Held", "Healthy"), 4: ("Stalled",), 5: ("Paused",)}.get(ran.code, ())
    nodes = told["nodes"]
    recorded = [one for one in states if (one.generation, one.phase) == (told["generation"], told["phase"])]
    if ran.code == 0:
        recorded = [one for one in recorded if one.finished and one.target == nodes["target"]]
    return told["phase"] in means and bool(recorded)


def _promotion_confirmed(ran: Ran, states: Sequence[State]) -> bool:
    """What it has written is told, and so is its generation."""
    own = json.loads(ran.out)["metadata"]["generation"] if ran.out else None
    generations = {one.generation for one in states}
    match ran.code:
        case 0:
            return any(one.finished for one in states if one.generation == own)
        case 4:
            return any(one.phase == "Stalled" for one in states if own in (None, one.generation))
        case 5:
            return any(one.paused for one in states if own in (None, one.generation))
        case 6:
            return max(generations) > (min(generations) if own is None else own)
    return False


class Record:
    """Every state of the DaemonSet, in its order."""

    def __init__(self, api: Api, now: Object) -> None:
        self._api = api
        self.states = [state_of(now)]
        self._version, self._grew = int(now["metadata"]["resourceVersion"]), asyncio.Event()

    async def keep(self) -> None:
        query = {"fieldSelector": "metadata.name=demo", "resourceVersion": str(self._version)}
        async with aclosing(closing(self._api.watch(DAEMONSETS, silence=300.0, **query))) as events:
            async for event in events:
                self.states.append(state_of(event.object))
                self._version = int(event.object["metadata"]["resourceVersion"])
                self._grew.set()

    async def is_up_to_date(self) -> None:
        """All is in it that a command may have seen that has ended."""
        now = int((await self._api.get(DAEMONSETS, "demo"))["metadata"]["resourceVersion"])
        async with asyncio.timeout(60.0):
            while self._version < now:
                self._grew.clear()
                await self._grew.wait()


@asynccontextmanager
async def recorded(bed: Workspace) -> AsyncIterator[Record]:
    record = Record(bed.api, await bed.api.get(DAEMONSETS, "demo"))
    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(record.keep())
        yield record
        keeping.cancel()


async def others(bed: Workspace, chance: random.Random) -> None:
    """Until cancelled."""
    while True:
        await asyncio.sleep(chance.uniform(0.05, chance.choice([0.5, 1.0, 1.5, 5.0])))
        change: Any = {"updateStrategy": {"rollingUpdate": {"paused": chance.random() < 0.4}}}
        match chance.randrange(5):
            case 0:
                change = {"updateStrategy": {"rollingUpdate": {"partition": chance.choice([0, 2, 4, "30%"])}}}
            case 1:
                image = f"registry.example.com/demo:v{chance.randrange(3)}"
                change = {"template": {"spec": {"containers": [{"name": "demo", "image": image}]}}}
            case 2:
                selector = chance.choice([None, {"matchLabels": {"track": "canary"}}])
                change = {"updateStrategy": {"rollingUpdate": {"selector": selector}}}
            case 3:
                label = {"metadata": {"labels": {"track": chance.choice(["canary", None])}}}
                await bed.api.patch(NODES, chance.choice(ON), label, content_type=MERGE_PATCH)
                continue
        await bed.api.patch(DAEMONSETS, "demo", {"spec": change}, content_type=MERGE_PATCH)


async def test_the_record_confirms_every_exit_code(bed: Workspace, plane: ControlPlane) -> None:
    plugin = Plugin(plane.kubectl, plane.kubeconfig, bed.namespace)
    await bed.workers(*ON)
    bed.nodes.behave("*", Behaviour(ready=0.8))
    demo = sample("ds.demo.yaml")
    demo["metadata"]["annotations"] = {"kruise-ds/steps": "4,2,0"}
    await bed.apply(demo)
    await bed.settled(len(ON))
    codes: Counter[tuple[str, int]] = Counter()
    clock = asyncio.get_running_loop().time
    end = clock() + float(SECONDS)

    async def asked(record: Record, *words: str) -> None:
        while clock() < end or not {(verb, code == 0) for verb, code in codes if code != 3} >= ENDINGS:
            since, began = len(record.states) - 1, clock()
            ran = await plugin.run(*words, f"--timeout={PATIENCE:.0f}s")
            seconds = clock() - began
            await record.is_up_to_date()
            states = record.states[since:]
            assert confirmed(ran, seconds, states), f"{ran}{states}"
            codes[words[0], ran.code] += 1

    async with recorded(bed) as record, asyncio.TaskGroup() as group:
        meddling = group.create_task(others(bed, random.Random(int(SEED))))
        async with asyncio.timeout(300.0), asyncio.TaskGroup() as commands:
            for words in COMMANDS:
                commands.create_task(asked(record, *words))
        meddling.cancel()
    print(f"seed {SEED}: {dict(codes)}, {len(record.states)} states")
