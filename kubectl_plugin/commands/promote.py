"""`promote`: takes the next step if the present one is finished; with --wait, waits for both."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace as with_fields
from typing import Final

from msgspec.structs import replace

from controller.api.formats import IntOrPercent, counted
from kubectl_plugin.changes import partition as edits
from kubectl_plugin.changes.partition import desired_of, goal_of, known_desired, steps_for_promotion
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.follow import Following, following, with_pulls
from kubectl_plugin.cluster.session import Deadline, Invocation
from kubectl_plugin.cluster.writes import Judge
from kubectl_plugin.commands.change_flow import (
    EditOfOne,
    ask_before_write,
    carry_out,
    note_failed_reads,
    question_text,
    will_ask,
)
from kubectl_plugin.commands.status import UNATTENDED, ControllerPresence
from kubectl_plugin.errors import CommandError, ExitCode, UsageError
from kubectl_plugin.options import ActingOptions
from kubectl_plugin.options import PromoteOptions as Asked
from kubectl_plugin.rollout.gate import PromotionBlock, PromotionBlockReason, why_blocked
from kubectl_plugin.rollout.history import way_back
from kubectl_plugin.rollout.survey import Survey, survey
from kubectl_plugin.units import int_or_percent, seconds_of
from kubectl_plugin.wording import command

LOOK_EVERY: Final = 2.0
"""Seconds between checks without events, as soak and deadline depend on the time."""


class PromotionWait:
    """Follows one generation of a DaemonSet; a change by another user ends the wait."""

    def __init__(self, invocation: Invocation, seen: Survey, deadline: Deadline, follow: Following) -> None:
        self._invocation, self._follow, self._deadline = invocation, follow, deadline
        self._daemonset = seen.daemonset
        self._generation = seen.daemonset.generation
        self._noted = ""
        self._presence = ControllerPresence(invocation, several=False)

    def expect_a_change(self) -> None:
        """Must be called after the command's own write, which makes the next generation."""
        self._generation += 1

    async def until_open(self, soak: float) -> Survey:
        """Returns the first survey that allows the promotion. `soak`: seconds required without an update. Raises
        CommandError with exit code 1 if the DaemonSet is deleted, 3 at the deadline, 4 if stalled or without a
        controller, 5 if paused, 6 if another user changed the spec or reading is forbidden."""
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
            hints = way_back(seen.snapshot, "to go back")
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
        """Prints each reason once; the time that passes does not make a new one."""
        interruption = self._follow.interruption
        told = interruption or (
            shut.why if shut.why in (PromotionBlockReason.SOAKING, PromotionBlockReason.UNSEEN) else shut.text
        )
        if told != self._noted:
            self._noted = told
            self._invocation.terminal.note(f"waiting: {interruption or shut.text}")


async def promote(invocation: Invocation, asked: Asked) -> int:
    if asked.full and asked.to is not None:
        raise UsageError("give --full or --to, not both")
    to = 0 if asked.full else int_or_percent(asked.to, "partition") if asked.to is not None else None
    acting = with_fields(asked, wait=False, timeout="0")
    soak, deadline = seconds_of(asked.soak, "--soak"), Deadline(invocation, asked.timeout)
    async with deadline.enforced():
        within = _seconds_for_reading(invocation, asked)
        snapshot = await reads.snapshot(invocation, asked.name, reads.Parts(within=within))
        if within is None:
            (snapshot,) = await with_pulls(invocation, [snapshot])
    seen = survey(snapshot)
    note_failed_reads(invocation, (snapshot,))

    async def judge() -> None:
        """Checks again after the prompt: canaries may have crashed since."""
        if not asked.force:
            _refuse_if_closed(survey(await reads.snapshot(invocation, asked.name)), asked, to, soak)

    if asked.wait and seen.snapshot.unread:
        _refuse_if_closed(seen, asked, to, soak)  # nor with --force: a wait would not know when to end
    if not asked.wait:
        if not asked.force:
            _refuse_if_closed(seen, asked, to, soak)
        return await _carry_out(invocation, _change(seen, to, judge), acting, deadline)
    asks = _change(seen, to, judge).ask
    if asks is not None and await ask_before_write(invocation, seen.snapshot.key.name, asks, acting):
        acting = with_fields(acting, yes=True)
    async with AsyncExitStack() as stack:
        async with deadline.enforced():
            follow = await stack.enter_async_context(following(invocation, (seen.snapshot,)))
        gate = PromotionWait(invocation, seen, deadline, follow)
        if not asked.force:
            seen = await gate.until_open(soak)
        change = with_fields(_change(seen, to, judge), ask=None)
        code = await _carry_out(invocation, change, acting, deadline)
        if change.edit.operations:
            gate.expect_a_change()
            gate.note_the_end(await gate.until_open(0.0))
    return code


