"""`rollback`: returns to an earlier revision, with a preview of the nodes that move."""

from __future__ import annotations

from msgspec.structs import replace

from kubectl_plugin.changes.edit import Edit
from kubectl_plugin.changes.rollback import (
    RollbackSettings,
    already_back,
    headline,
    kept_cautions,
    preview,
    roll_back,
)
from kubectl_plugin.cluster.reads import HURRY, PREVIEW, Parts, revisions_of
from kubectl_plugin.cluster.session import Deadline, Invocation
from kubectl_plugin.commands.change_flow import carry_out, choose
from kubectl_plugin.commands.consent import CONTINUE, PlannedChange, guard_of_pauses, preview_of, will_ask
from kubectl_plugin.errors import ExitCode, UsageError
from kubectl_plugin.options import RollbackOptions
from kubectl_plugin.render.tables import labelled_rows
from kubectl_plugin.rollout.diff import change_lines, differences
from kubectl_plugin.rollout.snapshot import RevisionDetail, Snapshot
from kubectl_plugin.rollout.target import other_revisions, target_of


async def rollback(invocation: Invocation, options: RollbackOptions) -> ExitCode:
    settings = RollbackSettings(
        to_revision=options.to_revision or None,
        keep_partition=options.keep_partition,
        keep_paused=options.keep_paused,
        drop_selector=options.drop_selector,
    )
    async with Deadline(invocation, options).enforced():
        within = PREVIEW if will_ask(invocation, options) else HURRY
        chosen = await choose(invocation, options, options.names, Parts(within=within))
        if settings.to_revision is not None and len(chosen) > 1:
            words = f"--to-revision is for one DaemonSet, not for {len(chosen)}: each counts its revisions by itself"
            raise UsageError(words)
        found = [await _with_revisions(invocation, snapshot) for snapshot in chosen]
    checked = await guard_of_pauses(
        invocation, options, found, by_flag=options.lift_pause, what="a rollback", instead="--keep-paused"
    )
    return await carry_out(
        invocation,
        found,
        lambda one: checked(_change_of(invocation, one, settings, options)),
        options,
        verb="rollback",
    )


async def _with_revisions(invocation: Invocation, snapshot: Snapshot) -> Snapshot:
    """Raises ApiError if the revisions, optional for other verbs, cannot be read."""
    if snapshot.revisions_readable:
        return snapshot
    others = tuple(unread for unread in snapshot.unread if unread.what != "controllerrevisions")
    return replace(snapshot, revisions=await revisions_of(invocation, snapshot.daemonset), unread=others)


def _change_of(
    invocation: Invocation, snapshot: Snapshot, settings: RollbackSettings, options: RollbackOptions
) -> PlannedChange:
    """The preview is in the prompt; without one, under the result."""
    if settings.to_revision is None and (back := already_back(snapshot)) is not None:
        return _already_done(invocation, snapshot, back)
    target = target_of(snapshot, settings.to_revision)
    edit = roll_back(snapshot, target, settings)
    if not edit.operations:
        return PlannedChange(snapshot, replace(edit, warnings=kept_cautions(snapshot, target)))
    templates = snapshot.daemonset.spec.template, target.revision.template
    changes = differences(*templates, show_values=options.show_values)
    lines = (
        *change_lines(changes, only_ascii=True),
        *labelled_rows(preview(snapshot, target, settings, edit), invocation.terminal.width - 2),
    )
    asks = will_ask(invocation, options)
    edit = edit if asks else replace(edit, details=lines)
    return PlannedChange(snapshot, edit, preview_of(headline(snapshot, target), lines), CONTINUE)


def _already_done(invocation: Invocation, snapshot: Snapshot, back: RevisionDetail) -> PlannedChange:
    """A repeated rollback must not bring the abandoned revision back."""
    if others := other_revisions(snapshot):
        number = others[0].revision.number
        invocation.terminal.note(f"to go to revision {number} instead: --to-revision {number}")
    result = f"already rolled back to revision {back.revision.number}"
    return PlannedChange(snapshot, Edit(result=result, operations=(), warnings=kept_cautions(snapshot, back)))
