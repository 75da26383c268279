"""What users may wish, what may go wrong on the way to the server, and each move as one coroutine on a stage."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

from controller.api.objects import rfc3339
from tests.beds.api import DAEMONSETS, IMAGE_PULL_JOBS, PODS, Refusal
from tests.beds.nodes import DEAD, Behaviour
from tests.beds.objects import V1, V2, V3, daemonset
from tests.beds.virtual_time import clock
from tests.simulation.mishaps import Mishaps
from tests.simulation.person import Person
from tests.simulation.process import BACK
from tests.simulation.pulls import ENDLESS, NOWHERE, RETRIES, TIMEOUT
from tests.simulation.scene import CANARY, CHOOSY, GUARD, UNREACHABLE, ZONE, Pod
from tests.simulation.stage import Stage
from tests.simulation.wish import LIMITS, Wish, without_none

NAMES = tuple(f"node-{number}" for number in range(6))
IMAGES = (V1, V2, V3)
IMAGES_OF_JOBS = (V2, V3, ENDLESS, NOWHERE)
REGISTRY: dict[str, Any] = {"missing_images": (NOWHERE,), "pulls": {ENDLESS: 1e6}}
WELL = Behaviour(**REGISTRY)
KUBELETS = {
    "well": None,
    "slow": Behaviour(start=0.5, ready=2.0, terminate=1.0, **REGISTRY),
    "pulling slowly": Behaviour(notice=1.0, pull=5.0, terminate=0.5, gate=0.5, **REGISTRY),
    "never ready": Behaviour(ready=None, **REGISTRY),
    "failing": Behaviour(fail=3.0, **REGISTRY),
    "failing at once": Behaviour(fail=0.1, **REGISTRY),
    "slow to let go": Behaviour(terminate=4.0, **REGISTRY),
    "holding on": Behaviour(terminate=None, **REGISTRY),
}


def labels_of(name: str, *, canary: bool) -> dict[str, str]:
    """A third of the nodes in each zone."""
    return {ZONE: "abc"[int(name[-1]) % 3], **(CANARY if canary else {})}


class Moves(Mishaps):
    """All moves, on one stage. Those that are about something that is not there do nothing."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.wish = Wish()
        self.person = Person(stage)
        self.pulled = 0
        """ImagePullJobs that were made."""
        self.former = ""
        """The image before the last edit of the template."""

    async def begin(self, count: int, how: str, wish: Wish, notes: dict[str, str]) -> None:
        self.bed.nodes.behave("*", KUBELETS[how] or WELL)
        for number, name in enumerate(NAMES[:count]):
            await self.bed.nodes.add(name, labels=labels_of(name, canary=bool(number % 2)))
        self.wish = wish
        new = daemonset(image=wish.image)
        new["metadata"]["annotations"] = {**new["metadata"].get("annotations", {}), **notes}
        new["spec"] |= {**wish.spec(), "updateStrategy": without_none(wish.strategy())}
        if wish.partitioned_scaling is None:
            del new["spec"]["scaleStrategy"]
        if not wish.hook:
            del new["spec"]["lifecycle"]
        await self.bed.api.create(DAEMONSETS, new)
        self.begun = self.bed.simulator.cluster.store.version

    async def edit(self, **changes: Any) -> None:
        before, self.wish = self.wish, replace(self.wish, **changes)
        if before.image != self.wish.image:
            self.fired["user: another placement"] += CHOOSY in (before.image, self.wish.image)
            self.fired["user: reverts under a partition"] += (
                bool(self.wish.partition) and self.wish.image == self.former
            )
            self.former = before.image
        await self.bed.edit(self.wish.spec())

    async def restore_and_edit(self, field: str, value: Any) -> None:
        """The server has a backup again, and users edit at once, until generations count as far as before."""
        server = self.stage.chronicle
        before = server.spec.generation if server.spec is not None else 0
        await self.restore()
        for number in range(6):
            left = before - (server.spec.generation if server.spec is not None else before)
            if left <= 0:
                return
            await self.edit(burst=240 - number, **({field: value} if left == 1 else {}))
        self.fired["etcd: a generation comes again, with another spec"] += 1

    async def ask_prometheus(self, how: str) -> None:
        self.stage.oracle.says(how)

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

    def verb(self, words: tuple[str, ...]) -> None:
        """A person types that, while everything goes on."""
        ran = self.person.types(*words)
        said = (ran.out + ran.err).strip().splitlines() or [""]
        self.stage.record.tell(f"plugin     {' '.join(words)}: exit {ran.code}, {said[0]}")
        self.fired[f"plugin: {words[0]}, exit {ran.code}"] += 1

    async def lose_status(self) -> None:
        """A user empties it."""
        await self.bed.api.patch(DAEMONSETS, "agent", {"status": None}, sub="status")
        self.fired["user: empties the status"] += 1

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def set_nodes_clock(self, ahead: float) -> None:
        self.stage.clock_ahead = ahead

    async def release(self, name: str = "") -> None:
        """The controller of the hook lets the pods of this node go, or all."""
        for pod in await self.bed.api.list(PODS):
            state = (pod["metadata"].get("labels") or {}).get("lifecycle.apps.kruise.io/state")
            if state and name in ("", pod["spec"].get("nodeName")):
                with suppress(Refusal):
                    gone = {"metadata": {"labels": dict.fromkeys(GUARD)}}
                    await self.bed.api.patch(PODS, pod["metadata"]["name"], gone)
                    self.fired["hook: lets a pod go"] += 1

    def race(self, words: tuple[str, ...], image: str) -> None:
        """A person's verb has read, and a user edits before it writes."""

        async def edit() -> None:
            self.fired["user and plugin edit at once"] += 1
            await self.edit(image=image)

        self.person.door.before_write = edit
        self.verb(words)
        self.person.door.before_write = None

    # images

    async def pull(self, image: str, parallelism: int, deadline: int | None, ttl: int | None) -> None:
        if self.stage.pulls is not None:
            self.pulled += 1
            policy = {"type": "Always", "activeDeadlineSeconds": deadline, "ttlSecondsAfterFinished": ttl}
            policy = {key: value for key, value in policy.items() if value is not None}
            spec = {"image": image, "parallelism": parallelism, "completionPolicy": policy}
            spec["pullPolicy"] = {"timeoutSeconds": TIMEOUT, "backoffLimit": RETRIES}
            await self.bed.api.create(IMAGE_PULL_JOBS, {"metadata": {"name": f"pull-{self.pulled}"}, "spec": spec})
            self.fired[f"user: pulls {image}"] += 1

    async def edit_pull(self, parallelism: int | None) -> None:
        """Of the job made last; None: it is deleted."""
        with suppress(Refusal):
            if parallelism is None:
                await self.bed.api.delete(IMAGE_PULL_JOBS, f"pull-{self.pulled}")
            else:
                edit = {"spec": {"parallelism": parallelism}}
                await self.bed.api.patch(IMAGE_PULL_JOBS, f"pull-{self.pulled}", edit)

    async def delete_puller(self) -> None:
        for puller in self.stage.pulls.pullers()[:1] if self.stage.pulls is not None else []:
            with suppress(Refusal):
                await self.bed.api.delete(PODS, puller["metadata"]["name"])
                self.fired["pod: a puller is deleted by others"] += 1

    # nodes

    async def add(self, name: str, canary: bool) -> None:
        if name in self.bed.nodes.names:
            return
        await self.bed.nodes.add(name, labels=labels_of(name, canary=canary))
        await self.take_over(name)

    async def recreate(self, name: str) -> None:
        """A new machine under the name of the old one."""
        if name in self.bed.nodes.names and len(self.bed.nodes.names) > 1:
            canary = self.stage.chronicle.nodes[name].canary
            await self.remove(name, collect=False)
            await self.add(name, canary)
            self.fired["node: re-created under its name"] += 1

    async def remove(self, name: str, collect: bool) -> None:
        """`collect`: the garbage collector of pods comes at once."""
        if name in self.bed.nodes.names and len(self.bed.nodes.names) > 1:
            self.lost.discard(name)
            await self.bed.nodes.remove(name)
            if self.stage.pulls is not None:
                self.stage.pulls.node_gone(name)
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
        """The machine is unreachable. `evict_only`: no more than the taint that evicts pods tells of it yet."""
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
                self.fired["pod: failed by others"] += 1

    async def crash(self, node: str, times: int) -> None:
        for pod in self.pods_on(node)[:1] * times:
            with suppress(Refusal):
                await self.bed.nodes.crash(await self.bed.api.get(PODS, pod.name))
                self.fired["pod: its container restarts"] += 1

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
                self.fired["pod: deleted by others"] += 1

    async def evict(self, node: str) -> None:
        for pod in self.pods_on(node)[:1]:
            with suppress(Refusal):
                eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name}}
                await self.bed.api.create(PODS, eviction, sub="eviction")
                self.fired["pod: evicted"] += 1

    async def hold(self, node: str) -> None:
        """A finalizer keeps its pods after they are deleted, until `heal`."""
        for pod in self.pods_on(node):
            with suppress(Refusal):
                await self.bed.api.patch(PODS, pod.name, {"metadata": {"finalizers": ["example.com/hold"]}})
                self.fired["pod: finalizer"] += 1

    async def let_go(self) -> None:
        for pod in await self.bed.api.list(PODS):
            if pod["metadata"].get("finalizers"):
                with suppress(Refusal):
                    await self.bed.api.patch(PODS, pod["metadata"]["name"], {"metadata": {"finalizers": None}})

    # time

    async def wait(self, seconds: float) -> None:
        """Until the controller has not written for a moment, at most so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stage.idle(min(seconds, 0.6))

    async def heal(self) -> None:
        """All faults are over, all machines well. Spec, labels and taints stay as they are."""
        self.stage.oracle.says("passes")
        for place in [*self.troubles]:
            await self.help(place)
        await self.limit_pods(None)
        await self.webhook(rewrites=False, reverts=False)
        await self.set_clock(0.0)
        for process in self.stage.processes:
            process.thaw()
            process.link.up, process.dies_at, process.freezes_at = True, None, None
        await asyncio.sleep(BACK + 0.1)
        for process in self.stage.processes:
            process.begin()
        self.stage.clock_ahead = 0.0
        for name in sorted(self.lost):
            await self.regain(name)
        self.bed.nodes.behave("*", WELL)
        for name in self.bed.nodes.names:
            self.bed.nodes.behave(name, None)
        await self.collect()
        await self.let_go()
