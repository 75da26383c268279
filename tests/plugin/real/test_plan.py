"""What `plan` says, and what the real controller then does on the real API server, seen by a watch of our own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from tests.beds.api import PODS, Object, closing
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.access import run_to_end
from tests.beds.controller.bed import Bed
from tests.beds.controller.waves import UNREADY, all_ready
from tests.beds.objects import V2, daemonset, node_of

pytestmark = pytest.mark.real

CANARY = {"matchLabels": {"canary": "yes"}}


@dataclass
class Movements:
    """Nodes on which pods were deleted or created since the last look."""

    deleted: list[str] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    _terminating: set[str] = field(default_factory=set)

    def saw(self, kind: str, pod: Object) -> None:
        node, uid = node_of(pod), pod["metadata"]["uid"]
        if kind == "ADDED":
            self.created.append(node)
        dies = kind == "DELETED" or pod["metadata"].get("deletionTimestamp")
        if dies and uid not in self._terminating:
            self._terminating.add(uid)
            self.deleted.append(node)
        self.news.set()

    def take(self) -> tuple[set[str], set[str]]:
        """The nodes of deletions and of creations; then they are forgotten."""
        taken = set(self.deleted), set(self.created)
        assert (len(taken[0]), len(taken[1])) == (len(self.deleted), len(self.created)), "twice on one node"
        self.deleted.clear()
        self.created.clear()
        return taken


@asynccontextmanager
async def watching(bed: Bed) -> AsyncIterator[Movements]:
    version = (await bed.api.page(PODS))["metadata"]["resourceVersion"]
    movements = Movements()

    async def watch() -> None:
        async with aclosing(closing(bed.api.watch(PODS, resourceVersion=version))) as events:
            async for event in events:
                movements.saw(event.type, event.object)

    task = asyncio.create_task(watch(), name="watch of the test")
    try:
        yield movements
    finally:
        task.cancel()
        await asyncio.wait([task])


async def planned(bed: Bed, plane: ControlPlane, *words: str) -> Object:
    """`plan agent -o json`, as kubectl would start it."""
    code, out, err = await _ran(bed, plane, *words, "-o", "json")
    assert (code, err) == (0, "")
    found: Object = msgspec.json.decode(out)
    return found


async def refused(bed: Bed, plane: ControlPlane, *words: str) -> tuple[int, str]:
    """Exit code and stderr of a plan that cannot be made."""
    code, out, err = await _ran(bed, plane, *words)
    assert out == ""
    return code, err


async def _ran(bed: Bed, plane: ControlPlane, *words: str) -> tuple[int, str, str]:
    arguments = ("-m", "kubectl_plugin", "plan", "agent", *words, "-n", bed.api.namespace)
    environ = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
    return await run_to_end((sys.executable, *arguments), environ)


def waves_in(plan: Object) -> list[set[str]]:
    return [{move["node"] for move in wave["moves"]} for wave in plan["waves"]]


async def rolled_out(bed: Bed, movements: Movements, plan: Object, *, failing: int | None = None) -> list[set[str]]:
    """The waves that happen: pods get ready only once nothing more happens without.

    A wave is looked at when what was planned for it has happened and the controller has come to rest, so what is more
    or less than planned, or in another wave, is seen; the last look is for what happens after all that was planned.
    """
    surges = any(move["how"] == "surge" for wave in plan["waves"] for move in wave["moves"])
    happened: list[set[str]] = []
    finishing: set[str] = set()
    for expected in [*waves_in(plan), set()]:
        await _until_seen(bed, movements, created=expected, deleted=finishing if surges else expected)
        deleted, created = movements.take()
        assert deleted == (finishing if surges else created), f"deleted {deleted}, created {created}\n{bed.journal}"
        happened.append(created)
        finishing = created
        await all_ready(bed, *(number for number in range(len(bed.nodes.names)) if number != failing))
    return happened


async def _until_seen(bed: Bed, movements: Movements, *, created: set[str], deleted: set[str]) -> None:
    async with asyncio.timeout(bed.patience):
        while not (created <= set(movements.created) and deleted <= set(movements.deleted)):
            movements.news.clear()
            await movements.news.wait()
    await bed.seen()
    await bed.idle()


@pytest.mark.parametrize(
    ("rolling", "waves"),
    [
        ({"maxUnavailable": 1}, ["5", "4", "3", "2", "1", "0"]),
        ({"maxUnavailable": 3}, ["5 4 3", "2 1 0"]),
        ({"maxUnavailable": 1, "partition": 4}, ["5", "4"]),
        ({"maxUnavailable": 2, "partition": "50%"}, ["5 4", "3"]),
        ({"maxUnavailable": 1, "selector": CANARY}, ["4", "1"]),
        ({"maxSurge": 2}, ["5 4", "3 2", "1 0"]),
        ({"maxUnavailable": 2, "partition": 6}, []),
    ],
    ids=["plain", "three at a time", "partition", "half", "selector", "surge", "nobody"],
)
async def test_what_is_planned_is_what_happens(
    bed: Bed, plane: ControlPlane, rolling: dict[str, Any], waves: list[str]
) -> None:
    """Planned before the image is changed, and compared with what the change then does."""
    await bed.add_nodes(6)
    for number in (1, 4):
        await bed.label_node(f"node-{number}", canary="yes")
    await bed.deploy(daemonset(rolling=rolling))
    plan = await planned(bed, plane, "--image", f"agent={V2}")
    expected = [{f"node-{number}" for number in wave.split()} for wave in waves]
    assert waves_in(plan) == expected
    assert plan["wouldChange"] is bool(waves)
    assert [one["result"] for one in plan["checks"] if one["name"] == "TemplateDryRun"] == (["ok"] if waves else [])
    bed.nodes.behave("*", UNREADY)
    async with watching(bed) as movements:
        await bed.set_image(V2)
        assert await rolled_out(bed, movements, plan) == [*expected, set()]


async def test_what_the_server_would_refuse_is_refused_before(bed: Bed, plane: ControlPlane) -> None:
    await bed.deploy(daemonset(rolling={"maxSurge": 1}), nodes=1)
    code, err = await refused(bed, plane, "--max-unavailable", "1")
    assert code == 1
    assert err.startswith("Error from server (Invalid): ")
    assert "maxUnavailable" in err
