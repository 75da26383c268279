"""Notes become Events on their object. Best effort: an event that is lost harms nobody.

The same warning about the same object is not repeated within ten minutes. One object gets at most 25 events at once
and then one every five minutes, so that a cluster-wide rollout does not flood the server; warnings, and what becomes
of the rollout, have an allowance of their own, so that good news of pods never drowns them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from controller.api.base import JSONObject, Value, View, fields_of
from controller.api.meta import Named, ObjectMeta, rfc3339
from controller.api.text import shortened
from controller.api.wellknown import API_VERSION, EVENT_SOURCE, KIND
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.kube.resource import Resource
from controller.planner.step import Note
from controller.runtime.clock import Clock, elapsed

BURST = 25
REFILL_SECONDS = 300.0
"""client-go's spam filter: 25 events for one object, then one every five minutes."""
SAME_WORDS_SECONDS = 600.0
SAID_MOST = 1000
"""Warnings that are remembered; beyond that the older ones are forgotten and may be repeated."""
WAITING_MOST = 1000
"""Events that wait to be sent; beyond that the oldest are dropped and counted."""


class WrittenEvent(View):
    metadata: ObjectMeta


class NothingKept(Value):
    """Stands for the kept form of an Event: events are only written."""


EVENTS: Resource[WrittenEvent, NothingKept] = Resource(plural="events", wire=WrittenEvent, project=lambda _: None)


class _Allowance(msgspec.Struct):
    left: float
    at: float


class Recorder:
    """Takes notes at once and sends them in the background while `sending` runs."""

    def __init__(
        self, client: Client, clock: Clock, identity: str, on_drop: Callable[[], None] = lambda: None
    ) -> None:
        self._client, self._clock, self._identity, self._on_drop = client, clock, identity, on_drop
        self._waiting: deque[JSONObject] = deque()
        self._work = asyncio.Event()
        self._over = False
        self._said: dict[tuple[str, str, str], float] = {}
        self._allowances: dict[tuple[str, bool], _Allowance] = {}
        self._number = 0

    def __call__(self, about: Named, note: Note, *, kind: str = KIND) -> None:
        now = elapsed()
        note = msgspec.structs.replace(note, message=shortened(note.message))
        words = (about.uid, note.reason, note.message)
        if now - self._said.get(words, float("-inf")) < SAME_WORDS_SECONDS:
            return
        if not self._allows((about.uid, note.warning or note.of_rollout), now):
            if note.warning:
                self._on_drop()
            return
        if note.warning or note.once:  # the others name a pod and never repeat
            self._remember(words, now)
        self._number += 1
        if len(self._waiting) >= WAITING_MOST:
            self._waiting.popleft()
            self._on_drop()
        self._waiting.append(self._event(about, kind, note, self._clock()))
        self._work.set()

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._allowances.pop((uid, False), None)
        self._allowances.pop((uid, True), None)
        self._said = {key: at for key, at in self._said.items() if key[0] != uid}

    @asynccontextmanager
    async def sending(self, flush_seconds: float = 3.0) -> AsyncIterator[None]:
        """Send while the block runs; what still waits at its end, or is on its way, gets `flush_seconds` more."""
        async with asyncio.TaskGroup() as group:
            sender = group.create_task(self._send_all(), name="events")
            try:
                yield
                self._over = True
                self._work.set()
                async with asyncio.timeout(flush_seconds):
                    await asyncio.wait([sender])
            except TimeoutError:
                self._on_drop()
            finally:
                sender.cancel()

    def _remember(self, words: tuple[str, str, str], now: float) -> None:
        if len(self._said) >= SAID_MOST:
            self._said = {key: at for key, at in self._said.items() if now - at < SAME_WORDS_SECONDS / 2}
        self._said[words] = now

    def _allows(self, whose: tuple[str, bool], now: float) -> bool:
        allowance = self._allowances.setdefault(whose, _Allowance(BURST, now))
        allowance.left = min(BURST, allowance.left + (now - allowance.at) / REFILL_SECONDS)
        allowance.at = now
        if allowance.left < 1:
            return False
        allowance.left -= 1
        return True

    async def _send_all(self) -> None:
        """Until it is over and nothing waits."""
        while True:
            while self._waiting:
                body = self._waiting.popleft()
                namespace = fields_of(body["metadata"])["namespace"]
                try:
                    await self._client.create(EVENTS, str(namespace), body)
                except ApiError:
                    self._on_drop()
            if self._over:
                return
            await self._work.wait()
            self._work.clear()

    def _event(self, about: Named, kind: str, note: Note, now: float) -> JSONObject:
        stamp = rfc3339(now)
        unique = f"{int(now * 1e6):x}{self._number:x}"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{about.name}.{unique}", "namespace": about.namespace},
            "involvedObject": {
                "apiVersion": API_VERSION,
                "kind": kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
                "resourceVersion": about.version,
            },
            "type": "Warning" if note.warning else "Normal",
            "reason": note.reason,
            "message": note.message,
            "source": {"component": EVENT_SOURCE},
            "reportingComponent": EVENT_SOURCE,
            "reportingInstance": self._identity,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