def _seconds_for_reading(invocation: Invocation, asked: Asked) -> float | None:
    """Seconds for reads that the promotion does not depend on; None if it depends on all."""
    if not asked.force or asked.wait:
        return None
    may_ask = will_ask(invocation, asked) and (asked.full or asked.to is not None)
    return reads.PREVIEW if may_ask else reads.HURRY


def _change(seen: Survey, to: IntOrPercent | None, judge: Judge) -> EditOfOne:
    """Prompts only before a request that updates all nodes; steps were planned in advance."""
    snapshot, desired = seen.snapshot, known_desired(seen.snapshot)
    goal = goal_of(snapshot, steps_for_promotion(snapshot, desired), desired, to=to)
    edit = edits.promote(snapshot, goal)
    fully = goal is not None and goal.is_full
    ask = question_text(f"Promote {snapshot.key.name} fully?", edit.details) if fully else None
    return EditOfOne(snapshot, edit, ask, judge)


def _refuse_if_closed(seen: Survey, asked: Asked, to: IntOrPercent | None, soak: float) -> None:
    desired = desired_of(seen.snapshot)
    steps = steps_for_promotion(seen.snapshot, desired or 0)
    shut = why_blocked(seen, steps, soak=soak)
    if shut is None:
        return
    if desired is not None:
        goal_of(seen.snapshot, steps, desired, to=to)  # raises what --force does not help against
    goal = ("--full",) if asked.full else ("--to", asked.to) if asked.to is not None else ()
    force = command("promote", seen.snapshot.key, *goal, "--force", to="to go on anyway")
    ways = (force, *_other_ways(seen, shut))
    raise CommandError(shut.text, hints=ways, exit_code=ExitCode.REFUSED)


def _other_ways(seen: Survey, shut: PromotionBlock) -> tuple[str, ...]:
    """Hints at alternatives to promoting."""
    key = seen.snapshot.key
    match shut.why:
        case PromotionBlockReason.BLIND:
            binding = "" if seen.snapshot.nodes_readable else " by a ClusterRoleBinding: nodes are in no namespace"
            return (f"ask for ClusterRole kruise-ds-operator{binding}",)
        case PromotionBlockReason.PAUSED:
            return (command("resume", key, to="to continue"),)
        case PromotionBlockReason.SOAKING:
            return ("--wait waits until then",)
        case (
            PromotionBlockReason.UNSEEN
            | PromotionBlockReason.STALLED
            | PromotionBlockReason.UNFINISHED
            | PromotionBlockReason.FAILING
        ):
            return way_back(seen.snapshot, "to go back")


async def _carry_out(invocation: Invocation, change: EditOfOne, acting: ActingOptions, deadline: Deadline) -> int:
    if change.ask is not None and will_ask(invocation, acting):
        change = with_fields(change, edit=replace(change.edit, details=()))
    return await carry_out(
        invocation, (change.snapshot,), lambda _: change, acting, verb="promote", deadline=deadline
    )
