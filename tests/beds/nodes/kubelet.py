"""Stands in for the kubelets of all played nodes: carries out the steps of `stages`, pod by pod."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from controller.api.objects import rfc3339
from controller.runtime.clock import Clock
from tests.beds.api import Api, Object, Refusal
from tests.beds.nodes.pod_worker import Interrupted, PodWorker, Surroundings
from tests.beds.nodes.runtime import Room, requests
from tests.beds.nodes.stages import INSTANT, Behaviour, Step, next_step, stage_of
from tests.beds.nodes.statuses import entries, environment, lasting
from tests.beds.nodes.writer import RETRY_SECONDS, Events, Gone, Writer

RUNNING = ("changed", "crashed", "running", "gated", "ready")


@dataclass
class _Life:
    pod: Object
    stage: str
    since: float
    poked: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    worker: PodWorker | None = None
    """From the first change of the pod on."""
    environments: dict[str, dict[str, str]] = field(default_factory=dict)
    """What each container read when it was started."""

    def began(self, pod: Object, container: Object) -> None:
        self.environments[container["name"]] = environment(pod, container)

    @property
    def requests(self) -> Counter[str]:
        if stage_of(self.pod) == "ended":
            return Counter()
        return requests(lasting(self.pod)) if self.worker is None else self.worker.requests(self.pod)


class Kubelet:
    """One task a pod; each waits for its pod's next step or for news of it. `group` owns the tasks."""

    def __init__(
        self, api: Api, clock: Clock, group: asyncio.TaskGroup, behaviour_of: Callable[[str], Behaviour | None]
    ) -> None:
        self._clock, self._group = clock, group
        self._behaviour_of = behaviour_of
        """By node name; None for a node that we do not play."""
        self._events = Events(api, clock)
        self._lives: dict[str, _Life] = {}
        self._images: defaultdict[str, set[str]] = defaultdict(set)
        self.allocatable: dict[str, Mapping[str, str]] = {}
        """By node."""
        self.writer = Writer(api)

    def pod_seen(self, pod: Object) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if not node or self._behaviour_of(node) is None:
            return
        life = self._lives.get(uid)
        if life is None:
            life = self._lives[uid] = _Life(pod, stage_of(pod), asyncio.get_running_loop().time())
            life.task = self._group.create_task(self._live(uid, life))
        elif _version(pod) > _version(life.pod):
            life.pod = pod
            life.poked.set()

    def pod_lost(self, pod: Object) -> None:
        self.writer.forget(pod)
        life = self._lives.get(pod["metadata"]["uid"])
        if life is not None:
            if life.task is not None:
                life.task.cancel()
            self._end(pod["metadata"]["uid"], life)

    def _end(self, uid: str, life: _Life) -> None:
        """The pod has gone: seen by the watch, or told by the answer to its removal, whichever comes first."""
        del self._lives[uid]
        if requests(lasting(life.pod)):
            self.poke(life.pod["spec"]["nodeName"])  # there may be room for what has waited

    def poke(self, node: str) -> None:
        """Something has changed on `node`: think again about all its pods."""
        for life in self._on(node):
            life.poked.set()

    def _on(self, node: str) -> list[_Life]:
        return [life for life in self._lives.values() if life.pod["spec"]["nodeName"] == node]

    def environment_of(self, pod: Object, container: str) -> dict[str, str]:
        return self._lives[pod["metadata"]["uid"]].environments[container]

    def _room_for(self, life: _Life) -> Room:
        node = life.pod["spec"]["nodeName"]
        used: Counter[str] = Counter()
        for other in self._on(node):
            if other is not life:
                used += other.requests
        return Room(used, self.allocatable.get(node, {}))

    def images_of(self, node: str) -> set[str]:
        """What has been pulled there, to be added to."""
        return self._images[node]

    def forget(self, node: str) -> None:
        """The machine is gone, and with it everything that ran on it."""
        self._images.pop(node, None)
        for life in self._on(node):
            self.pod_lost(life.pod)

    def stop(self) -> None:
        """The end of the play."""
        for life in list(self._lives.values()):
            self.pod_lost(life.pod)

    async def _live(self, uid: str, life: _Life) -> None:
        """Step by step until the pod is gone."""
        loop = asyncio.get_running_loop()
        while True:
            life.poked.clear()
            try:
                if await self._work(life):
                    continue
            except Gone:
                break
            step = self._next(life, loop.time())
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._moment_of(life, step)):
                    await life.poked.wait()
                    continue
            if step is not None and not await self._carry_out(life, step):
                break
        if self._lives.get(uid) is life:
            self._end(uid, life)

    def _next(self, life: _Life, now: float) -> Step | None:
        stage = stage_of(life.pod)
        if stage != life.stage:
            life.stage, life.since = stage, now
        node = life.pod["spec"]["nodeName"]
        behaviour = self._behaviour_of(node)
        if stage in RUNNING and life.worker is not None and life.worker.holds:
            return None
        return None if behaviour is None else next_step(life.pod, stage, behaviour, frozenset(self._images[node]))

    def _moment_of(self, life: _Life, step: Step | None) -> float | None:
        """When there is something to do, if nothing happens before."""
        if step is not None:
            return life.since + step.after
        acts = life.stage in RUNNING and self._acts(life) is not None
        return life.worker.due if acts and life.worker is not None else None

    def _acts(self, life: _Life) -> Behaviour | None:
        """How the pod's node behaves, if it does anything by itself."""
        behaviour = self._behaviour_of(life.pod["spec"]["nodeName"])
        return None if behaviour is None or behaviour.dead or behaviour.start is None else behaviour

    async def _work(self, life: _Life) -> bool:
        """Let the worker of a pod that runs do what there is to do. Returns whether there was anything."""
        behaviour, stage = self._acts(life), stage_of(life.pod)
        if behaviour is None or stage not in RUNNING:
            return False
        if life.worker is None and stage == "changed":
            life.worker = self._hire(life)
        elif life.worker is None and any(behaviour.crashes(one["image"]) for one in lasting(life.pod)):
            life.worker = self._hire(life)
            life.worker.watch_for_exits(life.pod, behaviour)
        if life.worker is None or not life.worker.wants(life.pod, behaviour, asyncio.get_running_loop().time()):
            return False
        with suppress(Interrupted):
            if await life.worker.sync():
                life.stage = ""  # what comes next is counted from now
        return True

    def _hire(self, life: _Life) -> PodWorker:
        node = life.pod["spec"]["nodeName"]
        behaviour = self._behaviour_of(node) or INSTANT
        around = Surroundings(
            newest=lambda: life.pod,
            news=life.poked,
            behaviour=lambda: self._behaviour_of(node),
            images=self._images[node],
            began=life.began,
            room=lambda: self._room_for(life),
            write=lambda status: self._send(life, status),
            tell=self._events.tell,
            clock=self._clock,
        )
        return PodWorker(around, behaviour.back_off)

    async def _send(self, life: _Life, status: Object) -> None:
        after = await self.writer.send(lambda: life.pod, status)
        if _version(after) > _version(life.pod):
            life.pod = after

    async def _carry_out(self, life: _Life, step: Step) -> bool:
        """Returns whether the pod is still there."""
        async with self.writer.place(life.pod):
            pod = life.pod
            if stage_of(pod) != life.stage:  # another client was quicker
                return True
            try:
                if step.status is None:
                    after = await self.writer.remove(pod)
                else:
                    status = step.status(pod, rfc3339(self._clock()))
                    after = await self.writer.write(pod, status)
                    if status["phase"] == "Running":
                        images = {container["image"] for container in lasting(pod)}
                        self._images[pod["spec"]["nodeName"]] |= images
                        for container in _begun(pod, status):
                            life.began(pod, container)
            except Refusal as refusal:
                if refusal.status in (404, 409, 422):  # not there any more, or another one of that name
                    return False
                await asyncio.sleep(refusal.retry_after or RETRY_SECONDS)
                return True
            except (OSError, TimeoutError):
                await asyncio.sleep(RETRY_SECONDS)
                return True
        if "resourceVersion" not in after["metadata"]:  # a mere Status, when another client deleted it meanwhile
            return False
        if _version(after) > _version(life.pod):
            life.pod = after
        return step.status is not None or bool(after["metadata"].get("finalizers"))


def _begun(pod: Object, status: Object) -> list[Object]:
    """The containers that run by this status and did not before."""
    before, after = entries(pod), entries({"status": status})

    def identity(told: Mapping[str, Object], name: str) -> str:
        return str(told.get(name, {}).get("containerID", ""))

    return [one for one in lasting(pod) if identity(before, one["name"]) != identity(after, one["name"])]


def _version(pod: Object) -> int:
    return int(pod["metadata"]["resourceVersion"])
