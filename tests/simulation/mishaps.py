"""What befalls processes, their way to the server, the Lease and the server itself: moves on a stage."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from controller.api.names import LEASE_NAME
from tests.beds.api import LEASES, PODS, Refusal
from tests.beds.simulator import kinds
from tests.beds.simulator.faults import Answer, Effect, Hang, Rule
from tests.beds.virtual_time import clock
from tests.simulation.chronicle import KINDS
from tests.simulation.process import BACK, Process
from tests.simulation.stage import Stage
from tests.simulation.troubles import IDLE_CUTS, STALE, TROUBLES, Admission, name_of

_LEASES = "leases.coordination.k8s.io"
HINDRANCE = 130.0
"""Seconds after which news flow again for sure, once the trouble is over."""
CUT_ONCE = 10.0
"""Seconds after which news flow again for sure, where all watches were cut once and then only those that are idle."""
APART, RESTORES = 10_000, 9
"""Versions by which a restored server begins before those that are lost, so that they are not reached again; and how
often it may be restored."""


class Mishaps:
    def __init__(self, stage: Stage) -> None:
        self.stage, self.bed, self.fired = stage, stage.bed, stage.record.fired
        cluster = stage.bed.simulator.cluster
        self.admission = Admission(cluster, self.fired)
        self._cluster = cluster
        self._backup, self._restores = cluster.store.backup(), 0
        for process in stage.processes:
            process.link.on_fault = self._count
        self.lost: set[str] = set()
        """Unreachable nodes."""
        self.troubles: dict[str, Rule] = {}
        """One with what is read and one with what is written may go on at the same time."""

    def _count(self, effect: Effect) -> None:
        self.fired[name_of(effect)] += 1

    @property
    def leader(self) -> Process:
        return next((one for one in self.stage.processes if one.leads), self.stage.processes[0])

    # the way to the server

    async def hinder(self, what: str) -> None:
        rule = replace(TROUBLES[what])
        place = "reads" if rule.verb in ("watch", "list") else "writes"
        await self.help(place)
        if what == STALE:  # no server lists less than a client has written: processes that know nothing see it
            await asyncio.sleep(CUT_ONCE)
        self.troubles[place] = rule
        for process in self.stage.processes:
            process.link.faults.add(rule)
        if place == "reads":
            self.stage.stale_until = float("inf") if what == STALE else self.stage.stale_until
            self.hindered(clock() + CUT_ONCE if what == IDLE_CUTS else float("inf"))
            self.drop_watches()

    def hindered(self, until: float) -> None:
        """News may be late until then."""
        for process in self.stage.processes:
            process.chronicle.hindered_until = max(process.chronicle.hindered_until, until)

    async def help(self, place: str) -> None:
        """The trouble there is over."""
        rule = self.troubles.pop(place, None)
        if rule is None:
            return
        for process in self.stage.processes:
            process.link.faults.remove(rule)
            if place == "reads":
                process.chronicle.hindered_until = clock() + HINDRANCE
        if place == "reads":
            self.stage.stale_until = min(self.stage.stale_until, clock() + HINDRANCE)
            self.drop_watches()

    def drop_watches(self) -> None:
        for process in self.stage.processes:
            for kind in KINDS:
                process.link.drop_watches(kind.resource)

    async def limit_pods(self, fewer: int | None) -> None:
        """No more pods than there are, or even fewer; None: as many as anybody wants."""
        self.admission.most = None if fewer is None else len(self._cluster.store.objects[kinds.PODS]) - fewer

    async def webhook(self, rewrites: bool, reverts: bool) -> None:
        self.admission.rewrites, self.admission.reverts = rewrites, reverts

    async def cut_off(self, seconds: float) -> None:
        """The leader reaches no server."""
        process = self.leader
        self.fired["the leader is cut off"] += 1
        process.link.up = False
        process.chronicle.hindered_until = max(process.chronicle.hindered_until, clock() + seconds + HINDRANCE)
        process.link.drop_watches()
        asyncio.get_running_loop().call_later(seconds, setattr, process.link, "up", True)

    # processes

    async def set_clock(self, ahead: float) -> None:
        """Of the machines on which the controller runs. The times of a job are by that clock."""
        if self.stage.pulls is not None:
            return
        for process in self.stage.processes:
            self.fired["clock: jumps"] += ahead != process.ahead
            process.chronicle.clock_set |= ahead < process.ahead
            process.ahead = ahead

    async def freeze(self, seconds: float) -> None:
        """The leader is suspended, in the middle of whatever it does."""
        process = self.leader
        self.fired["process: suspended"] += 1
        process.hold(seconds)

    async def hand_over(self, seconds: float) -> None:
        """SIGTERM for the leader in the middle of its work, while other caches lag far behind."""
        leader = self.leader
        await self.hinder("watch: reordered, pods 20 s late")
        if len(self.stage.processes) > 1:
            leader.link.faults.remove(self.troubles["reads"])
            leader.link.drop_watches("pods")
        for name in list(self.bed.nodes.names)[:2]:
            for pod in [one for one in self.stage.chronicle.pods.values() if one.node == name and one.live]:
                with suppress(Refusal):
                    await self.bed.api.delete(PODS, pod.name)
        await asyncio.sleep(seconds)
        await self.end(5.0)

    async def freeze_at(self, write: int, seconds: float) -> None:
        """The leader, with one of its next writes on its way."""
        self.leader.freezes_at = write, seconds

    async def restart(self, seconds: float) -> None:
        """All are killed, and start again after so long."""
        for process in self.stage.processes:
            self.fired["process: killed"] += process.is_running
            await process.kill()
        await asyncio.sleep(seconds)
        for process in self.stage.processes:
            process.begin()

    async def kill(self, turns: int) -> None:
        """The leader, after so many turns of the loop: at any await."""
        for _ in range(turns):
            await asyncio.sleep(0)
        process = self.leader
        self.fired["process: killed"] += process.is_running
        await process.kill()
        asyncio.get_running_loop().call_later(BACK, process.begin)

    async def kill_at(self, write: int, reaches: bool) -> None:
        """The leader, at one of its next writes, which may still reach the server."""
        self.leader.dies_at = write, reaches

    async def end(self, back: float) -> None:
        """SIGTERM for the leader, and its pod is made again later."""
        process = self.leader
        self.fired["process: SIGTERM"] += process.is_running
        await process.end()
        asyncio.get_running_loop().call_later(back, process.begin)

    # the Lease

    async def delete_lease(self, blind: float) -> None:
        """By a user, perhaps while its holder can neither renew nor read it for `blind` seconds."""
        if blind:
            link, rule = self.leader.link, Rule(Hang(None), "create,patch,get", _LEASES)
            link.faults.add_first(rule)
            asyncio.get_running_loop().call_later(blind, link.faults.remove, rule)
        with suppress(Refusal):
            await self.bed.api.delete(LEASES, LEASE_NAME)
            self.fired["lease: deleted"] += 1

    async def starve(self, slow: float) -> None:
        """The holder's renewals are slow and then get nowhere, while its other requests do, and there is work."""
        await self.help("writes")  # a request that comes after its retry makes a pod anew that is gone again
        link = self.leader.link
        late, never = Rule(Hang(slow), "patch", _LEASES), Rule(Hang(None), "patch,get", _LEASES)
        link.faults.add_first(late)
        await asyncio.sleep(5.0)
        link.faults.remove(late)
        link.faults.add_first(never)
        self.fired["lease: not renewed in time, while there is work"] += 1
        for turn in range(26):
            await self.delete_some(turn)
            await asyncio.sleep(0.5)
        link.faults.remove(never)

    async def delete_some(self, turn: int) -> None:
        names = self.bed.nodes.names
        for pod in [*self.stage.chronicle.pods.values()]:
            if pod.live and pod.node == names[turn % len(names)]:
                with suppress(Refusal):
                    await self.bed.api.delete(PODS, pod.name)

    async def steal_lease(self) -> None:
        """A client that is no controller writes itself into it."""
        with suppress(Refusal):
            spec = {"holderIdentity": "stranger"}
            await self.bed.api.patch(LEASES, LEASE_NAME, {"spec": spec})
            self.fired["lease: stolen"] += 1

    # the server

    async def back_up(self) -> None:
        self._backup = self._cluster.store.backup()
        self._cluster.store.version += RESTORES * APART

    async def restore(self, late: str = "") -> None:
        """The etcd of the beginning of the story. What is `late` (a resource) can be read after some seconds."""
        if self._restores == RESTORES or self.stage.chronicle.spec is None or self._backup.version <= self.begun:
            return
        self._restores += 1
        self.fired["etcd: restored from a backup"] += 1
        self.stage.record.tell("the server is restored")
        self.drop_watches()
        for process in self.stage.processes:
            process.link.drop_watches()
        for process in self.stage.processes if late else ():
            rule = Rule(Answer(503, "ServiceUnavailable"), "watch,list", late)
            process.link.faults.add_first(rule)
            asyncio.get_running_loop().call_later(20.0, process.link.faults.remove, rule)
        self.bed.nodes.begin_anew()
        self._cluster.store.restore(self._backup)
        self._cluster.store.version += (RESTORES - self._restores) * APART
        for process in self.stage.processes:
            process.chronicle.server_restored()
        self.stage.course.server_restored()
        self.stage.record.server_restored()
        if self.stage.pulls is not None:
            self.stage.pulls.server_restored()
        self.hindered(clock() + HINDRANCE)
        for name in {**dict.fromkeys(self.bed.nodes.names), **self.stage.chronicle.nodes}:
            is_new = name not in self.bed.nodes.names
            await self.bed.nodes.add(name)  # its kubelet registers itself again
            if is_new:
                await self.take_over(name)
        self.lost |= {name for name, node in self.stage.chronicle.nodes.items() if node.unreachable}

    async def take_over(self, name: str) -> None:
        """A new machine starts what the old one of that name ran, and ends the rest."""
        for pod in await self.bed.api.list(PODS):
            if pod["spec"].get("nodeName") == name:
                with suppress(Refusal):
                    if pod["metadata"].get("deletionTimestamp"):
                        await self.bed.nodes.gone(pod)
                    elif pod["status"]["phase"] not in ("Failed", "Succeeded"):
                        await self.bed.nodes.crash(pod)

    begun = 0
    """The version before which the DaemonSet was not there."""
