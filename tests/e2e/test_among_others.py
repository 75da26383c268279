"""`status -w` and `promote --wait` on a real API server, while others change the rollout at random: whatever they end
with, the controller has recorded it while they ran.

`KRUISE_DS_OTHERS=60:7` in the environment: for so many seconds instead, and with that seed.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
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
CONFIRMS = {0: {"Held", "Healthy"}, 4: {"Stalled"}, 5: {"Paused"}}
"""Phases behind an exit code; 3 and 6 may come in any."""
COMMANDS = (("status", "demo", "-w"), ("promote", "demo", "--wait"))


def says(daemonset: Object) -> set[str]:
    """The phase, if it is of the newest spec; and whether it is paused, also where there is nothing to be paused."""
    status: Object = daemonset.get("status") or {}
    newest = status.get("observedGeneration") == daemonset["metadata"]["generation"]
    pause = daemonset["spec"]["updateStrategy"].get("rollingUpdate", {}).get("paused")
    return {*([status["rollout"]["phase"]] if newest else []), *(["Paused"] if pause else [])}


class Record:
    """Every state of the DaemonSet, in its order."""

    def __init__(self, api: Api, now: Object) -> None:
        self._api = api
        self.states = [says(now)]
        self._version, self._grew = int(now["metadata"]["resourceVersion"]), asyncio.Event()

    async def keep(self) -> None:
        query = {"fieldSelector": "metadata.name=demo", "resourceVersion": str(self._version)}
        async with aclosing(closing(self._api.watch(DAEMONSETS, silence=300.0, **query))) as events:
            async for event in events:
                self.states.append(says(event.object))
                self._version = int(event.object["metadata"]["resourceVersion"])
                self._grew.set()

    async def is_up_to_date(self) -> None:
        """All is in it that a command may have seen that has ended."""
        now = int((await self._api.get(DAEMONSETS, "demo"))["metadata"]["resourceVersion"])
        async with asyncio.timeout(60.0):
            while self._version < now:
                self._grew.clear()
                await self._grew.wait()

    def confirms(self, code: int, since: int) -> bool:
        """`since`: the state that there was when the command began."""
        said = set().union(*self.states[max(since - 1, 0) :])
        return code in (3, 6) or bool(said & CONFIRMS.get(code, set()))


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
        await asyncio.sleep(chance.uniform(0.05, 1.5))
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
    bed.nodes.behave("*", Behaviour(ready=0.3))
    demo = sample("ds.demo.yaml")
    demo["metadata"]["annotations"] = {"kruise-ds/steps": "4,2,0"}
    await bed.apply(demo)
    await bed.settled(len(ON))
    codes: Counter[tuple[str, int]] = Counter()
    end = asyncio.get_running_loop().time() + float(SECONDS)

    async def asked(record: Record, *words: str) -> None:
        while asyncio.get_running_loop().time() < end:
            since = len(record.states)
            ran: Ran = await plugin.run(*words, "--timeout=20s")
            await record.is_up_to_date()
            assert record.confirms(ran.code, since), f"{ran}{record.states[since - 1 :]}"
            codes[words[0], ran.code] += 1

    async with recorded(bed) as record, asyncio.TaskGroup() as group:
        meddling = group.create_task(others(bed, random.Random(int(SEED))))
        async with asyncio.TaskGroup() as commands:
            for words in COMMANDS:
                commands.create_task(asked(record, *words))
        meddling.cancel()
    print(f"{SECONDS} s, seed {SEED}: {dict(codes)}, {len(record.states)} states")
    assert {verb for verb, _ in codes} == {"status", "promote"}
