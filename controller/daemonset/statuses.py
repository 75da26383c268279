"""When the status is written: as soon as the pacer allows, one write at a time, and waited for no longer than for any
other answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Literal

import msgspec

from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.daemonset import status_writer
from controller.daemonset.dependencies import Dependencies
from controller.kube.errors import ApiError
from controller.kube.meaning import ForWrite, meaning_of
from controller.planner.actions import Plan
from controller.runtime.backoff import BackoffTable
from controller.runtime.clock import elapsed
from controller.runtime.pacing import StatusPacer
from controller.runtime.passes import patiently
from controller.runtime.workers import PassControl


class StatusWatchers(msgspec.Struct, frozen=True):
    """Both are called synchronously and must not raise."""

    on_status: Callable[[Literal["success", "conflict", "error"]], None]
    """A status write was answered."""
    on_written: Callable[[DaemonSet, DaemonSetStatus | None, DaemonSetStatus], None]
    """The status as it was before a write that went through, and as it is now."""


class Statuses:
    """Of every DaemonSet, by uid."""

    def __init__(self, watchers: StatusWatchers) -> None:
        self._watchers = watchers
        self._pacer: StatusPacer[str] = StatusPacer()
        self._unanswered: set[str] = set()
        self._errors: dict[str, Exception] = {}
        """How writes ended that outlasted their pass; the next one raises it."""
        self._rests: BackoffTable[str] = BackoffTable(first=1.0, cap=300.0)
        """Seconds before the next one after such an end."""

    async def settle(
        self,
        daemonset: DaemonSet,
        decided: Plan,
        latest: tuple[str, DaemonSetStatus | None],
        wrote: Callable[[DaemonSetStatus, str, float], None],
        dependencies: Dependencies,
        turn: PassControl,
    ) -> float | None:
        """Write what differs from `latest`: the newest status that is known, and the version that carries it. `wrote`
        is told what the server has stored, at which version, and when (`elapsed`).

        Returns the seconds after which the rest may be written, where it is too early now. Raises ApiError. What is
        not answered in time is left to itself, and the key is woken when it is.
        """
        uid, now = daemonset.uid, asyncio.get_running_loop().time()
        if (error := self._errors.pop(uid, None)) is not None:
            raise error
        if (rest := self._rests.remaining(uid, now)) > 0:
            return rest
        if decided.status is None or uid in self._unanswered:
            return None
        due = status_writer.change_of(daemonset, decided.status, latest, dependencies.clock())
        if due is None:
            return None
        if (delay := self._pacer.delay(uid, now, urgent=due.urgent)) > 0:
            return delay

        async def write() -> None:
            version = await self._write(daemonset, due, dependencies)
            wrote(due.result, version, elapsed())
            self._watchers.on_written(daemonset, latest[1], due.result)
            for note in decided.news:
                dependencies.say(daemonset, note)

        if not await patiently(turn, [write], partial(self._answered, uid, turn)):
            self._unanswered.add(uid)
        return None

    async def _write(self, daemonset: DaemonSet, due: status_writer.DueStatus, dependencies: Dependencies) -> str:
        """Returns the version that carries it."""
        try:
            version = await status_writer.write(dependencies.client.apart(), daemonset, due)
        except ApiError as error:
            self._watchers.on_status("conflict" if meaning_of(error).write is ForWrite.OVERTAKEN else "error")
            raise
        self._rests.forget(daemonset.uid)
        self._watchers.on_status("success")
        self._pacer.wrote(daemonset.uid, asyncio.get_running_loop().time())
        return version

    def forget(self, uid: str) -> None:
        """The DaemonSet is gone."""
        self._pacer.forget(uid)
        self._errors.pop(uid, None)
        self._rests.forget(uid)

    def _answered(self, uid: str, turn: PassControl, failed: Exception | None) -> None:
        self._unanswered.discard(uid)
        if failed is not None:
            self._errors[uid] = failed
            self._rests.strike(uid, asyncio.get_running_loop().time())
        turn.wake("status answered at last")
