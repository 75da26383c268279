"""What comes and goes is forgotten: no collection of the controller grows with what was, in virtual time."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from controller import app
from tests.beds.api import DAEMONSETS, IMAGE_PULL_JOBS, PODS
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import simulated
from tests.beds.objects import bare_pod, daemonset, node_of
from tests.beds.simulator.faults import Answer, LoseAnswer, Rule
from tests.system.in_place import in_place
from tests.system.pulls import job, over, pulling, reads

ROUNDS = 60
MORE = 20
"""Entries that a collection may have more in the end; if it kept one of each round it would have three times that."""
KEPT = ("Recorder._recent", "Recorder._allowances")
"""These have a limit of their own, in number."""


async def _edit(bed: Bed, number: int) -> None:
    await bed.update(f"registry.example/agent:e{number}")


async def _edit_in_place(bed: Bed, number: int) -> None:
    if number == 0:
        await bed.edit({"updateStrategy": in_place()["spec"]["updateStrategy"]})
    await bed.update(f"registry.example/agent:i{number}")


async def _lose_pod(bed: Bed, number: int) -> None:
    await bed.api.delete(PODS, (await bed.pods())["node-0"]["metadata"]["name"])
    await bed.runs_on("node-0", "node-1")


async def _node(bed: Bed, number: int) -> None:
    name = f"n{number}"
    await bed.nodes.add(name)
    await bed.runs_on("node-0", "node-1", name)
    await bed.nodes.remove(name)
    for pod in await bed.api.list(PODS):
        if node_of(pod) == name:
            await bed.api.delete(PODS, pod["metadata"]["name"], options={"gracePeriodSeconds": 0})
    await bed.until(PODS, lambda found: "left" if any(node_of(pod) == name for pod in found) else "", "its pod gone")


async def _daemonset(bed: Bed, number: int) -> None:
    name = f"other-{number}"
    await bed.api.create(DAEMONSETS, daemonset(name))
    await bed.settled(name)
    await bed.api.delete(DAEMONSETS, name)
    await bed.until(PODS, lambda found: "" if len(found) == 2 else f"{len(found)} pods", "its pods gone")


async def _orphan(bed: Bed, number: int) -> None:
    await bed.api.create(PODS, bare_pod(f"orphan-{number}", "node-0"))
    await bed.until(PODS, lambda found: "" if len(found) == 2 else f"{len(found)} pods", "one of two deleted")
    await bed.runs_on("node-0", "node-1")


CHURN = [_edit, _edit_in_place, _lose_pod, _node, _daemonset, _orphan]
OFTEN: dict[str, Any] = {"verb": "create,patch,delete", "resource": "pods*", "percentage": 30}
FAULTS = {"refused": Rule(effect=Answer(403), **OFTEN), "lost": Rule(effect=LoseAnswer(), **OFTEN)}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("happens", CHURN)
async def test_what_is_gone_is_forgotten(happens: Callable[[Bed, int], Awaitable[None]], fault: str) -> None:
    async with simulated(FAULTS[fault]) as bed:
        bed.patience = 86400.0
        await bed.deploy(daemonset(), nodes=2)
        await _grows_not(bed, happens)


async def _job(bed: Bed, number: int) -> None:
    await bed.api.create(IMAGE_PULL_JOBS, job(f"pull-{number}"))
    await over(bed, f"pull-{number}")
    await bed.api.delete(IMAGE_PULL_JOBS, f"pull-{number}")


async def _node_of_job(bed: Bed, number: int) -> None:
    name = f"n{number}"
    if number == 0:
        await bed.api.create(IMAGE_PULL_JOBS, job(completionPolicy={"type": "Never"}))
    await bed.nodes.add(name)
    await reads(bed, 3, 0, 3, 0)
    await bed.nodes.remove(name)
    await reads(bed, 2, 0, 2, 0)


async def _edit_with_jobs(bed: Bed, number: int) -> None:
    if number == 0:
        await bed.deploy(daemonset())
    await bed.update(f"registry.example/agent:e{number}")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("happens", [_job, _node_of_job, _edit_with_jobs])
async def test_what_is_gone_of_jobs_is_forgotten(happens: Callable[[Bed, int], Awaitable[None]], fault: str) -> None:
    async with pulling(FAULTS[fault]) as bed:
        bed.patience = 864_000.0
        await bed.add_nodes(2)
        await _grows_not(bed, happens)


async def _grows_not(bed: Bed, happens: Callable[[Bed, int], Awaitable[None]]) -> None:
    numbers = count()
    for _ in range(15):  # as many as a history has
        await happens(bed, next(numbers))
    before = await _remembered(bed)
    for _ in range(ROUNDS):
        await happens(bed, next(numbers))
    after = await _remembered(bed)
    grown = {
        label: (before[label], now)
        for label, now in after.items()
        if now > before[label] + MORE and not label.startswith(KEPT)
    }
    assert grown == {}, "before, and after"


async def _remembered(bed: Bed) -> Counter[str]:
    """An hour later, when what is put off is done."""
    await asyncio.sleep(3600.0)
    await bed.idle()
    return bed.controller.remembers()


@pytest.mark.parametrize("way", ["stop", "kill"])
async def test_what_was_spared_while_it_ran_is_collected_again(bed: Bed, way: str) -> None:
    await bed.add_nodes(1)
    await bed.controller.stop()
    gc.unfreeze()  # whatever another test has left
    bed.controller.options = app.ProcessOptions(measures_lag=False, freezes_garbage=True, watchdog=None)
    bed.controller.start()
    await bed.deploy(daemonset())
    assert gc.get_freeze_count() > 0
    await getattr(bed.controller, way)()
    assert gc.get_freeze_count() == 0
