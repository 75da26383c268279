"""When everything rests and all is well: two things happen, one after the other, and what follows is done in time.

A wake-up that is forgotten is made good, elsewhere, by whatever happens next. Here nothing does.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace

from controller.api.names import APPROVE_ANNOTATION
from tests.beds.api import DAEMONSETS, PODS, Object
from tests.simulation.laws import counts
from tests.simulation.mishaps import HINDRANCE
from tests.simulation.moves import IMAGES, Moves
from tests.simulation.oracle import FRESH
from tests.simulation.pulls import ENDLESS, TIMEOUT
from tests.simulation.scene import State
from tests.simulation.stage import Broken, Stage

PROMPT = 4.0
"""Seconds for what waits for nothing."""
READY, SOAKS, FAILS = 3, 25.0, 20.0
"""Seconds: minReadySeconds, the soaks of the steps together, and until a failure aborts."""
SECOND = 20.0
"""Seconds that the second step soaks."""
EVALUATED = 35.0
"""Seconds within which checks have new answers."""


async def play(stage: Stage, moves: Moves, number: int) -> None:
    """Two acts that differ, and what each of them varies."""
    chance = random.Random(number)
    acts = (_walks, _fails, _replaces, _leaves, _approves, _loses, _renews, _pauses, _pulls, _reports, _restores)
    for act in chance.sample(acts, 2):
        variant = chance.randrange(6)
        stage.record.tell(f"== {act.__name__.strip('_')}, variant {variant}")
        await act(stage, moves, variant)
        await _reported(stage)
        stage.record.judged["what follows is done in time"] += 1
    stage.judge()


async def _reported(stage: Stage, bound: float = 2 * PROMPT) -> None:
    """The status is true soon after the last change of the pods."""
    until, before, wrong = 0.0, None, [""]
    while wrong:
        now, status = stage.chronicle.now(), (await stage.bed.daemonset()).get("status") or {}
        if now.pods != before:
            until, before = stage.time + bound, now.pods
        wrong = [*counts(now, status)]
        if wrong and stage.time > until:
            raise Broken(f"in the end: for {bound:g} s {wrong[0]}\n{now.table()}")
        await asyncio.sleep(0.25)


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
    more = {"paused": False, "hook": "", "partitioned_scaling": None, "min_ready": READY, "burst": 250, "history": 0}
    plain = {"steps": 0, "checks": False, "order": 0, "topology": 0, "leave_out": None, "action": ""}
    await moves.edit(**{**free, **more, **plain, "image": _other(moves), **fields})


def _everywhere(now: State) -> bool:
    """Whether each node has what is rolled out, or goes back."""
    return all([pod.image for pod in now.on(node)] == [now.spec.image] and now.served(node) for node in now.eligible)


async def _walks(stage: Stage, moves: Moves, variant: int) -> None:
    """Steps, with soaks and checks; perhaps the leader ends in a soak, or does not see a pod unready for a moment."""
    await _plain(stage, moves, steps=1, checks=bool(variant & 1), action="Pause")
    nodes, more, disturbed = stage.chronicle.now().eligible, 0.0, variant // 2
    if disturbed:
        await asyncio.sleep(EVALUATED + 5.0 if variant & 1 else 15.0)
        if disturbed == 1:
            await moves.end(1.0)
            if not variant & 1:
                words = "the soak that another process has begun"
                await _within(stage, SECOND - PROMPT, words, lambda _: _step(stage) != 2)
        else:
            moves.leader.hold(2 * READY + 1.0)
            pods = [pod.name for node in nodes for pod in stage.chronicle.now().current(node)]
            for value in (False, True):
                for name in pods:
                    await stage.bed.nodes.ready(await stage.bed.api.get(PODS, name), value=value)
                await asyncio.sleep(1.2)
        more = SOAKS + 15.0
    bound = SOAKS + len(nodes) * (READY + PROMPT) + 3 * PROMPT + more + 4 * EVALUATED * (variant & 1)
    await _within(stage, bound, "a rollout in steps", _everywhere)


def _step(stage: Stage) -> int:
    return stage.chronicle.spec.record.get("step", 0) if stage.chronicle.spec is not None else 0


async def _approves(stage: Stage, moves: Moves, variant: int) -> None:
    """A step that waits for a person; perhaps Prometheus has no answer when she comes."""
    await _plain(stage, moves, steps=2, checks=bool(variant & 1))
    nodes = len(stage.chronicle.now().eligible)
    await asyncio.sleep(SOAKS + 30.0 + EVALUATED * (variant & 1))
    spec = stage.chronicle.spec
    if variant & 1:
        await moves.ask_prometheus("is away")
        await asyncio.sleep(FRESH + 10.0)
    if spec is not None and spec.record.get("step") == 1:
        note = {"metadata": {"annotations": {APPROVE_ANNOTATION: f"{spec.revision}/1"}}}
        await stage.bed.api.patch(DAEMONSETS, "agent", note)
        if variant & 1:
            await asyncio.sleep(20.0)
            await moves.ask_prometheus("passes")
        bound = nodes * (READY + PROMPT) + 2 * EVALUATED * (variant & 1)
        await _within(stage, bound, "an approved step", _everywhere)
    await moves.ask_prometheus("passes")


async def _fails(stage: Stage, moves: Moves, variant: int) -> None:
    """Pods that never get ready, or a check that fails, and all goes back in time."""
    is_check = bool(variant & 1)
    for name in stage.bed.nodes.names if not is_check else ():
        await moves.kubelet(name, "never ready")
    await moves.ask_prometheus("fails" if is_check else "passes")
    await _plain(stage, moves, action="RollBack", steps=int(is_check), checks=is_check)
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

    await _within(stage, FAILS + 2 * PROMPT + EVALUATED * is_check, "the abort", aborted)
    await _heal(moves)
    await _within(stage, len(nodes) * (READY + PROMPT), "the way back", _everywhere)


async def _heal(moves: Moves) -> None:
    await moves.ask_prometheus("passes")
    for name in moves.bed.nodes.names:
        await moves.kubelet(name, "well")


async def _free(stage: Stage, moves: Moves, **fields: object) -> str | None:
    """A node whose pod comes back whatever happens, as nothing keeps the rollout any more."""
    await _plain(stage, moves, image=moves.wish.image, **fields)
    await moves.release()
    for _ in range(30):
        await asyncio.sleep(2.0)
        now = stage.chronicle.now()
        if now.eligible and _everywhere(now):
            return now.eligible[0]
    return None


async def _replaces(stage: Stage, moves: Moves, variant: int) -> None:
    """A pod is deleted, and takes its time; or has a finalizer, and nothing but its end tells of that. Perhaps the
    server fails a few times then."""
    if (node := await _free(stage, moves)) is not None:
        now = stage.chronicle.now()
        gone = now.on(node)[0].uid
        await moves.kubelet(node, "slow to let go")
        if variant & 1:
            await moves.hold(node)
        await stage.bed.api.delete(PODS, now.pods[gone].name)
        if variant & 1:
            await asyncio.sleep(2 * PROMPT)
            await moves.let_go()
        if variant > 2:
            await moves.hinder("write: 500")
        bound, words = 2 * PROMPT + now.spec.min_ready, f"another pod on {node}"
        await _within(stage, bound, words, lambda new: bool(new.served(node)) and gone not in new.pods)
        await moves.help("writes")
        await _heal(moves)


async def _pauses(stage: Stage, moves: Moves, _: int) -> None:
    """A rollout is paused half-way, and what comes back meanwhile is as it was."""
    await _plain(stage, moves)
    nodes = stage.chronicle.now().eligible
    await asyncio.sleep(READY + PROMPT)
    await moves.edit(paused=True)
    await asyncio.sleep(READY + PROMPT)
    if node := next((one for one in nodes if stage.chronicle.now().current(one)), ""):
        await moves.delete(node)
        words = f"another pod on {node}, while paused,"
        await _within(stage, READY + 2 * PROMPT, words, lambda new: bool(new.current(node) and new.served(node)))
    await moves.edit(paused=False)
    await _within(stage, len(nodes) * (READY + PROMPT) + PROMPT, "a rollout that goes on", _everywhere)


async def _loses(stage: Stage, moves: Moves, _: int) -> None:
    """A node is unreachable when a rollout begins, which waits for it."""
    nodes = stage.chronicle.now().eligible
    if nodes:
        await moves.lose(nodes[-1], evict_only=True)
        await asyncio.sleep(PROMPT)
        await _plain(stage, moves, limits=1)
        await asyncio.sleep(PROMPT)
        await moves.regain(nodes[-1])
        await _within(stage, len(nodes) * (READY + PROMPT) + PROMPT, "a rollout that has waited", _everywhere)


async def _renews(stage: Stage, moves: Moves, variant: int) -> None:
    """A node on which nothing lasts, or where another client deletes each pod at once, is made anew, or the template
    is; and its back-off is over."""
    if (node := await _free(stage, moves)) is None or len(stage.bed.nodes.names) < 2:
        return
    if variant < 4:
        await moves.kubelet(node, "failing at once")
        await moves.fail(node)
        await asyncio.sleep(70.0)
    for _ in range(200 if variant >= 4 else 0):
        await moves.delete(node)
        await asyncio.sleep(1.0)
    await moves.kubelet(node, "well")
    if variant & 1:
        await _plain(stage, moves)
    else:
        await moves.recreate(node)
        await moves.kubelet(node, "well")
    words = f"a pod on {node}, which is new, or has a new template,"
    await _within(stage, 2 * PROMPT + READY, words, lambda new: bool(new.served(node)))


async def _reports(stage: Stage, moves: Moves, variant: int) -> None:
    """Pods are unready and ready again, one soon after the other; perhaps the status cannot be written at once, or is
    seen late."""
    if await _free(stage, moves, min_ready=0) is None:
        return
    trouble = {0: "write: 503 of the status", 1: "status: answer lost", 2: "watch: reordered, DaemonSet 5 s late"}
    for node in stage.chronicle.now().eligible[:2]:
        await moves.kubelet(node, "never ready")
    for turn in range(4):
        if variant in trouble:
            await moves.hinder(trouble[variant])
        now = stage.chronicle.now()
        for name in [pod.name for node in now.eligible[:2] for pod in now.live(node)]:
            await stage.bed.nodes.ready(await stage.bed.api.get(PODS, name), value=bool(turn & 1))
            await asyncio.sleep(0.05 + 0.01 * turn)
        await _reported(stage, PROMPT + 0.5)
    await moves.help("reads")
    await moves.help("writes")
    await _heal(moves)
    await asyncio.sleep(HINDRANCE if variant == 2 else READY + PROMPT)  # else the next rollout waits for these pods


async def _restores(stage: Stage, moves: Moves, variant: int) -> None:
    """The server is as it was a rollout ago."""
    if await _free(stage, moves) is None:
        return
    await moves.back_up()
    await _plain(stage, moves)
    await asyncio.sleep(2 * PROMPT)
    await moves.restore(("", "pods", "controllerrevisions.apps")[variant // 2])
    now = stage.chronicle.now()
    moves.wish = replace(moves.wish, image=now.spec.image)
    await asyncio.sleep(HINDRANCE)
    await _within(stage, now.desired * (READY + PROMPT), "what the restored server wants", _everywhere)


async def _pulls(stage: Stage, moves: Moves, variant: int) -> None:
    """An image is pulled on all nodes, perhaps in vain; the job goes in time."""
    if stage.pulls is None:
        await _replaces(stage, moves, variant)
        return
    image, ttl = ENDLESS if variant & 1 else moves.wish.image, 10
    nodes, bound = len(stage.bed.nodes.names), 2 * PROMPT
    await moves.pull(image, nodes if variant & 1 else 1, None, ttl)
    known = stage.pulls
    bound += ttl + (2 * TIMEOUT if variant & 1 else nodes * PROMPT / 2)
    name = f"pull-{moves.pulled}"
    words = f"the job {name}, and its end,"
    await _within(stage, bound, words, lambda _: name not in {one["metadata"]["name"] for one in known.jobs()})


async def _leaves(stage: Stage, moves: Moves, _: int) -> None:
    """A node gets a taint, and loses it; the status follows."""
    if (node := await _free(stage, moves)) is None:
        return
    now = stage.chronicle.now()
    await moves.taint(node, "NoExecute")
    await _within(stage, PROMPT, f"the end of the pods of {node}", lambda new: not new.on(node))
    await asyncio.sleep(PROMPT)
    status: Object = (await stage.bed.daemonset()).get("status") or {}
    if status.get("desiredNumberScheduled") != now.desired - 1:
        raise Broken(f"in the end: {PROMPT:g} s after {node} left, the status is {status}")
    await moves.taint(node, "")
    words = f"a pod for {node}, which is back"
    await _within(stage, PROMPT + now.spec.min_ready, words, lambda new: bool(new.served(node)))
