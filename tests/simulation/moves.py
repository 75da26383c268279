"""What users may wish, what may go wrong on the way to the server, and each move as one coroutine on a stage."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from controller.api.objects import rfc3339
from tests.beds.api import DAEMONSETS, PODS, Object, Refusal
from tests.beds.nodes import DEAD, INSTANT, Behaviour
from tests.beds.objects import V1, V2, V3, daemonset
from tests.beds.simulator import kinds
from tests.beds.simulator.cluster import Attempt, Cluster
from tests.beds.simulator.faults import (
    Answer,
    CloseWatch,
    CutIdle,
    Effect,
    ErrorEvent,
    LateWatch,
    LoseAnswer,
    LoseRequest,
    Rule,
)
from tests.beds.simulator.refusal import forbidden
from tests.beds.virtual_time import clock
from tests.simulation.chronicle import KINDS
from tests.simulation.scene import CANARY, CHOOSY, GUARD, UNREACHABLE, Number, Pod
from tests.simulation.stage import Stage

LIMITS: tuple[dict[str, Number], ...] = (
    {"maxUnavailable": 1},
    {"maxUnavailable": 2},
    {"maxUnavailable": "50%"},
    {},
    {"maxSurge": 1, "maxUnavailable": 0},
    {"maxSurge": "50%", "maxUnavailable": 0},
)


@dataclass(frozen=True)
class Wish:
    """The part of the spec that users edit; always one that the CRD's rules accept."""

    image: str = V1
    rolling: bool = True
    kind: str = "Standard"
    limits: int = 0
    partition: Number = None
    canaries_only: bool = False
    paused: bool = False
    min_ready: int = 0
    burst: Number = 250
    partitioned_scaling: bool | None = None
    hook: str = ""
    """`plain`, or `marks` where it makes pods not ready too; empty is none."""

    def strategy(self) -> Object:
        limits = dict(LIMITS[self.limits])
        if self.kind == "Surging":
            limits.pop("maxUnavailable", None)
        if self.kind == "InPlaceIfPossible" and "maxSurge" in limits:
            limits = {"maxUnavailable": 1}
        rolling: dict[str, Any] = {"maxUnavailable": None, "maxSurge": None, **limits}
        rolling |= {"rollingUpdateType": self.kind, "partition": self.partition, "paused": self.paused or None}
        rolling["selector"] = {"matchLabels": CANARY} if self.canaries_only else None
        return {"type": "RollingUpdate" if self.rolling else "OnDelete", "rollingUpdate": rolling}

    def spec(self) -> Object:
        """As a merge patch."""
        new: Object = daemonset(image=self.image)["spec"]
        new["template"]["spec"]["nodeSelector"] = CANARY if self.image == CHOOSY else None
        scale = {"partitionedScaling": self.partitioned_scaling}
        more: Object = {"minReadySeconds": self.min_ready, "burstReplicas": self.burst, "scaleStrategy": scale}
        new["template"]["metadata"] = {"labels": {**new["selector"]["matchLabels"], **GUARD}}
        asked = {"labelsHandler": GUARD, "markPodNotReady": self.hook == "marks"}
        more["lifecycle"] = {"preDelete": asked} if self.hook else None
        return {"template": new["template"], "updateStrategy": self.strategy(), **more}


