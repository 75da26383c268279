"""Waits until a promotion may go on. A note tells people what it waits for; the exit code tells programs why it
failed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from controller.api.formats import counted
from kubectl_plugin.cluster.follow import Following, following
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.commands import command
from kubectl_plugin.edits.promote import steps_for_promotion
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.report.promotion_gate import PromotionBlock, PromotionBlockReason, why_blocked
from kubectl_plugin.report.survey import Survey, survey
from kubectl_plugin.verbs.deadline import Deadline
from kubectl_plugin.verbs.status_watch import UNATTENDED, ControllerPresence

LOOK_EVERY: Final = 2.0
"""Seconds between two looks when nothing happens, because soak and deadline depend on the time."""


class PromotionWait:
    """Follows one generation of one DaemonSet; a change by anybody else ends the wait."""

    def __init__(self, invocation: Invocation, seen: Survey, deadline: Deadline, follow: Following) -> None:
        """See `promotion_wait`."""
        self._invocation, self._follow, self._deadline = invocation, follow, deadline
        self._daemonset = seen.daemonset
        self._generation = seen.daemonset.generation
        self._noted = ""
        self._presence = ControllerPresence(invocation, several=False)

    def expect_a_change(self) -> None:
        """Call it after our own write: the next generation is ours, whenever the watch reports it."""
        self._generation += 1

    async def until_open(self, soak: float) -> Survey:
        """The first survey with which the promotion may go on. `soak`: seconds without an update that are required.

        Raises CommandError with exit code 1 when the DaemonSet is deleted, 3 at the deadline, 4 when the rollout has
        stalled or no controller is active, 5 when it is paused, 6 when somebody else has changed the spec, or
        something may not be read any more.
        """
        while True:
            seen = self._survey_now()
            shut = self._why_closed(seen, soak)
            if shut is None:
                return seen
            self._give_up_if_over(seen, shut)
            async with self._deadline.enforced():
                await self._give_up_if_unattended(seen)
            self._note_reason(shut)
            await self._follow.changed(min(LOOK_EVERY, max(self._deadline.seconds_left, 0.0)))

    def note_the_end(self, seen: Survey) -> None:
        """Print that the step is finished."""
        nodes = (
            f"{counted(seen.standing.done, 'node', 'runs', of=seen.rollout.budget.desired)} revision {seen.current}"
        )
        self._invocation.terminal.note(f"finished: {nodes}")

    def _survey_now(self) -> Survey:
        (snapshot,) = self._follow.snapshots()
        if snapshot is None or snapshot.daemonset.terminating or snapshot.daemonset.uid != self._daemonset.uid:
            raise CommandError(f"{self._daemonset.name} was deleted while this waited", exit_code=ExitCode.FAILED)
        if snapshot.daemonset.generation > self._generation:
            raise CommandError(
                f"{self._daemonset.name} was changed by somebody else while this waited",
                hints=(command("status", self._daemonset.key),),
                exit_code=ExitCode.REFUSED,
            )
        seen = survey(snapshot)
        if seen.counts_differ:
            self._follow.mark_nodes_stale()
        return seen

    def _why_closed(self, seen: Survey, soak: float) -> PromotionBlock | None:
        if seen.daemonset.generation < self._generation:
            return PromotionBlock(why=PromotionBlockReason.UNSEEN, text="the change is on its way")
        return why_blocked(seen, steps_for_promotion(seen.snapshot, seen.rollout.budget.desired), soak=soak)

    def _give_up_if_over(self, seen: Survey, shut: PromotionBlock) -> None:
        if shut.why is PromotionBlockReason.BLIND:
            raise CommandError(shut.text, exit_code=ExitCode.REFUSED)
        if shut.why is PromotionBlockReason.STALLED:
            back = (command("rollback", self._daemonset.key, to="to go back"),)
            hints = () if seen.previous_revision is None else back
            raise CommandError(f"stalled: {shut.text}", hints=hints, exit_code=ExitCode.STUCK)
        if shut.why is PromotionBlockReason.PAUSED:
            hint = command("resume", self._daemonset.key, to="to continue")
            raise CommandError(shut.text, hints=(hint,), exit_code=ExitCode.WAITING)
        if self._deadline.seconds_left <= 0:
            raise CommandError(f"gave up after {self._deadline.text}: {shut.text}", exit_code=ExitCode.TIMED_OUT)

    async def _give_up_if_unattended(self, seen: Survey) -> None:
        if self._presence.pending_for(self._daemonset.key, seen.phase) < UNATTENDED:
            return
        if absence := await self._presence.absence(seen.snapshot.now):
            words = f"nothing happens to {self._daemonset.name}: {absence}"
            raise CommandError(words, hints=(command("doctor"),), exit_code=ExitCode.STUCK)

    def _note_reason(self, shut: PromotionBlock) -> None:
        """Print each reason for waiting once; the time that passes in it is no new reason."""
        interruption = self._follow.interruption
        told = interruption or (
            shut.why if shut.why in (PromotionBlockReason.SOAKING, PromotionBlockReason.UNSEEN) else shut.text
        )
        if told != self._noted:
            self._noted = told
            self._invocation.terminal.note(f"waiting: {interruption or shut.text}")


@asynccontextmanager
async def promotion_wait(invocation: Invocation, seen: Survey, deadline: Deadline) -> AsyncIterator[PromotionWait]:
    """Watches the DaemonSet while the block runs. Raises ApiError."""
    async with AsyncExitStack() as stack:
        async with deadline.enforced():
            follow = await stack.enter_async_context(following(invocation, (seen.snapshot,)))
        yield PromotionWait(invocation, seen, deadline, follow)
