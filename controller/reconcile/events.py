"""Builds and sends the events of writes and server warnings. Best effort: events may be lost. An object gets at most
25 events at once and then one every five minutes, the same warning once in ten minutes. Warnings and events of the
whole rollout are counted apart, so that events of single pods do not displace them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from controller.api import names
from controller.api.formats import truncated
from controller.api.names import API_VERSION, EVENT_SOURCE, KIND
from controller.api.objects import JSONObject, NamespacedObject, fields_of, rfc3339
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.kube.requests import GroupVersionResource
from controller.planner import actions
from controller.planner.actions import Note
from controller.planner.pod_template import without_child_names
from controller.runtime.clock import Clock, elapsed

MOST_WARNINGS: Final = 5
AGAIN_SECONDS: Final = 3600.0
"""Seconds before a server warning is recorded again."""
LONGEST_WARNING: Final = 512


SUCCESS_EVENTS: Final[Mapping[type[actions.Action], tuple[str, str]]] = {
    actions.CreatePod: (names.SUCCESSFUL_CREATE, "Created pod: {0.name}"),
    actions.DeletePod: (names.SUCCESSFUL_DELETE, "Deleted pod: {0.name}"),
    actions.UpdateInPlace: (names.UPDATED_IN_PLACE, "successfully update pod {0.name} in-place"),
    actions.PrepareDelete: (names.PREPARED_DELETE, "Pod {0.name} is held before its deletion by {0.held_by}"),
    actions.CancelDelete: (names.CANCELLED_DELETE, "Pod {0.name} stays: nothing wants it deleted any more"),
}
"""Reason and message by action. The others are steps of these, or nothing that a user waits for."""
FAILURE_EVENTS: Final[Mapping[type[actions.Action], tuple[str, str]]] = {
    actions.CreatePod: (names.FAILED_CREATE, "Error creating: {1}"),
    actions.DeletePod: (names.FAILED_DELETE, "Error deleting: {1}"),
    actions.PrepareDelete: (names.FAILED_DELETE, "Error deleting: {1}"),
    actions.UpdateInPlace: (
        names.FAILED_IN_PLACE,
        "failed to update pod {0.name} in-place(revision {0.revision.hash}): {1}",
    ),
}
"""The same for failed writes, with the server's message. The others are only in the condition Degraded."""


def event_of(action: actions.Action, failure: str | None = None) -> Note | None:
    """The event of an action that is done, or that failed with the server's message `failure`; None: it has none."""
    found = (SUCCESS_EVENTS if failure is None else FAILURE_EVENTS).get(type(action))
    if found is None:
        return None
    reason, text = found
    return Note(warning=failure is not None, reason=reason, message=text.format(action, failure))


class ServerWarnings(msgspec.Struct):
    """The warnings in the server's answers about one object: each once an hour, at most `MOST_WARNINGS` in all."""

    recorded: dict[str, float] = msgspec.field(default_factory=dict)
    """When (`elapsed`), by message."""

    def reporter(self, owner: str, report: Callable[[Note], None]) -> Callable[[str], None]:
        """Returns a function that reports the event of a warning, if it is due."""

        def warned(text: str) -> None:
            if (note := self.note(owner, text, elapsed())) is not None:
                report(note)

        return warned

    def note(self, owner: str, text: str, moment: float) -> Note | None:
        """The event of a warning; None if it is not due. Names of the pods of `owner` are removed from the text."""
        message = truncated(without_child_names(text, owner), LONGEST_WARNING)
        self.recorded = {warning: at for warning, at in self.recorded.items() if moment - at < AGAIN_SECONDS}
        if message in self.recorded or len(self.recorded) >= MOST_WARNINGS:
            return None
        self.recorded[message] = moment
        return Note(warning=True, reason=names.SERVER_WARNING, message=message)


