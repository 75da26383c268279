"""When the status is written: as soon as the pacer allows, one write at a time, and waited for no longer than for any
other answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf

from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.daemonset import status_writer
from controller.daemonset.dependencies import Dependencies
from controller.kube.errors import ApiError
from controller.kube.meaning import ForWrite, meaning_of
from controller.planner.actions import Plan
from controller.runtime.backoff import Backoff
from controller.runtime.clock import elapsed
from controller.runtime.pacing import StatusPacer
from controller.runtime.passes import patiently
from controller.runtime.workers import PassControl


class Statuses:
    """Of one DaemonSet."""

    def __init__(self) -> None:
        self._pacer = StatusPacer()
        self._is_unanswered = False
        self._error: Exception | None = None
        """How a write ended that outlasted its pass; the next one raises it."""
        self._rest = Backoff(1.0, 300.0)
        self._rests_until = -inf
        """The next one is not before, after such an end."""

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
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        now = elapsed()
        if self._rests_until > now:
            return self._rests_until - now
        if decided.status is None or self._is_unanswered:
            return None
        due = status_writer.change_of(daemonset, decided.status, latest, dependencies.clock())
        if due is None:
            return None
        if (delay := self._pacer.delay(now, urgent=due.urgent)) > 0:
            return delay

        async def write() -> None:
            version = await self._write(daemonset, due, dependencies)
            wrote(due.result, version, elapsed())
            dependencies.on_status(daemonset, latest[1], due.result)
            for note in decided.news:
                dependencies.say(daemonset, note)

        self._is_unanswered = not await patiently(turn, [write], partial(self._answered, turn))
        return None

    async def _write(self, daemonset: DaemonSet, due: status_writer.DueStatus, dependencies: Dependencies) -> str:
        """Returns the version that carries it."""
        try:
            version = await status_writer.write(dependencies.client.apart(), daemonset, due)
        except ApiError as error:
            dependencies.on_status_answer("conflict" if meaning_of(error).write is ForWrite.OVERTAKEN else "error")
            raise
        self._rest.reset()
        dependencies.on_status_answer("success")
        self._pacer.wrote(elapsed())
        return version

    def _answered(self, turn: PassControl, failed: Exception | None) -> None:
        self._is_unanswered = False
        if failed is not None:
            self._error = failed
            self._rests_until = elapsed() + self._rest.next()
        turn.wake("status answered at last")
