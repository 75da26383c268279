"""One pass over one DaemonSet: are the caches fresh, what is there, what should be done, do it, say how it stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Literal

import msgspec

from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.api.meta import Key
from controller.api.text import LONGEST_ITEM, shortened
from controller.api.wellknown import INVALID_SPEC
from controller.daemonset import status_writer
from controller.daemonset.caches import Caches
from controller.daemonset.discretion import discreet_error
from controller.daemonset.execute import carry_out
from controller.daemonset.gather import gather
from controller.daemonset.hands import Hands
from controller.daemonset.known_secrets import KnownSecrets
from controller.daemonset.memory import Memories, Memory
from controller.daemonset.trouble import trouble_after
from controller.kube.client import Client
from controller.kube.errors import ApiError, Conflict, NotFound
from controller.planner.actions import Note, Plan
from controller.planner.plan import plan
from controller.planner.status import refused_status
from controller.runtime.clock import elapsed
from controller.runtime.freshness import STALE_WARNING, Stale
from controller.runtime.pacing import Pacer, StatusPacer
from controller.runtime.workers import ComeBack, Done, Outcome, Retry
from controller.runtime.workqueue import Taken

AT_ONCE = 0.001
"""Seconds, so that others who wait in the queue come first."""
LOOK_AGAIN_SECONDS = 1.0
"""How long a stale pass waits for the event that makes it fresh before it looks by itself."""


class Watchers(msgspec.Struct, frozen=True):
    """Who is told what happened: metrics and log. All are called synchronously and must not raise."""

    on_plan: Callable[[Key, Plan, float], None]
    """The plan of a pass, and the seconds that deciding took."""
    on_stale: Callable[[Key, Stale], None]
    """A pass that had to wait for its own writes to be seen."""
    on_status: Callable[[Literal["success", "conflict", "error"]], None]
    """A status write was answered."""
    on_written: Callable[[DaemonSet, DaemonSetStatus | None, DaemonSetStatus], None]
    """The status as it was before a write that went through, and as it is now."""
    on_overdue: Callable[[Key, Stale], None]
    """The same, after 30 seconds: the resource is listed again."""


class Reconciler:
    """Handles one key at a time for the workers; any number of keys at once."""

    def __init__(
        self,
        *,
        hands: Hands,
        caches: Caches,
        memories: Memories,
        pacer: Pacer[Key],
        watchers: Watchers,
    ) -> None:
        self._hands, self._clock, self._ledger = hands, hands.clock, hands.ledger
        self._caches, self._memories = caches, memories
        self._pacer, self._watchers = pacer, watchers
        self._status_pacer: StatusPacer[str] = StatusPacer()
        self._overdue: set[str] = set()
        self._secrets = KnownSecrets()

    async def __call__(self, taken: Taken[Key], only_waits: Callable[[], None]) -> Outcome:
        """`only_waits` is told when all is decided: from then on the pass waits for the server."""
        key = taken.key
        daemonset = self._caches.daemonsets.get(key)
        if daemonset is None or daemonset.dying:
            self._pacer.forget(key)
            return Done()
        if (rest := self._memories.of(daemonset.uid).stands_back(daemonset, self._clock(), elapsed())) > 0:
            return ComeBack(rest, "another controller wrote the status")
        stale = self._stale(daemonset)
        if stale is not None and elapsed() - stale.since < LOOK_AGAIN_SECONDS:
            return ComeBack(LOOK_AGAIN_SECONDS, "own writes not seen yet")
        return await self._pass(daemonset, only_waits, fresh=stale is None)

    def forget(self, uid: str) -> None:
        """The DaemonSet is gone."""
        self._status_pacer.forget(uid)
        self._overdue.discard(uid)
        self._secrets.forget(uid)

    async def _pass(self, daemonset: DaemonSet, only_waits: Callable[[], None], *, fresh: bool) -> Outcome:
        key, memory, hands = daemonset.key, self._memories.of(daemonset.uid), await self._discreet_hands(daemonset)
        await self._caches.whole()
        if self._caches.daemonsets.get(key) is not daemonset:
            return ComeBack(AT_ONCE, "changed before anything was decided")
        self._pacer.began(key)
        now, since = self._clock(), elapsed()
        began = perf_counter()
        memory.shown(self._caches.daemonsets.reach_in(daemonset.namespace))
        decided = self._decide(daemonset, memory, now, fresh=fresh)
        cost = perf_counter() - began
        memory.saw(daemonset, decided.sight, now)
        self._watchers.on_plan(key, decided, cost)
        try:
            for note in decided.notes:
                self._hands.say(daemonset, note)
            memory.eager = decided.more
            only_waits()
            failures = await carry_out(decided.actions, daemonset, memory, hands)
            memory.trouble = trouble_after(memory.trouble, decided, failures)
            errors = tuple(failure.error for failure in failures)
            wake_in = None if decided.wake_at is None else max(decided.wake_at - now - (elapsed() - since), AT_ONCE)
            if decided.again and not errors:
                wake_in = AT_ONCE
            if not fresh:
                wake_in = min(wake_in or LOOK_AGAIN_SECONDS, LOOK_AGAIN_SECONDS)
            return await self._conclude(daemonset, memory, decided, errors, hands.client, wake_in)
        finally:
            self._pacer.passed(key, cost, asyncio.get_running_loop().time())

    async def _discreet_hands(self, daemonset: DaemonSet) -> Hands:
        """Ours for one pass, with a turn of its own at the server: whatever others wait for, it need not.

        Whatever the server says in it may be repeated in log, event and status. That goes for every request: a
        webhook that judges the status is shown the template too.
        """
        caches = self._caches
        revisions = (*caches.revisions_of(daemonset), *caches.orphan_revisions_in(daemonset.namespace))
        templates = {revision.identity: revision.template for revision in revisions}
        secrets = await self._secrets.of(daemonset.uid, templates | {daemonset.identity: daemonset.spec.template})
        client = self._hands.client.apart().retelling(lambda error: discreet_error(error, secrets))
        return msgspec.structs.replace(self._hands, client=client)

    def _decide(self, daemonset: DaemonSet, memory: Memory, now: float, *, fresh: bool) -> Plan:
        _, status = memory.latest_status(daemonset)
        daemonset = msgspec.structs.replace(daemonset, status=status)  # the cache may not show our last one yet
        try:
            world = gather(daemonset, self._caches, memory, self._hands.failed_pods, now, elapsed(), fresh=fresh)
        except (ValueError, msgspec.ValidationError) as error:
            problem = shortened(str(error), LONGEST_ITEM)
            note = Note(
                warning=True, reason=INVALID_SPEC, message=f"spec.template or rollingUpdate.selector: {problem}"
            )
            return Plan(notes=(note,), status=refused_status(daemonset, note.message, (), now))
        return plan(world)

    async def _conclude(
        self,
        daemonset: DaemonSet,
        memory: Memory,
        decided: Plan,
        errors: tuple[ApiError, ...],
        client: Client,
        wake_in: float | None,
    ) -> Outcome:
        """The status is attempted also after errors (D10); the error of the actions comes first.

        `wake_in`: the seconds after which time alone changes what is to be done.
        """
        try:
            later = await self._write_status(daemonset, memory, decided, client)
        except NotFound:
            return Done()
        except ApiError as error:
            first = errors[0] if errors else error
            return Retry(first, first.retry_after or 0.0, wake_in)
        due = min((delay for delay in (wake_in, later) if delay is not None), default=None)
        if errors:
            return Retry(errors[0], errors[0].retry_after or 0.0, due)
        return Done() if due is None else ComeBack(due, "time passed")

    async def _write_status(
        self, daemonset: DaemonSet, memory: Memory, decided: Plan, client: Client
    ) -> float | None:
        """Returns the seconds after which the rest may be written, where it is too early now."""
        wanted = decided.status
        change = None if wanted is None else status_writer.change_of(daemonset, wanted, memory, self._clock())
        if change is None:
            return None
        loop = asyncio.get_running_loop()
        _, before = memory.latest_status(daemonset)
        delay = self._status_pacer.delay(daemonset.uid, loop.time(), urgent=change.urgent)
        if delay > 0:
            return delay
        try:
            await status_writer.write(client, daemonset, change, memory)
        except ApiError as error:
            self._watchers.on_status("conflict" if isinstance(error, Conflict) else "error")
            raise
        self._watchers.on_status("success")
        self._watchers.on_written(daemonset, before, change.result)
        self._status_pacer.wrote(daemonset.uid, loop.time())
        for note in decided.news:
            self._hands.say(daemonset, note)
        return None

    def _stale(self, daemonset: DaemonSet) -> Stale | None:
        caches = self._caches
        stale = self._ledger.check(
            daemonset.uid, caches.reached_for(daemonset), caches.aliveness(daemonset), elapsed()
        )
        if stale is None:
            self._overdue.discard(daemonset.uid)
            return None
        self._watchers.on_stale(daemonset.key, stale)
        if elapsed() - stale.since > STALE_WARNING and daemonset.uid not in self._overdue:
            self._overdue.add(daemonset.uid)
            self._watchers.on_overdue(daemonset.key, stale)
        return stale
