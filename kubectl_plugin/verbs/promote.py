"""`promote`: the next step, if the present one is finished. `--wait` waits until it is, and then for the next one."""

from __future__ import annotations

from dataclasses import replace as with_fields

from msgspec.structs import replace

from kubectl_plugin.change_options import ActingOptions
from kubectl_plugin.change_options import PromoteOptions as Asked
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.images_ahead import with_pulls
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.cluster.writing import Judge
from kubectl_plugin.commands import command
from kubectl_plugin.durations import seconds_of
from kubectl_plugin.edits import promote as edits
from kubectl_plugin.edits.partition import desired_of, known_desired
from kubectl_plugin.edits.promote import goal_of, steps_for_promotion
from kubectl_plugin.failures import CommandError, ExitCode, UsageError
from kubectl_plugin.int_or_percent import int_or_percent
from kubectl_plugin.report.promotion_gate import PromotionBlock, PromotionBlockReason, why_blocked
from kubectl_plugin.report.survey import Survey, survey
from kubectl_plugin.verbs.change_flow import ask_before_write, carry_out, note_failed_reads, will_ask
from kubectl_plugin.verbs.change_writer import EditOfOne, question_text
from kubectl_plugin.verbs.deadline import Deadline
from kubectl_plugin.verbs.promotion_wait import promotion_wait
from kubectl_plugin.verbs.waiting import check_wait_flags


async def promote(invocation: Invocation, asked: Asked) -> int:
    if asked.full and asked.to is not None:
        raise UsageError("give --full or --to, not both")
    check_wait_flags(asked)
    acting = with_fields(asked, wait=False, timeout="0")
    soak, deadline = seconds_of(asked.soak, "--soak"), Deadline(invocation, asked.timeout)
    async with deadline.enforced():
        within = _seconds_for_reading(invocation, asked)
        snapshot = await reads.snapshot(invocation, asked.name, within=within)
        if within is None:
            (snapshot,) = await with_pulls(invocation, [snapshot])
    seen = survey(snapshot)
    note_failed_reads(invocation, (snapshot,))

    async def judge() -> None:
        """Check again after the question: canaries may have crashed since."""
        if not asked.force:
            _refuse_if_closed(survey(await reads.snapshot(invocation, asked.name)), soak)

    if asked.wait and seen.snapshot.unread:
        _refuse_if_closed(seen, soak)  # nor with --force: a wait would not know when to end
    if not asked.wait:
        if not asked.force:
            _refuse_if_closed(seen, soak)
        return await _carry_out(invocation, _change(seen, asked, judge), acting, deadline)
    asks = _change(seen, asked, judge).ask
    if asks is not None and await ask_before_write(invocation, seen.snapshot.key.name, asks, acting):
        acting = with_fields(acting, yes=True)
    async with promotion_wait(invocation, seen, deadline) as gate:
        if not asked.force:
            seen = await gate.until_open(soak)
        change = with_fields(_change(seen, asked, judge), ask=None)
        code = await _carry_out(invocation, change, acting, deadline)
        if change.edit.operations:
            gate.expect_a_change()
            gate.note_the_end(await gate.until_open(0.0))
    return code


def _seconds_for_reading(invocation: Invocation, asked: Asked) -> float | None:
    """Seconds for reading what the promotion does not depend on; None if it depends on everything."""
    if not asked.force or asked.wait:
        return None
    may_ask = will_ask(invocation, asked) and (asked.full or asked.to is not None)
    return reads.PREVIEW if may_ask else reads.HURRY


def _change(seen: Survey, asked: Asked, judge: Judge) -> EditOfOne:
    """Asks for confirmation only before all nodes are updated on the request of one person; steps were planned in
    advance."""
    to = 0 if asked.full else int_or_percent(asked.to, "partition") if asked.to is not None else None
    snapshot, desired = seen.snapshot, known_desired(seen.snapshot)
    goal = goal_of(snapshot, steps_for_promotion(snapshot, desired), desired, to=to)
    edit = edits.promote(snapshot, goal)
    fully = goal is not None and goal.is_full
    ask = question_text(f"Promote {snapshot.key.name} fully?", edit.details) if fully else None
    return EditOfOne(snapshot, edit, ask, judge)


def _refuse_if_closed(seen: Survey, soak: float) -> None:
    shut = why_blocked(seen, steps_for_promotion(seen.snapshot, desired_of(seen.snapshot) or 0), soak=soak)
    if shut is None:
        return
    force = command("promote", seen.snapshot.key, "--force", to="to go on anyway")
    ways = tuple(way for way in (force, _other_ways(seen, shut)) if way)
    raise CommandError(shut.text, hints=ways, exit_code=ExitCode.REFUSED)


def _other_ways(seen: Survey, shut: PromotionBlock) -> str:
    """The hint at what may be done instead of promoting; empty if there is nothing."""
    key = seen.snapshot.key
    match shut.why:
        case PromotionBlockReason.BLIND:
            binding = "" if seen.snapshot.nodes_readable else " by a ClusterRoleBinding: nodes are in no namespace"
            return f"ask for ClusterRole kruise-ds-operator{binding}"
        case PromotionBlockReason.PAUSED:
            return command("resume", key, to="to continue")
        case PromotionBlockReason.SOAKING:
            return "--wait waits until then"
        case (
            PromotionBlockReason.UNSEEN
            | PromotionBlockReason.STALLED
            | PromotionBlockReason.UNFINISHED
            | PromotionBlockReason.FAILING
        ):
            return command("rollback", key, to="to go back") if seen.previous_revision is not None else ""


async def _carry_out(invocation: Invocation, change: EditOfOne, acting: ActingOptions, deadline: Deadline) -> int:
    if change.ask is not None and will_ask(invocation, acting):
        change = with_fields(change, edit=replace(change.edit, details=()))
    return await carry_out(
        invocation, (change.snapshot,), lambda _: change, acting, verb="promote", deadline=deadline
    )
