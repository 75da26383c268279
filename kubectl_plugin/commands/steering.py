"""The verbs that steer a rollout, each with what it reads, asks and writes.

`pause` and `resume` patch `rollingUpdate.paused`, `restart` an annotation of the template, so that every node gets a
new pod. `set-partition` patches `rollingUpdate.partition`, and prints how many nodes that lets be updated;
`set-image` patches images of containers, with --hold-at the partition too. `rollback` returns to an earlier revision,
with a preview of the nodes that move. `promote` and `retry` patch annotations of the DaemonSet: `promote` approves
the step at which a rollout waits, or with --full lets it go on to all nodes; `retry` tries an aborted revision again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from controller.api.formats import IntOrPercent
from controller.api.objects import JSONObject
from kubectl_plugin import options as verb_options
from kubectl_plugin.changes import rollback as back
from kubectl_plugin.changes import steering as edits
from kubectl_plugin.changes.edit import Edit
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.documents import side_by_side
from kubectl_plugin.cluster.installation import who_am_i
from kubectl_plugin.cluster.previews import daemonset_in, with_admission
from kubectl_plugin.cluster.reads import HURRY, PREVIEW, Parts
from kubectl_plugin.cluster.session import Deadline, Invocation
from kubectl_plugin.commands.change_flow import carry_out, choose, note_failed_reads
from kubectl_plugin.commands.consent import (
    CONTINUE,
    PlannedChange,
    guard_of_pauses,
    preview_of,
    will_ask,
    with_question,
)
from kubectl_plugin.errors import CommandError, ExitCode, UsageError
from kubectl_plugin.flags import int_or_percent
from kubectl_plugin.render.tables import labelled_rows
from kubectl_plugin.rollout.diff import change_lines, differences
from kubectl_plugin.rollout.snapshot import RevisionDetail, Snapshot
from kubectl_plugin.rollout.target import other_revisions, target_of
from kubectl_plugin.wording import command

_VALUE = re.compile(r"[0-9]+%?")
"""With --update, such a word is a mistyped value, although it could be a name."""


async def pause(invocation: Invocation, options: verb_options.PauseOptions) -> ExitCode:
    """Writes one object without a prompt and before other reads: pausing is urgent, and `resume` undoes it."""

    async def whole(documents: Sequence[JSONObject]) -> tuple[Snapshot, ...]:
        found = await reads.completed(invocation, documents, Parts(within=HURRY))
        note_failed_reads(invocation, found)
        return found

    async def what_stops(paused: Sequence[JSONObject]) -> list[tuple[str, ...]]:
        return [edits.what_stops(snapshot) for snapshot in await whole(paused)]

    def edit_of(snapshot: Snapshot) -> Edit:
        edit = edits.pause(snapshot)
        return replace(edit, details=edits.what_stops(snapshot, edit.operations) if shown and edit.operations else ())

    by, found = await side_by_side(
        who_am_i(invocation.session), choose(invocation, options, options.names, reads.DOCUMENT_ONLY)
    )
    shown = len(found) > 1 and will_ask(invocation, options)
    if shown:
        found = await whole([snapshot.document for snapshot in found])
    later = None if shown else what_stops
    return await carry_out(invocation, found, edit_of, options, verb="pause", by=by, later=later)


async def resume(invocation: Invocation, options: verb_options.ResumeOptions) -> ExitCode:
    found = await choose(invocation, options, options.names, Parts(within=HURRY))
    return await carry_out(invocation, found, edits.resume, options, verb="resume")


async def restart(invocation: Invocation, options: verb_options.RestartOptions) -> ExitCode:
    """The nodes to be updated are shown in the prompt; without one, under the result."""
    found = await choose(invocation, options, options.names)
    changes = {one.key: PlannedChange(one, edits.restart(one), question=CONTINUE) for one in found}
    if will_ask(invocation, options) and len(found) == 1:
        changes = {key: with_question(change, f"Restart {key.name}?") for key, change in changes.items()}
    return await carry_out(invocation, found, lambda one: changes[one.key], options, verb="restart")


async def set_partition(invocation: Invocation, options: verb_options.SetPartitionOptions) -> ExitCode:
    names, value = _names_and_value(options)
    edit_of = partial(edits.set_partition, value=value, of_nodes=options.update is not None)
    found = await choose(invocation, options, names)
    return await carry_out(invocation, found, edit_of, options, verb="set-partition")


def _names_and_value(options: verb_options.SetPartitionOptions) -> tuple[tuple[str, ...], IntOrPercent]:
    """The value is the last word, or that of --update. Raises UsageError."""
    words, update = options.words, options.update
    if len(words) + (update is not None) < (1 if options.by_selection else 2):
        raise UsageError(
            "which one, and how many pods stay old? use set-partition NAME VALUE",
            command("set-partition NAME --update 1", to="or in nodes to update"),
        )
    if update is None:
        return words[:-1], int_or_percent(words[-1], "partition")
    if words and _VALUE.fullmatch(words[-1]):
        raise UsageError("give VALUE or --update, not both")
    return words, int_or_percent(update, "--update")


async def set_image(invocation: Invocation, options: verb_options.SetImageOptions) -> ExitCode:
    images = edits.parse_images([word for word in options.words if "=" in word])
    if not images:
        raise UsageError("which image? use set-image NAME CONTAINER=IMAGE, or *=IMAGE")
    hold_at = int_or_percent(options.hold_at, "--hold-at") if options.hold_at is not None else None
    chosen = await choose(invocation, options, tuple(word for word in options.words if "=" not in word))
    found = [await _with_admission(invocation, snapshot, images) for snapshot in chosen]
    edit_of = partial(edits.set_images, images=images, hold_at=hold_at)
    return await carry_out(invocation, found, edit_of, options, verb="set-image")


async def _with_admission(invocation: Invocation, snapshot: Snapshot, images: Mapping[str, str]) -> Snapshot:
    try:
        tried = edits.as_tried(snapshot, edits.TriedSettings(images=images))
        return await with_admission(invocation, snapshot, daemonset_in(tried))
    except CommandError:
        return snapshot  # its own change says why it is refused


async def rollback(invocation: Invocation, options: verb_options.RollbackOptions) -> ExitCode:
    settings = back.RollbackSettings(
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

    def change_of(snapshot: Snapshot) -> PlannedChange:
        return checked(_change_of(invocation, snapshot, settings, options))

    return await carry_out(invocation, found, change_of, options, verb="rollback")


async def _with_revisions(invocation: Invocation, snapshot: Snapshot) -> Snapshot:
    """Raises ApiError if the revisions, optional for other verbs, cannot be read."""
    if snapshot.revisions_readable:
        return snapshot
    others = tuple(unread for unread in snapshot.unread if unread.what != "controllerrevisions")
    return replace(snapshot, revisions=await reads.revisions_of(invocation, snapshot.daemonset), unread=others)


def _change_of(
    invocation: Invocation, snapshot: Snapshot, settings: back.RollbackSettings, options: verb_options.RollbackOptions
) -> PlannedChange:
    """The preview is in the prompt; without one, under the result."""
    if settings.to_revision is None and (present := back.already_back(snapshot)) is not None:
        return _already_done(invocation, snapshot, present)
    target = target_of(snapshot, settings.to_revision)
    edit = back.roll_back(snapshot, target, settings)
    if not edit.operations:
        return PlannedChange(snapshot, replace(edit, warnings=back.kept_cautions(snapshot, target)))
    templates = snapshot.daemonset.spec.template, target.revision.template
    changes = differences(*templates, show_values=options.show_values)
    lines = (
        *change_lines(changes, only_ascii=True),
        *labelled_rows(back.preview(snapshot, target, settings, edit), invocation.terminal.width - 2),
    )
    asks = will_ask(invocation, options)
    edit = edit if asks else replace(edit, details=lines)
    return PlannedChange(snapshot, edit, preview_of(back.headline(snapshot, target), lines), CONTINUE)


def _already_done(invocation: Invocation, snapshot: Snapshot, present: RevisionDetail) -> PlannedChange:
    """A repeated rollback must not bring the abandoned revision back."""
    if others := other_revisions(snapshot):
        number = others[0].revision.number
        invocation.terminal.note(f"to go to revision {number} instead: --to-revision {number}")
    result = f"already rolled back to revision {present.revision.number}"
    return PlannedChange(snapshot, Edit(result=result, warnings=back.kept_cautions(snapshot, present)))


async def promote(invocation: Invocation, options: verb_options.PromoteOptions) -> ExitCode:
    within = PREVIEW if options.full and will_ask(invocation, options) else HURRY
    snapshot = await reads.snapshot(invocation, options.name, Parts(within=within))
    note_failed_reads(invocation, (snapshot,))

    def full_promotion(snapshot: Snapshot) -> PlannedChange:
        change = PlannedChange(snapshot, edits.full_promotion(snapshot))
        return with_question(change, f"Promote {snapshot.key.name} fully?")

    plan = full_promotion if options.full else edits.approval
    return await carry_out(invocation, (snapshot,), plan, options, verb="promote")


async def retry(invocation: Invocation, options: verb_options.RetryOptions) -> ExitCode:
    found = await reads.snapshot(invocation, options.name, reads.ALL if options.wait else reads.DOCUMENT_ONLY)
    return await carry_out(invocation, (found,), edits.another_try, options, verb="retry")
