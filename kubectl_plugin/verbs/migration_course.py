"""Carries out the migration of one DaemonSet step by step, and takes it back where it cannot be finished."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec.structs import replace

from controller.api.objects import Key
from controller.kube.errors import ApiError, UnknownOutcome
from kubectl_plugin.cluster.interruption import warn_if_interrupted
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.cluster.migrating import carry_out, observe
from kubectl_plugin.commands import command
from kubectl_plugin.edits.migration.observed import Observed
from kubectl_plugin.edits.migration.preview import next_step
from kubectl_plugin.edits.migration.step import ChangeObject, CreateObject, Delete, HandedOver, WaitForPods
from kubectl_plugin.failures import CommandError, ExitCode

TICK: Final = 0.3
"""Seconds between two reads of the state; where a read takes longer, as long as it takes."""
SILENCE: Final = 3.0
"""Seconds of waiting after which the user is told for what."""
MOST_WRITES: Final = 50
"""Writes after which a migration is given up. It needs about ten, and one more for each time that somebody else
changes the same object first."""
STANDSTILL_SECONDS: Final = 60.0
"""Seconds without progress after which waiting ends with an error; a step may allow more."""
LATE: Final = 15.0
"""Seconds for which a node whose pod has ended is expected to get another one; after that none seems to be due."""


class MigrationCourse:
    """The migration of one DaemonSet in one direction."""

    def __init__(self, invocation: Invocation, key: Key, *, native: bool) -> None:
        self._invocation, self._key, self._native = invocation, key, native
        self._waiting: WaitForPods | None = None
        self._since = 0.0
        self._told = ""
        self._writes = 0
        self._emptied: dict[str, float] = {}
        """When an ending pod was last seen on each node, in seconds of the event loop's clock."""

    async def run(self) -> None:
        """Carry out the steps until none is left. A failure while the former DaemonSet still exists takes them back;
        after a later one the user is told how to go on and how to go back. Raises CommandError; ApiError.
        """
        words = f": {self._key.name} is half-way, its pods run on"
        with warn_if_interrupted(self._invocation.terminal, words, *self._both_commands()):
            try:
                await self._go_on()
            except (CommandError, ApiError) as error:
                await self._take_back(error)
                raise

    async def _go_on(self) -> None:
        """Read the whole state before each step: a step depends on both DaemonSets, their pods and their revisions.

        Raises CommandError; ApiError.
        """
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            observed = await observe(self._invocation, self._key, as_native=self._native)
            step = next_step(self._with_emptied_nodes(observed, began), native=self._native)
            if isinstance(step, HandedOver):
                self._invocation.terminal.say(f"{self._key.name} {step.says}")
                return
            if isinstance(step, WaitForPods):
                self._wait_for(step)
            elif await self._write(step):
                continue
            # polled, not watched: no event tells that a pod is late, or that no pod is new; and each look compares
            # two DaemonSets, their history and their pods as they are at once
            await asyncio.sleep(max(TICK, loop.time() - began))

    def _with_emptied_nodes(self, observed: Observed, now: float) -> Observed:
        """`observed` with the nodes that lost a pod within `LATE` seconds, and may not have its successor yet."""
        self._emptied |= {one.node: now for one in observed.ending_pods}
        recent = frozenset(node for node, seen in self._emptied.items() if now - seen < LATE)
        return replace(observed, emptied_nodes=recent)

    async def _write(self, step: CreateObject | ChangeObject | Delete) -> bool:
        """Write the step. Returns False where somebody else has changed the object first, and where the outcome is
        unknown: the next read tells.

        Raises CommandError (4) where the writes never come to an end, as when somebody reverts them; ApiError.
        """
        self._waiting = None
        self._writes += 1
        if self._writes > MOST_WRITES:
            words = f"{self._key.name}: {step.kind}/{step.name} does not stay as it was written"
            raise CommandError(words, exit_code=ExitCode.STUCK)
        try:
            done = await carry_out(self._invocation.session, self._key, step)
        except UnknownOutcome:
            return False
        if done:
            self._invocation.terminal.detail(f"  {step.kind}/{step.name} {step.says}")
        return done

    def _wait_for(self, step: WaitForPods) -> None:
        """Note that the step is waited for, and tell the user after a while. Raises CommandError (3) after too long
        without progress."""
        now, before = asyncio.get_running_loop().time(), self._waiting
        if before is None or before.what != step.what or step.left < before.left:
            self._waiting, self._since = step, now
        waited = now - self._since
        if waited > SILENCE and self._told != step.what:
            self._told = step.what
            self._invocation.terminal.note(f"waiting for {step.what}")
        if waited > max(STANDSTILL_SECONDS, step.seconds):
            words = f"{self._key.name}: still waiting for {step.what}"
            raise CommandError(words, hints=step.hints, exit_code=ExitCode.TIMED_OUT)

    async def _take_back(self, error: CommandError | ApiError) -> None:
        terminal = self._invocation.terminal
        try:
            observed = await observe(self._invocation, self._key, as_native=False)
            if not any(side is not None and side.mark is not None for side in (observed.native, observed.ours)):
                return
            former = observed.ours if self._native else observed.native
            if former is not None and not former.terminating:
                terminal.note(f"{error}; taking back what was done")
                await MigrationCourse(self._invocation, self._key, native=not self._native)._go_on()
                return
        except (CommandError, ApiError) as another:
            terminal.note(f"could not be taken back: {another}")
        terminal.warn(f"{self._key.name} is half-way, its pods run on", *self._both_commands())

    def _both_commands(self) -> tuple[str, str]:
        on, back = (("--to-native",), ()) if self._native else ((), ("--to-native",))
        return command("migrate", self._key, *on, to="on"), command("migrate", self._key, *back, to="back")
