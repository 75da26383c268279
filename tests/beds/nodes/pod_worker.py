"""What becomes of a pod that runs, when its spec changes or its containers end: the kubelet's worker of one pod.

It does one thing at a time, as the real one does: kill what is not as it should be, pull, start. Meanwhile it says
nothing but that a readiness probe fails, and hears nothing but that the pod is to go. Why a container could not be
started is told at the beginning of the next turn.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from controller.api.objects import rfc3339
from controller.runtime.clock import Clock
from tests.beds.api import Object
from tests.beds.nodes import statuses
from tests.beds.nodes.runtime import Resizes, Room, Runtime, needs_restart
from tests.beds.nodes.stages import Behaviour
from tests.beds.nodes.statuses import bits, is_as_asked, is_there, lasting, started, terminated, waiting

LONGEST = 300.0
"""Seconds."""


@dataclass
class _Entry:
    seconds: float
    updated: float


class BackOff:
    """Times are seconds of the loop. What has been well for twice the longest wait is forgotten."""

    def __init__(self, first: float) -> None:
        self._first = first
        self._entries: dict[str, _Entry] = {}

    def until(self, key: str, since: float) -> float | None:
        """When the wait that began at `since` ends; None when there is nothing to wait for."""
        entry = self._entries.get(key)
        return None if entry is None or self._is_old(entry, since) else since + entry.seconds

    def until_after_update(self, key: str) -> float:
        """The same for a wait that began with the last failure."""
        entry = self._entries.get(key)
        return entry.updated + entry.seconds if entry else 0.0

    def next(self, key: str, since: float, now: float) -> None:
        """Another try: the next wait is twice as long."""
        entry = self._entries.get(key)
        seconds = self._first if entry is None or self._is_old(entry, since) else min(2 * entry.seconds, LONGEST)
        self._entries[key] = _Entry(seconds, now)

    @staticmethod
    def _is_old(entry: _Entry, since: float) -> bool:
        return since - entry.updated > 2 * LONGEST


Tell: TypeAlias = Callable[[Object, str, str, str, str], Awaitable[None]]
"""An event: pod, container, type, reason, message."""


class Puller:
    """For one pod, whose failures are its own: another one of the same image tries at once."""

    def __init__(self, images: set[str], tell: Tell, back_off: float) -> None:
        self._images, self._tell = images, tell
        self._failed = BackOff(back_off)
        self._words: dict[str, str] = {}
        """What the registry has said, by image."""

    async def get(
        self, pod: Object, container: Object, behaviour: Behaviour, let_pass: Callable[[float], Awaitable[None]]
    ) -> tuple[str, str] | None:
        """Reason and message, when the image cannot be had."""
        name, image = container["name"], container["image"]
        if is_there(image, self._images):
            words = f'Container image "{image}" already present on machine and can be accessed by the pod'
            await self._tell(pod, name, "Normal", "Pulled", words)
            return None
        if _now() < self._failed.until_after_update(image):
            await self._tell(pod, name, "Normal", "BackOff", f'Back-off pulling image "{image}"')
            await self._tell(pod, name, "Warning", "Failed", "Error: ImagePullBackOff")
            return "ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {self._words[image]}'
        await self._tell(pod, name, "Normal", "Pulling", f'Pulling image "{image}"')
        seconds = behaviour.pull_seconds(image)
        await let_pass(behaviour.pull if seconds is None else seconds)
        if seconds is not None:
            self._images.add(image)
            await self._tell(pod, name, "Normal", "Pulled", f'Successfully pulled image "{image}" in {seconds:g}s')
            return None
        words = self._words[image] = _refusal(image, behaviour.registry)
        self._failed.next(image, _now(), _now())
        await self._tell(pod, name, "Warning", "Failed", f'Failed to pull image "{image}": {words}')
        await self._tell(pod, name, "Warning", "Failed", "Error: ErrImagePull")
        return "ErrImagePull", words


def _refusal(image: str, registry: str) -> str:
    """As containerd passes it on."""
    code = "NotFound" if registry == "not found" else "Unknown"
    pulling = f'failed to pull and unpack image "{image}"'
    return f"rpc error: code = {code} desc = {pulling}: failed to resolve image: {image}: {registry}"


def _now() -> float:
    return asyncio.get_running_loop().time()


class Interrupted(Exception):
    """The pod is to go, or the node does nothing any more."""


@dataclass(frozen=True)
class Surroundings:
    """Functions, because all of it may change while the worker is at work."""

    newest: Callable[[], Object]
    """The pod as the watch shows it."""
    news: asyncio.Event
    """Set when that has changed, or the node's behaviour."""
    behaviour: Callable[[], Behaviour | None]
    images: set[str]
    """Those that the node has."""
    began: Callable[[Object, Object], None]
    """A container of the pod was started: the pod as it was then, and the container."""
    room: Callable[[], Room]
    """What other pods leave on the node."""
    write: Callable[[Object], Awaitable[None]]
    """A status of the pod."""
    tell: Tell
    clock: Clock

    def check(self) -> Behaviour:
        """How the node behaves. Raises Interrupted."""
        behaviour = self.behaviour()
        if behaviour is None or behaviour.dead or self.newest()["metadata"].get("deletionTimestamp"):
            raise Interrupted
        return behaviour