IDLE_CUTS = "idle watches are cut"
NO_REVISIONS = "a quota of revisions"
QUOTA = "a quota of pods"
CLOCK_SET_BACK = "the clock set back"
REVERT = "a revert under a partition"
PLACEMENT = "a template with another placement"
RELEASE = "a pod that a hook has let go"
DOWN = Answer(500, reason="InternalError", message='failed calling webhook "policy.example.com": no endpoints')
WORDS = 'controllerrevisions.apps "x" is forbidden: exceeded quota: objects, used: count/controllerrevisions.apps=1'
COUNTED = Answer(403, reason="Forbidden", message=WORDS)
TROUBLES = {
    "late watches": Rule(verb="watch", effect=LateWatch(seconds=3)),
    "very late pods": Rule(verb="watch", resource="pods", effect=LateWatch(seconds=20)),
    "late nodes": Rule(verb="watch", resource="nodes", effect=LateWatch(seconds=5)),
    "late daemonset": Rule(verb="watch", resource="daemonsets.apps.kruise.io", effect=LateWatch(seconds=5)),
    "closing watches": Rule(verb="watch", effect=CloseWatch(events=2, reset=True)),
    "expiring watches": Rule(verb="watch", effect=ErrorEvent(events=1)),
    IDLE_CUTS: Rule(verb="watch", effect=CutIdle(seconds=3)),
    "creates without answers": Rule(verb="create", resource="pods", effect=LoseAnswer(), times=3),
    "deletes without answers": Rule(verb="delete", resource="pods", effect=LoseAnswer(), times=3),
    "lost requests": Rule(verb="create,delete", resource="pods", effect=LoseRequest(), times=3),
    "conflicts": Rule(verb="patch,delete", effect=Answer(409), times=3),
    "errors": Rule(verb="create,delete,patch", effect=Answer(500), times=3),
    "too many requests": Rule(verb="create,delete", effect=Answer(429, retry_after=2), times=3),
    "lost revision": Rule(verb="create", resource="controllerrevisions.apps", effect=LoseAnswer(), times=1),
    "no webhook for new pods": Rule(verb="create", resource="pods", effect=DOWN),
    "no webhook for pods that change or go": Rule(verb="patch,delete", resource="pods", effect=DOWN),
    NO_REVISIONS: Rule(verb="create", resource="controllerrevisions.apps", effect=COUNTED),
}
WATCH_TROUBLES = [what for what, rule in TROUBLES.items() if rule.verb == "watch"]
WRITE_TROUBLES = [what for what, rule in TROUBLES.items() if rule.verb != "watch" and rule.times]
REFUSALS = [what for what, rule in TROUBLES.items() if rule.verb != "watch" and not rule.times]
"""Until somebody mends them."""


class Quota:
    """So many pods and no more, by whoever they are made."""

    def __init__(self, cluster: Cluster, most: int, fired: Counter[str]) -> None:
        self._cluster, self._most, self._fired = cluster, most, fired
        cluster.admission.append(self._admit)

    def lift(self) -> None:
        self._cluster.admission.remove(self._admit)

    def _admit(self, attempt: Attempt) -> None:
        new = attempt.kind is kinds.PODS and attempt.verb == "create"
        if new and len(self._cluster.store.objects[kinds.PODS]) >= self._most:
            self._fired[QUOTA] += 1
            raise forbidden(kinds.PODS, attempt.name, "exceeded quota: pods")


NAMES = tuple(f"node-{number}" for number in range(6))
IMAGES = (V1, V2, V3)
KUBELETS = {
    "well": None,
    "slow": Behaviour(start=0.5, ready=2.0, terminate=1.0),
    "pulling slowly": Behaviour(notice=1.0, pull=5.0, terminate=0.5, gate=0.5),
    "never ready": Behaviour(ready=None),
    "failing": Behaviour(fail=3.0),
    "failing at once": Behaviour(fail=0.1),
    "slow to let go": Behaviour(terminate=4.0),
    "holding on": Behaviour(terminate=None),
}
HINDRANCE = 130.0
"""Seconds after which news flow again for sure, once the trouble is over."""
CUT_ONCE = 10.0
"""Seconds after which news flow again for sure, where all watches were cut once and then only those that are idle."""


