"""Waits until a rollout may go on; a person is told what it waits for, a program by the exit code why it did not."""

from __future__ import annotations

import asyncio
from typing import Final

from controller.api.meta import Key
from controller.kube.errors import Busy, ServerError, Unreachable
from kubectl_plugin.cluster import reads
from kubectl_plugin.durations import short
from kubectl_plugin.edits.promote import course_of
from kubectl_plugin.failures import CommandError
from kubectl_plugin.report.gate import Closed, Why, closed
from kubectl_plugin.report.survey import Survey, survey
from kubectl_plugin.running import Invocation

TIMED_OUT: Final = 3
STALLED: Final = 4
MANUAL: Final = 5
OVERTAKEN: Final = 6
LOOK_EVERY: Final = 2.0
"""Seconds."""
PATIENCE: Final = 60.0
"""Seconds for which the server may be away."""


async def look(invocation: Invocation, name: str, namespace: str | None = None) -> Survey:
    return survey(await reads.snapshot(invocation, name, namespace=namespace))


class Keeper:
    """Follows one generation of one DaemonSet: what somebody else makes of it is not what was to be waited for."""

    def __init__(self, invocation: Invocation, seen: Survey, timeout: float) -> None:
        """`timeout`: seconds from now on for everything; 0 for no end."""
        self._invocation, self._seen, self._timeout = invocation, seen, timeout
        self._began = invocation.terminal.now()
        self._generation = seen.daemonset.generation
        self._told = ""

    def expect_a_change(self) -> None:
        """We have just written the spec."""
        self._generation += 1

    async def until_open(self, soak: float) -> Survey:
        """The first look with which it may go on. `soak`: seconds for which it has to have been quiet.

        Raises CommandError: (3) when the time is over, (4) when it stalled, (5) when it is paused, (6) when the spec
        was changed.
        """
        while True:
            self._seen = seen = await self._look()
            shut = closed(seen, course_of(seen.snapshot, seen.board.budget.desired), soak=soak)
            if shut is None:
                return seen
            self._give_up_if_hopeless(shut)
            self._tell(shut)
            await asyncio.sleep(LOOK_EVERY)

    def tell_the_end(self) -> None:
        """What was waited for is there."""
        seen = self._seen
        nodes = f"{seen.standing.done} of {seen.board.budget.desired} nodes run revision {seen.current}"
        self._invocation.terminal.note(f"finished: {nodes}")

    async def _look(self) -> Survey:
        key = self._seen.snapshot.key
        seen = await self._look_again(key)
        if (seen.daemonset.uid, seen.daemonset.generation) != (self._seen.daemonset.uid, self._generation):
            raise CommandError(
                f"{key.name} was changed by somebody else while this waited",
                hints=(f"kubectl kruise-ds status {key.name} -n {key.namespace}",),
                exit_code=OVERTAKEN,
            )
        return seen

    async def _look_again(self, key: Key) -> Survey:
        """A server that is away for a moment ends no wait of half an hour. Raises ApiError when it stays away."""
        terminal, lost = self._invocation.terminal, None
        while True:
            try:
                return await look(self._invocation, key.name, key.namespace)
            except (Busy, ServerError, Unreachable):
                lost = lost or terminal.now()
                if terminal.now() - lost >= PATIENCE:
                    raise
            await asyncio.sleep(LOOK_EVERY)

    def _give_up_if_hopeless(self, shut: Closed) -> None:
        key = self._seen.snapshot.key
        where = f"{key.name} -n {key.namespace}"
        if shut.why is Why.STALLED:
            hint = f"kubectl kruise-ds rollback {where} goes back"
            raise CommandError(f"stalled: {shut.text}", hints=(hint,), exit_code=STALLED)
        if shut.why is Why.PAUSED:
            hint = f"kubectl kruise-ds resume {where} lets it go on"
            raise CommandError(shut.text, hints=(hint,), exit_code=MANUAL)
        if self._timeout and self._invocation.terminal.now() - self._began >= self._timeout:
            raise CommandError(f"gave up after {short(self._timeout)}: {shut.text}", exit_code=TIMED_OUT)

    def _tell(self, shut: Closed) -> None:
        """Once for each thing that is waited for; the time that passes is none."""
        told = shut.why if shut.why is Why.SOAKING else shut.text
        if told != self._told:
            self._told = told
            self._invocation.terminal.note(f"waiting: {shut.text}")