AGAIN = 10.0
"""Seconds after which a worker tries again what has failed."""
RELIST = 1.0
"""Seconds after which it hears that a container has ended."""


class PodWorker:
    """`sync` is one turn of its work, to be called when the pod has changed, and when it is `due`."""

    def __init__(self, around: Surroundings, back_off: float) -> None:
        self.due: float | None = None
        """When there is something to do again, in the loop's time."""
        self._around = around
        self._runtime = Runtime()
        self._resizes = Resizes(self._runtime)
        self._starts, self._puller = BackOff(back_off), Puller(around.images, around.tell, back_off)
        self._probes: dict[str, float] = {}
        self._exits: dict[str, float] = {}
        self._failures: dict[str, tuple[str, str]] = {}
        """Reason and message, not yet told."""
        self._noticed = False
        self._relist = 0.0
        """When it hears that containers have ended."""
        self._pod: Object = {}
        """As it was when the turn began."""
        self._observed: int | None = None
        self._flipped = False

    def wants(self, pod: Object, behaviour: Behaviour, now: float) -> bool:
        """Whether there is something to do at once."""
        if self._observed != pod["metadata"].get("generation", 0):
            return True
        if self._resizes.deferred and not self._resizes.waits(pod, behaviour, self._around.room()):
            return True
        return self.due is not None and self.due <= now

    def requests(self, pod: Object) -> Counter[str]:
        """What the node keeps for the pod."""
        return self._resizes.requests(pod)

    @property
    def holds(self) -> bool:
        """Whether no other component may say what becomes of the pod."""
        return self.due is not None

    def watch_for_exits(self, pod: Object, behaviour: Behaviour) -> None:
        """Its containers have been started by another kubelet, and some will soon end."""
        self._runtime.see(pod, _now())
        self._observed = pod["metadata"].get("generation", 0)
        for container in lasting(pod):
            self._expect_exit(container, behaviour)
        self.due = min(self._exits.values(), default=None)

    async def sync(self) -> bool:
        """One turn; returns whether a container was started. Raises Interrupted, and is then due again."""
        self.due = _now()
        behaviour = self._around.check()
        if self._observed != self._around.newest()["metadata"].get("generation", 0):
            await self._pass(behaviour.notice)
            behaviour = self._around.check()
        pod = self._pod = self._around.newest()
        runtime = self._runtime
        runtime.see(pod, _now())
        self._observed = pod["metadata"].get("generation", 0)
        self._look_at_probes()
        self._tell_failures()
        if self._exited():
            await self._report()
            self.due = self._relist = _now() + RELIST
            return False
        exited = dict(runtime.ended)
        if reason := self._resizes.ask(pod, behaviour, self._around.room()):
            await self._tell_resize(reason)
        victims = self._victims(pod)
        if not victims:
            self._resizes.show_reserved(pod)
        await self._report()
        for container, why in victims:
            await self._kill(container, why, behaviour)
        retries, fresh = [], False
        for container in lasting(pod):
            if not runtime.runs(container["name"]):
                retry = await self._start(container, exited.get(container["name"]), behaviour)
                fresh = fresh or retry is None
                retries += [] if retry is None else [retry]
        if victims:
            self._relist = _now() + RELIST
        if retries and self._relist > _now():
            retries.append(self._relist)
        if self._noticed:
            retries.append(_now())
        if fresh:
            await self._report()
        retries += await self._actuate(behaviour)
        self.due = min([*retries, *self._exits.values(), *self._probes.values()], default=None)
        return fresh

    async def _pass(self, seconds: float) -> None:
        """Let time pass, and see probes fail in it."""
        end = _now() + seconds
        while True:
            self._around.check()
            until = min([end, *self._probes.values()])
            if until > _now():
                self._around.news.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(until):
                        await self._around.news.wait()
                continue
            if _now() < end:
                self._look_at_probes()
                self._noticed = True
                await self._report()
            else:
                return

    def _look_at_probes(self) -> None:
        """Those of dead containers fail, each in its time; the worker then has another turn after this one."""
        self._noticed = False
        for name in [name for name, moment in self._probes.items() if moment <= _now()]:
            del self._probes[name]
            self._runtime.told[name] = {**self._runtime.told[name], "ready": False}

    def _tell_failures(self) -> None:
        for container in lasting(self._pod):
            name, moment = container["name"], self._moment()
            if (why := self._failures.pop(name, None)) is not None and not self._runtime.runs(name):
                last = self._runtime.last(name, moment)
                self._runtime.told[name] = waiting(self._resizes.sized(container), last, *why, moment)

    async def _report(self) -> None:
        newest, runtime = self._around.newest(), self._runtime
        generation = {"generation": self._observed} if self._observed else {}
        pod = {**newest, "metadata": {**newest["metadata"], **generation}, "spec": self._pod["spec"]}
        moment = self._moment()
        told = [runtime.told[one["name"]] for one in lasting(pod) if one["name"] in runtime.told]
        status = statuses.status(pod, "Running", told, moment, flipped=self._flipped)
        self._flipped = False
        status["conditions"] += self._resizes.conditions(pod, moment)
        await self._around.write(status)

    def _exited(self) -> bool:
        over = [name for name, moment in self._exits.items() if moment <= _now()]
        for name in over:
            del self._exits[name]
            self._runtime.end(name, 1, _now())
            self._runtime.told[name] = terminated(self._runtime.told[name], 1, self._moment())
        return bool(over)

    def _victims(self, pod: Object) -> list[tuple[Object, str]]:
        """The containers that have to be another one, and why."""
        runtime, found = self._runtime, []
        for container in lasting(pod):
            name = container["name"]
            if not runtime.runs(name):
                continue
            told = runtime.told[name]
            if not is_as_asked(told, container):
                found.append((container, "definition changed, will be restarted"))
            elif needs_restart(container, told.get("resources") or {}, self._resizes.reserved(container)):
                found.append((container, "resize requires restart"))
        return found

    async def _kill(self, container: Object, why: str, behaviour: Behaviour) -> None:
        name, grace = container["name"], float(self._pod["spec"].get("terminationGracePeriodSeconds", 30))
        await self._around.tell(self._pod, name, "Normal", "Killing", f"Container {name} {why}")
        await self._pass(grace if behaviour.terminate is None else min(behaviour.terminate, grace))
        self._exits.pop(name, None)
        self._runtime.end(name, 137 if behaviour.terminate is None or behaviour.terminate > grace else 0, _now())
        if "readinessProbe" in container and self._runtime.told[name]["ready"]:
            self._probes[name] = _now() + behaviour.probe

    async def _start(self, container: Object, exited: float | None, behaviour: Behaviour) -> float | None:
        """None, or when to try again. `exited`: when the last one ended of which the worker knew before this turn."""
        name = container["name"]
        key = f"{name} {container['image']} {container.get('resources')}"
        if exited is not None:
            until = self._starts.until(key, exited)
            if until is not None and _now() < until:
                words = f"restarting failed container {name} in pod {self._pod['metadata']['name']}"
                await self._around.tell(self._pod, name, "Warning", "BackOff", f"Back-off {words}")
                seconds = f"{until - exited:g}s"
                where = f"container={name} pod={self._pod['metadata']['name']}"
                self._failures[name] = "CrashLoopBackOff", f"back-off {seconds} restarting failed {where}"
                return until
            self._starts.next(key, exited, _now())
        failed = await self._puller.get(self._pod, container, behaviour, self._pass)
        if failed is not None:
            self._failures[name] = failed
            return _now() + AGAIN
        await self._pass(behaviour.start or 0.0)
        self._run(container, behaviour)
        await self._around.tell(self._pod, name, "Normal", "Started", "Container started")
        return None

    def _run(self, container: Object, behaviour: Behaviour) -> None:
        """A container without probe is ready at once: that it was not there is never seen."""
        name, moment = container["name"], self._moment()
        self._probes.pop(name, None)
        sized, before = self._resizes.sized(container), self._runtime.told[name].get("resources") or {}
        has_probe = "readinessProbe" in container
        ready = not has_probe or (behaviour.ready == 0.0 and behaviour.gets_ready([container["image"]]))
        last = self._runtime.last(name, moment)
        names = bits(self._pod, behaviour.aliases, self._around.images)
        told = started(self._pod, sized, last, moment, ready=ready, aliases=names)
        if not needs_restart(container, before, sized["resources"]):
            told["resources"] = before  # what it has is reported after what is reserved for it
        self._runtime.start(name, told)
        self._around.began(self._pod, container)
        self._flipped = self._flipped or (has_probe and ready)
        self._expect_exit(container, behaviour)

    async def _actuate(self, behaviour: Behaviour) -> list[float]:
        """Give what is reserved to those that run; returns when to try again."""
        resizes, pod = self._resizes, self._pod
        retry = resizes.fail_if_too_low(pod, behaviour, _now())
        if retry is not None:
            if retry > _now():
                return [retry]
            await self._tell_resize("ResizeError")
        elif resizes.in_progress:
            if resizes.under_way(pod):
                await self._pass(behaviour.resize)
            resizes.finish(pod)
            await self._tell_resize("ResizeCompleted")
        else:
            return []
        await self._report()
        return []

    async def _tell_resize(self, reason: str) -> None:
        kind = "Normal" if reason in ("ResizeStarted", "ResizeCompleted") else "Warning"
        words = f"Pod resize {reason.removeprefix('Resize').lower()}: generation {self._observed}"
        await self._around.tell(self._pod, "", kind, reason, words)

    def _expect_exit(self, container: Object, behaviour: Behaviour) -> None:
        if behaviour.crashes(container["image"]):
            self._exits[container["name"]] = _now() + behaviour.crash_after

    def _moment(self) -> str:
        return rfc3339(self._around.clock())
