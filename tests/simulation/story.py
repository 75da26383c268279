"""From a seed to a history: which moves are made, when, and what must hold meanwhile and in the end.

The moves are drawn before the first one is made, so that a story can be told again without some of them.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from controller.api.names import PARALLELISM_ANNOTATION, PREDOWNLOAD_WAIT_ANNOTATION, TIMEOUT_ANNOTATION
from tests.beds.api import Object
from tests.simulation import coda, progress
from tests.simulation.chronicle import PROMPT
from tests.simulation.laws import missing
from tests.simulation.moves import IMAGES, IMAGES_OF_JOBS, KUBELETS, NAMES, Moves
from tests.simulation.oracle import HOWS
from tests.simulation.pulls import TIMEOUT
from tests.simulation.scene import Spec
from tests.simulation.stage import Broken, Stage
from tests.simulation.troubles import ON_WATCHES, ON_WRITES, REFUSALS
from tests.simulation.wish import LIMITS, STEPS, TOPOLOGIES, Wish

BOUND = 3600.0
"""Seconds within which everything has come to rest; failed pods and refused templates wait for up to 15 minutes."""
STEP, SILENCE, SHORT = 150.0, 930.0, 150.0
"""Seconds: between two looks, and for which nothing is written in the end; the long one every eighth time."""
Chance = random.Random


@dataclass(frozen=True)
class Move:
    name: str
    """Of a method of `Moves`."""
    arguments: dict[str, Any]
    wait: float
    """Seconds that pass after it; with 0 the next one comes on top of this one."""

    def __str__(self) -> str:
        said = ", ".join(f"{key}={value}" for key, value in self.arguments.items())
        return f"{self.name}({said}), then {self.wait:g} s"


@dataclass(frozen=True)
class Story:
    seed: int
    count: int
    """Nodes at first."""
    kubelets: str
    wish: Wish
    processes: int
    elects: bool
    latency: float
    pulls: bool
    """Whether the process carries out ImagePullJobs."""
    notes: dict[str, str]
    """Annotations of the DaemonSet."""
    lists: bool
    """Whether the server does not know watches with initial events."""
    moves: tuple[Move, ...]

    def without(self, *numbers: int) -> Story:
        kept = [move for number, move in enumerate(self.moves) if number not in numbers]
        return replace(self, moves=tuple(kept))


@dataclass(frozen=True)
class Outcome:
    seed: int
    charges: str
    """What was broken; empty: nothing."""
    lines: list[str]
    digest: str
    seconds: float
    """Of simulated time."""
    fired: Counter[str]
    judged: Counter[str]

    def brief(self) -> Outcome:
        """Without the history, which can be told again."""
        return replace(self, lines=[])


def _one(chance: Chance, *choices: Any) -> Any:
    return chance.choice(choices)


PARTITIONS = (None, 0, 1, 2, 3, "30%", "50%", 100)


def _progressive(chance: Chance) -> dict[str, Any]:
    return {
        "steps": _one(chance, 0, *range(len(STEPS))),
        "order": _one(chance, 0, 0, 1, 2),
        "topology": _one(chance, 0, 0, *range(len(TOPOLOGIES))),
        "leave_out": _one(chance, None, None, 1, "50%"),
        "action": _one(chance, "", "Pause", "RollBack"),
        "checks": _one(chance, True, False),
    }


def _wish(chance: Chance) -> Wish:
    more = _progressive(chance) if chance.random() < 0.6 else {}
    return Wish(
        **more,
        kind=_one(chance, "Standard", "Standard", "InPlaceIfPossible"),
        limits=chance.randrange(len(LIMITS)),
        partition=chance.choice(PARTITIONS),
        min_ready=_one(chance, 0, 0, 3, 30),
        history=_one(chance, 10, 10, 1, 0),
        partitioned_scaling=_one(chance, None, None, True),
        hook=_one(chance, "", "", "plain", "marks"),
    )


def _node(chance: Chance) -> str:
    return chance.choice(NAMES)


def _edit(field: str, *values: Any) -> Callable[[Chance], dict[str, Any]]:
    return lambda chance: {field: chance.choice(values)}


VERBS = (
    ("promote", "agent"),
    ("promote", "agent"),
    ("promote", "agent"),
    ("promote", "agent", "--full", "-y"),
    ("retry", "agent"),
    ("pause", "agent"),
    ("resume", "agent"),
    ("rollback", "agent", "-y"),
    ("set-partition", "agent", "--update", "2"),
    ("list",),
    ("status", "agent"),
)

WRITING = VERBS[3:4] + VERBS[5:9]
DRAWN: tuple[tuple[int, str, Callable[[Chance], dict[str, Any]]], ...] = (
    (8, "edit", _edit("image", *IMAGES)),
    (2, "revert", lambda _: {}),
    (2, "edit", _edit("partition", *PARTITIONS)),
    (1, "edit", _edit("canaries_only", True, False)),
    (2, "edit", _edit("paused", True, False)),
    (2, "edit", _edit("limits", *range(len(LIMITS)))),
    (1, "edit", _edit("rolling", True, False)),
    (1, "edit", _edit("kind", "Standard", "InPlaceIfPossible", "Surging")),
    (1, "edit", lambda chance: {"min_ready": _one(chance, 0, 3, 30), "burst": _one(chance, 250, 1, "40%")}),
    (1, "edit", _edit("partitioned_scaling", True, False, None)),
    (1, "edit", _edit("hook", "", "plain", "marks")),
    (1, "edit", lambda chance: {"image": chance.choice(IMAGES), "partition": _one(chance, None, 1, 2)}),
    (1, "bad_version", lambda chance: {"image": chance.choice(IMAGES), "name": _node(chance)}),
    (1, "release", lambda chance: {"name": _one(chance, "", *NAMES)}),
    (2, "add", lambda chance: {"name": _node(chance), "canary": _one(chance, True, False)}),
    (2, "remove", lambda chance: {"name": _node(chance), "collect": _one(chance, True, False)}),
    (1, "collect", lambda _: {}),
    (1, "label", lambda chance: {"name": _node(chance), "canary": _one(chance, True, False)}),
    (2, "taint", lambda chance: {"name": _node(chance), "effect": _one(chance, "NoSchedule", "NoExecute", "")}),
    (2, "lose", lambda chance: {"name": _node(chance), "evict_only": _one(chance, True, False)}),
    (1, "regain", lambda chance: {"name": _node(chance)}),
    (2, "kubelet", lambda chance: {"name": _node(chance), "how": chance.choice(list(KUBELETS))}),
    (1, "set_nodes_clock", lambda chance: {"ahead": _one(chance, 0.0, 20.0, 600.0)}),
    (1, "sicken", lambda chance: {"node": _node(chance)}),
    (1, "fail", lambda chance: {"node": _node(chance)}),
    (1, "delete", lambda chance: {"node": _node(chance)}),
    (5, "hinder", lambda chance: {"what": chance.choice(list(ON_WATCHES))}),
    (5, "hinder", lambda chance: {"what": chance.choice(list(ON_WRITES))}),
    (1, "refuse", lambda chance: {"what": chance.choice(list(REFUSALS)), "image": chance.choice(IMAGES)}),
    (2, "help", lambda chance: {"place": _one(chance, "reads", "writes")}),
    (1, "webhook", lambda chance: {"rewrites": _one(chance, True, False), "reverts": _one(chance, True, False)}),
    (1, "recreate", lambda chance: {"name": _node(chance)}),
    (1, "evict", lambda chance: {"node": _node(chance)}),
    (1, "hold", lambda chance: {"node": _node(chance)}),
    (2, "kill", lambda chance: {"turns": chance.randrange(60)}),
    (2, "kill_at", lambda chance: {"write": chance.randrange(1, 5), "reaches": _one(chance, True, False)}),
    (2, "end", lambda chance: {"back": _one(chance, 0.5, 5.0)}),
    (2, "hand_over", lambda chance: {"seconds": _one(chance, 0.5, 3.0)}),
    (2, "freeze_at", lambda chance: {"write": chance.randrange(1, 5), "seconds": _one(chance, 9.0, 20.0)}),
    (2, "freeze", lambda chance: {"seconds": _one(chance, 1.0, 9.0, 20.0)}),
    (2, "cut_off", lambda chance: {"seconds": _one(chance, 1.0, 9.0, 30.0)}),
    (1, "delete_lease", lambda chance: {"blind": _one(chance, 0.0, 9.0, 30.0)}),
    (1, "steal_lease", lambda _: {}),
    (2, "starve", lambda chance: {"slow": _one(chance, 0.5, 1.9)}),
    (2, "restore", lambda chance: {"late": _one(chance, "", "pods", "controllerrevisions.apps")}),
    (1, "restore_and_edit", lambda chance: {"field": "canaries_only", "value": _one(chance, True, False)}),
    (1, "restore_and_edit", lambda chance: {"field": "image", "value": chance.choice(IMAGES)}),
    (2, "ask_prometheus", _edit("how", *HOWS)),
    (1, "limit_pods", lambda chance: {"fewer": _one(chance, 0, 1, None)}),
    (1, "set_clock", lambda chance: {"ahead": _one(chance, -3600.0, -20.0, 0.0)}),
    (1, "restart", lambda chance: {"seconds": _one(chance, 0.0, 5.0)}),
    (2, "edit", _progressive),
    (1, "lose_status", lambda _: {}),
    (6, "verb", lambda chance: {"words": chance.choice(VERBS)}),
    (2, "race", lambda chance: {"words": chance.choice(WRITING), "image": chance.choice(IMAGES)}),
    (3, "pass_time", lambda chance: {"seconds": _one(chance, 1.0, 10.0, 200.0)}),
)
PULLS: tuple[tuple[int, str, Callable[[Chance], dict[str, Any]]], ...] = (
    (
        6,
        "pull",
        lambda chance: {
            "image": chance.choice(IMAGES_OF_JOBS),
            "parallelism": _one(chance, 1, 1, 2, 3),
            "deadline": _one(chance, None, 40),
            "ttl": _one(chance, None, 60),
        },
    ),
    (2, "edit_pull", _edit("parallelism", 1, 2, 3, None)),
    (2, "delete_puller", lambda _: {}),
    (1, "hinder", lambda _: {"what": "webhook: refuses other writes of pods"}),
    (2, "hinder", lambda chance: {"what": _one(chance, "watch: late", "watch: reordered, pods 20 s late")}),
    (1, "restore", lambda _: {"late": "pods"}),
    (3, "kubelet", lambda chance: {"name": _node(chance), "how": "pulling slowly"}),
)
PREDOWNLOAD = {PARALLELISM_ANNOTATION: "2", TIMEOUT_ANNOTATION: str(TIMEOUT)}
LONG = 40.0
"""Seconds, and a process leads."""
WALK: tuple[tuple[int, str, Callable[[Chance], dict[str, Any]]], ...] = (
    (4, "edit", _edit("image", *IMAGES[:2])),
    (1, "edit", _progressive),
    (5, "verb", lambda chance: {"words": chance.choice(VERBS[:5])}),
    (6, "pass_time", lambda chance: {"seconds": _one(chance, 1.0, 10.0, 40.0)}),
    (3, "ask_prometheus", _edit("how", *HOWS)),
    (2, "kubelet", lambda chance: {"name": _node(chance), "how": _one(chance, "well", "slow", "never ready")}),
    (2, "sicken", lambda chance: {"node": _node(chance)}),
    (2, "crash", lambda chance: {"node": _node(chance), "times": _one(chance, 1, 3)}),
    (2, "delete", lambda chance: {"node": _node(chance)}),
    (1, "lose", lambda chance: {"name": _node(chance), "evict_only": False}),
    (1, "regain", lambda chance: {"name": _node(chance)}),
    (1, "lose_status", lambda _: {}),
    (1, "set_clock", lambda chance: {"ahead": _one(chance, -3600.0, 3600.0, 0.0)}),
    (2, "kill", lambda chance: {"turns": chance.randrange(60)}),
    (1, "kill_at", lambda chance: {"write": chance.randrange(1, 5), "reaches": _one(chance, True, False)}),
    (1, "end", lambda _: {"back": 5.0}),
    (1, "freeze", lambda chance: {"seconds": _one(chance, 9.0, 20.0)}),
    (2, "freeze_at", lambda chance: {"write": chance.randrange(1, 5), "seconds": _one(chance, 9.0, 20.0)}),
    (2, "hinder", lambda chance: {"what": chance.choice(list(ON_WATCHES))}),
    (2, "hinder", lambda chance: {"what": chance.choice(list(ON_WRITES))}),
    (2, "help", lambda chance: {"place": _one(chance, "reads", "writes")}),
    (1, "add", lambda chance: {"name": _node(chance), "canary": False}),
    (1, "taint", lambda chance: {"name": _node(chance), "effect": _one(chance, "NoSchedule", "")}),
)
"""Moves that let a progressive rollout get somewhere."""
WAITS = (0.6, 0.0, 0.1, 3.0, LONG)


def _walker(chance: Chance, moves: list[Move]) -> Wish:
    """By a clock that is set forward pods are ready for long."""
    min_ready = _one(chance, 0, 0, 30)
    is_set = any(move.name == "set_clock" for move in moves)
    return Wish(limits=_one(chance, 0, 1, 5), min_ready=0 if is_set else min_ready, **_progressive(chance))


def drawn(seed: int) -> Story:
    chance = random.Random(seed)
    walks = chance.random() < 0.4
    table = WALK if walks else DRAWN
    pulls = chance.random() < 0.3
    table = (*table, *PULLS) if pulls else table
    weights = [weight for weight, _, _ in table]
    moves = []
    for _ in range(chance.randrange(4, 24)):
        _, name, arguments = chance.choices(table, weights)[0]
        moves.append(Move(name, arguments(chance), chance.choice(WAITS)))
    processes = _one(chance, 1, 2, 2)
    return Story(
        seed=seed,
        count=chance.randrange(4, 7) if walks else chance.randrange(2, 6),
        kubelets=_one(chance, "well", "slow", "pulling slowly"),
        wish=_walker(chance, moves) if walks else _wish(chance),
        processes=processes,
        elects=processes > 1 or _one(chance, True, False),
        latency=_one(chance, 0.0, 0.02),
        pulls=pulls,
        notes={**PREDOWNLOAD, **_one(chance, {}, {PREDOWNLOAD_WAIT_ANNOTATION: "true"})} if pulls else {},
        lists=_one(chance, True, False, False),
        moves=tuple(moves),
    )


def told(story: Story) -> Outcome:
    """Tell it. Never raises."""
    stage = Stage(
        story.seed,
        processes=story.processes,
        elects=story.elects,
        latency=story.latency,
        pulls=story.pulls,
        lists=story.lists,
    )
    charges = ""
    try:
        _tell(stage, story)
    except Exception as error:
        charges = str(error) if isinstance(error, Broken) else _innermost(error)
    try:
        stage.close()
    except BaseException as error:
        charges = charges or f"the stage did not close: {_innermost(error)}"
    record = stage.record
    return Outcome(story.seed, charges, record.lines, record.digest, stage.time, record.fired, record.judged)


def _innermost(error: BaseException) -> str:
    import traceback

    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return "".join(traceback.format_exception(error))


def _tell(stage: Stage, story: Story) -> None:
    moves = Moves(stage)
    stage.record.tell(
        f"== {story.count} nodes, kubelets are {story.kubelets}, {story.processes} processes: {story.wish}"
    )
    stage.run(moves.begin(story.count, story.kubelets, story.wish, story.notes))
    stage.run(stage.led())
    stage.run(moves.wait(LONG))
    stage.run(moves.back_up())
    for move in story.moves:
        stage.record.tell(f"== {move}")
        moving = getattr(moves, move.name)(**move.arguments)
        if moving is not None:
            stage.run(moving)
        if move.wait == LONG:
            stage.run(stage.led())
        if move.wait:
            stage.run(moves.wait(move.wait))
    settle(stage, moves)
    fall_silent(stage, SHORT if story.seed % 8 else SILENCE)
    stage.record.tell("== two things more")
    stage.run(coda.play(stage, moves, story.seed))


def settle(stage: Stage, moves: Moves) -> None:
    """All faults are over and all machines well, until the oracle misses nothing."""
    stage.record.tell("== all is well")
    stage.run(moves.heal())
    healed, pulls = stage.clock(), stage.pulls
    stage.run(stage.led())
    if stage.look().slack > PROMPT:
        stage.run(stage.idle(30.0))  # the last edits may still be news
    if stage.look().spec.progressive:
        finish(stage, moves)
    begun, wrong = stage.look(), ["nothing was looked at"]
    for _ in range(int(BOUND / STEP)):
        stage.run(moves.release())
        stage.run(stage.idle(30.0))
        server = stage.processes[0].chronicle
        wrong = missing(begun, stage.look(), stage.run(status(stage))) + server.misnumbered() + server.unrecorded()
        wrong += stage.run(unlisted(stage))
        if pulls is not None:
            wrong += pulls.missing(stage.look())
            stage.judge(*(f"in the end: {one}" for one in pulls.late(healed)))
        if not wrong:
            return
        stage.run(asyncio.sleep(STEP - 30.0))
    stage.judge(*(f"in the end: {one}" for one in wrong), stage.look().table())


def finish(stage: Stage, moves: Moves) -> None:
    """A progressive rollout goes as far as it may by itself; then a person promotes it and takes its fields away."""
    for _ in range(4):
        stage.run(stage.idle(30.0))
        stage.run(moves.release())
        stage.run(asyncio.sleep(50.0))

    async def kept() -> list[str]:
        return [*progress.kept(stage.chronicle)]

    stage.judge(*(f"in the end: {one}" for one in stage.run(kept())))
    stage.record.judged["the end of a progressive rollout"] += 1
    ask(stage, moves)
    moves.verb(("promote", "agent", "--full", "-y"))
    stage.run(moves.edit(steps=0, checks=False, order=0, topology=0, leave_out=None, action=""))
    stage.run(stage.idle(30.0))


def ask(stage: Stage, moves: Moves) -> None:
    """Where a step still waits: an answer that fails for long aborts the rollout, and none at all never does."""
    before = stage.look().spec
    if not before.checks or not before.steps or not is_open(before):
        return
    how = HOWS[1 + stage.record.fired.total() % 3]
    stage.run(moves.ask_prometheus(how))
    stage.run(asyncio.sleep(35.0))
    now = stage.look()
    for node in [one for one in now.eligible if now.old(one)]:
        stage.run(moves.delete(node))  # what comes back is not what the check keeps away
    stage.run(asyncio.sleep(65.0))
    stage.record.judged["the end of a check that fails, or has no answer"] += 1
    record = stage.look().spec.record
    aborted, is_judged = record.get("abortedRevision") == before.revision, record.get("step") == before.record["step"]
    if is_judged and how == "fails" and before.action and not aborted:
        stage.judge(f"in the end: a check fails for 100 s, and nothing is aborted: {record}")
    if is_judged and how != "fails" and aborted and str(record.get("abortedMessage", "")).startswith("check"):
        stage.judge(f"in the end: Prometheus {how}, and the rollout is aborted: {record}")
    stage.run(moves.ask_prometheus("passes"))


def is_open(spec: Spec) -> bool:
    """Whether a step of this very revision is under way."""
    record, skipped = spec.record, spec.notes.get("kruise-ds/skip-steps") == spec.revision
    over = record.get("completionTime") or spec.revision in (
        record.get("abortedRevision"),
        record.get("stableRevision"),
    )
    return bool(record.get("step") and record.get("stableRevision")) and not over and not skipped


def fall_silent(stage: Stage, seconds: float) -> None:
    stage.record.tell("== nothing happens any more")
    stage.bed.journal.clear()
    stage.run(asyncio.sleep(seconds))
    written = [one for one in stage.bed.journal.writes if "leases" not in one.resource]
    if written:
        stage.judge("in the end it goes on writing:", *map(str, written))
    stage.record.judged["no write at rest"] += 1


async def status(stage: Stage) -> Object:
    found: Object = (await stage.bed.daemonset()).get("status") or {}
    return found


async def unlisted(stage: Stage) -> list[str]:
    return stage.chronicle.unlisted()
