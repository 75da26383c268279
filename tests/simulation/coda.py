"""When everything rests and all is well: one thing happens, and what follows is done in time.

A wake-up that is forgotten is made good, elsewhere, by whatever happens next. Here nothing does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.api.names import APPROVE_ANNOTATION
from tests.beds.api import DAEMONSETS, PODS, Object
from tests.simulation.moves import IMAGES, Moves
from tests.simulation.scene import State
from tests.simulation.stage import Broken, Stage

PROMPT = 4.0
"""Seconds for what waits for nothing."""
READY, SOAKS, FAILS = 3, 25.0, 20.0
"""Seconds: minReadySeconds, the soaks of the steps together, and until a failure aborts."""


async def play(stage: Stage, moves: Moves, number: int) -> None:
    acts = (_walks, _fails, _replaces, _leaves, _approves)
    await acts[number % len(acts)](stage, moves, number)
    stage.record.judged["what follows is done in time"] += 1


async def _within(stage: Stage, seconds: float, words: str, done: Callable[[State], bool]) -> None:
    until = stage.time + seconds
    while not done(stage.chronicle.now()):
        if stage.time > until:
            raise Broken(f"in the end: for {seconds:g} s {words} is not done\n{stage.chronicle.now().table()}")
        await asyncio.sleep(0.25)


def _other(moves: Moves) -> str:
    return next(image for image in IMAGES[:2] if image != moves.wish.image)


async def _plain(stage: Stage, moves: Moves, **fields: object) -> None:
    """A rollout of another image, one node after the other, and nothing that keeps it."""
    free = {"rolling": True, "kind": "Standard", "limits": 0, "partition": None, "canaries_only": False}
    more = {"paused": False, "hook": "", "partitioned_scaling": None, "min_ready": READY, "burst": 250}
    await moves.edit(**free, **more, image=_other(moves), **fields)


def _everywhere(now: State) -> bool:
    """Whether each node has what is rolled out, or goes back."""
    return all([pod.image for pod in now.on(node)] == [now.spec.image] and now.served(node) for node in now.eligible)


async def _walks(stage: Stage, moves: Moves, number: int) -> None:
    """Steps, with soaks and checks."""
    await _plain(stage, moves, steps=1, checks=bool(number & 4), action="Pause")
    nodes = len(stage.chronicle.now().eligible)
    bound = SOAKS + nodes * (READY + PROMPT) + 3 * PROMPT
    await _within(stage, bound, "a rollout in steps", _everywhere)


async def _approves(stage: Stage, moves: Moves, _: int) -> None:
    """A step that waits for a person."""
    await _plain(stage, moves, steps=2)
    nodes = len(stage.chronicle.now().eligible)
    await asyncio.sleep(SOAKS + 30.0)
    spec = stage.chronicle.spec
    if spec is not None and spec.record.get("step") == 1:
        note = {"metadata": {"annotations": {APPROVE_ANNOTATION: f"{spec.revision}/1"}}}
        await stage.bed.api.patch(DAEMONSETS, "agent", note)
        await _within(stage, nodes * (READY + PROMPT), "an approved step", _everywhere)


async def _fails(stage: Stage, moves: Moves, _: int) -> None:
    """Pods that never get ready, and go back in time."""
    for name in stage.bed.nodes.names:
        await moves.kubelet(name, "never ready")
    await _plain(stage, moves, action="RollBack")
    spec, nodes, server = stage.chronicle.spec, stage.chronicle.now().eligible, stage.chronicle
    known = next((hash_ for hash_, image in server.hashes.items() if image == moves.wish.image), "new")
    said = () if spec is None else (spec.record.get("abortedRevision"), spec.record.get("stableRevision"))
    over = spec is None or any(value.startswith(known) for value in spec.notes.values()) or known in said
    if over or not nodes or not all(said[1:]):
        await _heal(moves)
        return

    def aborted(_: State) -> bool:
        spec = stage.chronicle.spec
        return spec is not None and bool(spec.record.get("abortedRevision"))

    await _within(stage, FAILS + 2 * PROMPT, "the abort", aborted)
    await _heal(moves)
    await _within(stage, len(nodes) * (READY + PROMPT), "the way back", _everywhere)


async def _heal(moves: Moves) -> None:
    for name in moves.bed.nodes.names:
        await moves.kubelet(name, "well")


def _free(now: State) -> str | None:
    """A node whose pod comes back whatever happens."""
    held = now.spec.partition or now.spec.paused or now.spec.canaries_only or not now.spec.rolling
    return next((one for one in now.eligible if now.served(one) and now.current(one) and not held), None)


async def _replaces(stage: Stage, moves: Moves, _: int) -> None:
    """A pod is deleted."""
    now = stage.chronicle.now()
    if (node := _free(now)) is not None:
        gone = now.on(node)[0].uid
        await stage.bed.api.delete(PODS, now.pods[gone].name)
        words = f"another pod on {node}"
        await _within(
            stage, PROMPT + now.spec.min_ready, words, lambda new: bool(new.served(node)) and gone not in new.pods
        )


async def _leaves(stage: Stage, moves: Moves, _: int) -> None:
    """A node gets a taint, and loses it; the status follows."""
    now = stage.chronicle.now()
    if (node := _free(now)) is None or now.spec.hook:
        return
    await moves.taint(node, "NoExecute")
    await _within(stage, PROMPT, f"the end of the pods of {node}", lambda new: not new.on(node))
    await asyncio.sleep(PROMPT)
    status: Object = (await stage.bed.daemonset()).get("status") or {}
    if status.get("desiredNumberScheduled") != now.desired - 1:
        raise Broken(f"in the end: {PROMPT:g} s after {node} left, the status is {status}")
    await moves.taint(node, "")
    words = f"a pod for {node}, which is back"
    await _within(stage, PROMPT + now.spec.min_ready, words, lambda new: bool(new.served(node)))
