"""Stands in for the kubelets of all played nodes: carries out the steps of `stages`, pod by pod."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from controller.api.meta import rfc3339
from controller.runtime.clock import Clock
from tests.beds.api import PODS, STRATEGIC_MERGE_PATCH, Api, Object, Refusal
from tests.beds.nodes import statuses
from tests.beds.nodes.behaviour import Behaviour
from tests.beds.nodes.stages import Step, next_step, stage_of

AT_ONCE = 32
RETRY_SECONDS = 0.5


@dataclass
class _Life:
    pod: Object
    stage: str
    since: float
    poked: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class Kubelet:
    """One task a pod; each waits for its pod's next step or for news of it. `group` owns the tasks."""

    def __init__(
        self, api: Api, clock: Clock, group: asyncio.TaskGroup, behaviour_of: Callable[[str], Behaviour | None]
    ) -> None:
        self._api, self._clock, self._group = api, clock, group
        self._behaviour_of = behaviour_of
        """By node name; None for a node that we do not play."""
        self._lives: dict[str, _Life] = {}
        self._images: defaultdict[str, set[str]] = defaultdict(set)
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

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
        self._turns.pop(pod["metadata"]["uid"], None)
        life = self._lives.pop(pod["metadata"]["uid"], None)
        if life is not None and life.task is not None:
            life.task.cancel()

    def poke(self, node: str) -> None:
        """The behaviour of `node` has changed: think again about all its pods."""
        for life in self._lives.values():
            if life.pod["spec"]["nodeName"] == node:
                life.poked.set()

    def forget(self, node: str) -> None:
        """The machine is gone, and with it everything that ran on it."""
        self._images.pop(node, None)
        for life in [life for life in self._lives.values() if life.pod["spec"]["nodeName"] == node]:
            self.pod_lost(life.pod)

    def stop(self) -> None:
        """The end of the play."""
        for life in list(self._lives.values()):
            self.pod_lost(life.pod)

    def turn(self, pod: Object) -> asyncio.Lock:
        """Who holds it alone writes about this pod: a step that is on its way would undo what was written."""
        return self._turns[pod["metadata"]["uid"]]

    async def write_status(self, pod: Object, status: Object) -> Object:
        """Write `status` as the kubelet of the pod's node; returns the pod as it is then. Ask for a `turn` before."""
        return await self._api.patch(
            PODS,
            pod["metadata"]["name"],
            {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status},
            namespace=pod["metadata"]["namespace"],
            sub="status",
            content_type=STRATEGIC_MERGE_PATCH,
        )

    async def remove(self, pod: Object) -> Object:
        """The last word about a pod that was told to go: nothing of it is left on the node."""
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        metadata = pod["metadata"]
        return await self._api.delete(PODS, metadata["name"], namespace=metadata["namespace"], options=options)

    async def _live(self, uid: str, life: _Life) -> None:
        """Step by step until the pod is gone."""
        loop = asyncio.get_running_loop()
        while True:
            life.poked.clear()
            step = self._next(life, loop.time())
            with suppress(TimeoutError):
                async with asyncio.timeout_at(None if step is None else life.since + step.after):
                    await life.poked.wait()
                    continue
            if step is not None and not await self._carry_out(life, step):
                break
        if self._lives.get(uid) is life:
            del self._lives[uid]

    def _next(self, life: _Life, now: float) -> Step | None:
        stage = stage_of(life.pod)
        if stage != life.stage:
            life.stage, life.since = stage, now
        node = life.pod["spec"]["nodeName"]
        behaviour = self._behaviour_of(node)
        return None if behaviour is None else next_step(life.pod, stage, behaviour, frozenset(self._images[node]))

    async def _carry_out(self, life: _Life, step: Step) -> bool:
        """Returns whether the pod is still there."""
        async with self._gate, self.turn(life.pod):
            pod = life.pod
            if stage_of(pod) != life.stage:  # somebody was quicker
                return True
            try:
                if step.status is None:
                    after = await self.remove(pod)
                else:
                    status = step.status(pod, rfc3339(self._clock()))
                    after = await self.write_status(pod, status)
                    if status["phase"] == "Running":
                        images = {container["image"] for container in statuses.containers(pod)}
                        self._images[pod["spec"]["nodeName"]] |= images
            except Refusal as refusal:
                if refusal.status in (404, 409, 422):  # not there any more, or another one of that name
                    return False
                await asyncio.sleep(refusal.retry_after or RETRY_SECONDS)
                return True
            except (OSError, TimeoutError):
                await asyncio.sleep(RETRY_SECONDS)
                return True
        if "resourceVersion" not in after["metadata"]:  # a mere Status, when somebody else deleted it meanwhile
            return False
        if _version(after) > _version(life.pod):
            life.pod = after
        return step.status is not None or bool(after["metadata"].get("finalizers"))


def _version(pod: Object) -> int:
    return int(pod["metadata"]["resourceVersion"])