class Moves:
    """All moves, on one stage. Those that are about something that is not there do nothing."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.bed, self.fired = stage, stage.bed, stage.record.fired
        for process in stage.processes:
            process.link.on_fault = self._on_fault
        self.wish = Wish()
        self.former = ""
        """The image before the last edit of the template."""
        self.troubles: dict[str, tuple[str, Rule]] = {}
        """One with watches and one with writes may go on at the same time, each by its name."""
        self.quota: Quota | None = None
        self.lost: set[str] = set()
        """Nodes that nobody hears of."""

    def _on_fault(self, effect: Effect) -> None:
        self.fired[next(what for what, rule in TROUBLES.items() if rule.effect is effect)] += 1

    async def begin(self, count: int, how: str, wish: Wish) -> None:
        self.bed.nodes.behave("*", KUBELETS[how])
        for number, name in enumerate(NAMES[:count]):
            await self.bed.nodes.add(name, labels=CANARY if number % 2 else {})
        self.wish = wish
        new = daemonset(image=wish.image)
        new["spec"] |= {**wish.spec(), "updateStrategy": _without_none(wish.strategy())}
        if wish.partitioned_scaling is None:
            del new["spec"]["scaleStrategy"]
        if not wish.hook:
            del new["spec"]["lifecycle"]
        await self.bed.api.create(DAEMONSETS, new)

    async def edit(self, **changes: Any) -> None:
        before, self.wish = self.wish, replace(self.wish, **changes)
        if before.image != self.wish.image:
            self.fired[PLACEMENT] += CHOOSY in (before.image, self.wish.image)
            self.fired[REVERT] += bool(self.wish.partition) and self.wish.image == self.former
            self.former = before.image
        await self.bed.edit(self.wish.spec())

    async def revert(self) -> None:
        """The template goes back, and everything else stays: partition, pause, selector."""
        if self.former:
            await self.edit(image=self.former)

    async def bad_version(self, image: str, name: str) -> None:
        """While surging: on one node its pods never get ready, and fail."""
        await self.kubelet(name, "never ready")
        free: dict[str, Any] = {"partition": None, "canaries_only": False, "paused": False}
        await self.edit(image=image, limits=len(LIMITS) - 1, rolling=True, kind="Standard", **free)
        for _ in range(3):
            await self.wait(0.6)
            await self.fail_successors()

    async def refuse(self, what: str, image: str) -> None:
        """From now on, and there is a new template."""
        await self.hinder(what)
        await self.edit(image=image)

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def set_nodes_clock(self, ahead: float) -> None:
        self.stage.clock_ahead = ahead

    async def release(self, name: str = "") -> None:
        """Whoever is asked by the hook lets the pods of this node go, or all."""
        for pod in await self.bed.api.list(PODS):
            state = (pod["metadata"].get("labels") or {}).get("lifecycle.apps.kruise.io/state")
            if state and name in ("", pod["spec"].get("nodeName")):
                with suppress(Refusal):
                    gone = {"metadata": {"labels": dict.fromkeys(GUARD)}}
                    await self.bed.api.patch(PODS, pod["metadata"]["name"], gone)
                    self.fired[RELEASE] += 1

    # nodes

    async def add(self, name: str, canary: bool) -> None:
        if name in self.bed.nodes.names:
            return
        await self.bed.nodes.add(name, labels=CANARY if canary else {})
        for pod in await self.bed.api.list(PODS):
            if pod["spec"].get("nodeName") == name:  # the new machine starts what the old one ran, and ends the rest
                with suppress(Refusal):
                    if pod["metadata"].get("deletionTimestamp"):
                        await self.bed.nodes.gone(pod)
                    elif pod["status"]["phase"] not in ("Failed", "Succeeded"):
                        await self.bed.nodes.crash(pod)

    async def remove(self, name: str, collect: bool) -> None:
        """`collect`: the garbage collector of pods comes at once."""
        if name in self.bed.nodes.names and len(self.bed.nodes.names) > 1:
            self.lost.discard(name)
            await self.bed.nodes.remove(name)
            if collect:
                await self.collect()

    async def collect(self) -> None:
        """What the garbage collector of pods does."""
        for pod in await self.bed.api.list(PODS):
            if pod["spec"].get("nodeName", self.bed.nodes.names[0]) not in self.bed.nodes.names:
                with suppress(Refusal):
                    await self.bed.api.delete(PODS, pod["metadata"]["name"], options={"gracePeriodSeconds": 0})

    async def label(self, name: str, canary: bool) -> None:
        if name in self.bed.nodes.names:
            await self.bed.label_node(name, track="canary" if canary else None)

    async def taint(self, name: str, effect: str) -> None:
        if name in self.bed.nodes.names and name not in self.lost:
            await self.bed.taint(name, *([{"key": "reserved", "effect": effect}] if effect else []))

    async def lose(self, name: str, evict_only: bool) -> None:
        """Nobody hears of the machine. `evict_only`: no more than the taint that evicts pods tells of it yet."""
        if name not in self.bed.nodes.names or name in self.lost:
            return
        self.lost.add(name)
        if evict_only:
            self.bed.nodes.behave(name, DEAD)
            taint = {"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": rfc3339(clock())}
            await self.bed.taint(name, taint)
            return
        await self.bed.nodes.lose(name)
        for pod in self.pods_on(name):  # what the node life-cycle controller does
            with suppress(Refusal):
                await self.bed.nodes.ready(await self.bed.api.get(PODS, pod.name), value=False)

    async def regain(self, name: str) -> None:
        if name in self.lost:
            self.lost.discard(name)
            await self.bed.nodes.regain(name)

    async def kubelet(self, name: str, how: str) -> None:
        if name in self.bed.nodes.names and name not in self.lost:
            self.bed.nodes.behave(name, KUBELETS[how])

    # pods

    def pods_on(self, node: str) -> list[Pod]:
        return [pod for pod in self.stage.chronicle.pods.values() if pod.node == node and pod.live and pod.bound]

    async def sicken(self, node: str) -> None:
        """Its pods are not ready any more, until its kubelet is another."""
        if node not in self.lost and node in self.bed.nodes.names:
            self.bed.nodes.behave(node, Behaviour(ready=None))
            for pod in self.pods_on(node):
                with suppress(Refusal):  # it has gone meanwhile
                    await self.bed.nodes.ready(await self.bed.api.get(PODS, pod.name), value=False)

    async def fail(self, node: str) -> None:
        for pod in self.pods_on(node)[:1]:
            with suppress(Refusal):
                await self.bed.nodes.fail(await self.bed.api.get(PODS, pod.name))

    async def fail_successors(self) -> None:
        """The new pods of nodes that still have an old one."""
        for name in NAMES:
            there = self.pods_on(name)
            for pod in [one for one in there if len(there) > 1 and one.image == self.wish.image]:
                with suppress(Refusal):
                    await self.bed.nodes.fail(await self.bed.api.get(PODS, pod.name))

    async def delete(self, node: str) -> None:
        for pod in self.pods_on(node)[:1]:
            with suppress(Refusal):
                await self.bed.api.delete(PODS, pod.name)

    # the controller and its way to the server

    async def hinder(self, what: str) -> None:
        rule = replace(TROUBLES[what])
        place = "watches" if rule.verb == "watch" else "writes"
        await self.help(place)
        self.troubles[place] = what, rule
        for process in self.stage.processes:
            process.link.faults.add(rule)
        if place == "watches":
            until = clock() + CUT_ONCE if what == IDLE_CUTS else float("inf")
            self.hindered(until)
            self.drop_watches()

    def hindered(self, until: float) -> None:
        """News may be late until then."""
        for process in self.stage.processes:
            process.chronicle.hindered_until = max(process.chronicle.hindered_until, until)

    async def help(self, place: str) -> None:
        """The trouble there is over."""
        if place not in self.troubles:
            return
        _, rule = self.troubles.pop(place)
        for process in self.stage.processes:
            process.link.faults.remove(rule)
            if place == "watches":
                process.chronicle.hindered_until = clock() + HINDRANCE
        if place == "watches":
            self.drop_watches()

    def drop_watches(self) -> None:
        """In one order, whatever the order of a set may be: a story must be the same when it is told again."""
        for process in self.stage.processes:
            for kind in KINDS:
                process.link.drop_watches(kind.resource)

    async def limit_pods(self, fewer: int | None) -> None:
        """No more pods than there are, or even fewer; None: as many as anybody wants."""
        if self.quota is not None:
            self.quota.lift()
        cluster = self.bed.simulator.cluster
        there = len(cluster.store.objects[kinds.PODS])
        self.quota = None if fewer is None else Quota(cluster, there - fewer, self.fired)

    async def set_clock(self, ahead: float) -> None:
        """Of the machine on which the controller runs."""
        for process in self.stage.processes:
            self.fired["clock jump"] += ahead != process.ahead
            process.chronicle.clock_set |= ahead < process.ahead
            process.ahead = ahead

    async def restart(self, seconds: float) -> None:
        """Killed, and nobody there for so long."""
        for process in self.stage.processes:
            self.fired["killed"] += process.is_running
            await process.kill()
        await asyncio.sleep(seconds)
        for process in self.stage.processes:
            process.begin()

    # time

    async def wait(self, seconds: float) -> None:
        """Until the controller has not written for a moment, at most so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stage.idle(min(seconds, 0.6))

    async def heal(self) -> None:
        """All faults are over, all machines well. Spec, labels and taints stay as they are."""
        for place in [*self.troubles]:
            await self.help(place)
        await self.limit_pods(None)
        await self.set_clock(0.0)
        self.stage.clock_ahead = 0.0
        for name in [*self.lost]:
            await self.regain(name)
        self.bed.nodes.behave("*", INSTANT)
        for name in self.bed.nodes.names:
            self.bed.nodes.behave(name, None)
        await self.collect()


def _without_none(found: Object) -> Object:
    rolling = {key: value for key, value in found["rollingUpdate"].items() if value is not None}
    return {**found, "rollingUpdate": rolling}


def changed(before: Wish, after: Wish) -> str:
    """For the story."""
    old = asdict(before)
    return ", ".join(f"{key} = {value}" for key, value in asdict(after).items() if value != old[key]) or "nothing"