BURST = 25
REFILL_SECONDS = 300.0
"""Seconds for one more event after `BURST`; both as in client-go's EventSourceObjectSpamFilter."""
SAME_WARNING_SECONDS = 600.0
"""Seconds before the same warning may be repeated, as in client-go's event aggregation."""
MOST_RECENT = 1000
"""The most warnings remembered; beyond that the older half may be repeated."""
FEWEST_ALLOWANCES = 1000
"""Objects counted, at least, before those with a full allowance are dropped: deleted ones would fill the table."""
FLUSH_SECONDS = 3.0
"""Seconds for sending the remaining events when the process ends."""
MOST_WAITING = 1000
"""The most events that may wait; beyond that the oldest are dropped and counted."""

EVENTS = GroupVersionResource(plural="events")


class _Allowance(msgspec.Struct):
    left: float
    at: float

    def at_moment(self, moment: float) -> float:
        return min(BURST, self.left + (moment - self.at) / REFILL_SECONDS)


class Recorder:
    """Queues notes at once, and sends them as events while `sending` runs."""

    def __init__(
        self, client: Client, clock: Clock, identity: str, on_drop: Callable[[], None] = lambda: None
    ) -> None:
        self._client, self._clock, self._identity, self._on_drop = client, clock, identity, on_drop
        self._waiting: deque[JSONObject] = deque()
        self._work = asyncio.Event()
        self._over = False
        self._recent: dict[tuple[str, str, str], float] = {}
        self._allowances: dict[tuple[str, bool], _Allowance] = {}
        self._most_allowances = FEWEST_ALLOWANCES
        self._number = 0

    def __call__(self, about: NamespacedObject, note: Note, *, kind: str = KIND) -> None:
        moment = elapsed()
        note = msgspec.structs.replace(note, message=truncated(note.message))
        words = (about.uid, note.reason, note.message)
        if moment - self._recent.get(words, float("-inf")) < SAME_WARNING_SECONDS:
            return
        if not self._allows((about.uid, note.warning or note.of_rollout), moment):
            if note.warning:
                self._on_drop()
            return
        if note.warning or note.once:  # other notes name a pod and never repeat
            self._remember(words, moment)
        self._number += 1
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            self._on_drop()
        self._waiting.append(self._event(about, kind, note, self._clock()))
        self._work.set()

    def forget(self, uid: str) -> None:
        self._allowances.pop((uid, False), None)
        self._allowances.pop((uid, True), None)
        self._recent = {key: at for key, at in self._recent.items() if key[0] != uid}

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        """Sends while the block runs, and for up to `FLUSH_SECONDS` after. The rest is dropped and counted."""
        async with asyncio.TaskGroup() as group:
            sender = group.create_task(self._send_all(), name="events")
            try:
                yield
                self._over = True
                self._work.set()
                await asyncio.wait([sender], timeout=FLUSH_SECONDS)
                if not sender.done():
                    for _ in range(1 + len(self._waiting)):  # the one that is under way, and all behind it
                        self._on_drop()
            finally:
                sender.cancel()

    def _remember(self, words: tuple[str, str, str], moment: float) -> None:
        if len(self._recent) >= MOST_RECENT:
            self._recent = {key: at for key, at in self._recent.items() if moment - at < SAME_WARNING_SECONDS / 2}
        self._recent[words] = moment

    def _allows(self, whose: tuple[str, bool], moment: float) -> bool:
        if whose not in self._allowances and len(self._allowances) >= self._most_allowances:
            self._allowances = {
                key: allowance for key, allowance in self._allowances.items() if allowance.at_moment(moment) < BURST
            }
            self._most_allowances = max(FEWEST_ALLOWANCES, 2 * len(self._allowances))
        allowance = self._allowances.setdefault(whose, _Allowance(BURST, moment))
        allowance.left, allowance.at = allowance.at_moment(moment), moment
        if allowance.left < 1:
            return False
        allowance.left -= 1
        return True

    async def _send_all(self) -> None:
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

    def _event(self, about: NamespacedObject, kind: str, note: Note, now: float) -> JSONObject:
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
