"""`pause` and `resume` patch `rollingUpdate.paused`, and `restart` an annotation of the template, so that every node
gets a new pod. `promote` and `retry` patch annotations of the DaemonSet: `promote` approves the step at which a
rollout waits, or with --full lets it go on to all nodes; `retry` tries an aborted revision again."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from controller.api.objects import JSONObject
from kubectl_plugin.changes import steering as edits
from kubectl_plugin.changes.steering import another_try, approval, full_promotion
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.documents import side_by_side
from kubectl_plugin.cluster.installation import who_am_i
from kubectl_plugin.cluster.reads import DOCUMENT_ONLY, HURRY, Parts, completed
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.commands.change_flow import carry_out, choose, note_failed_reads
from kubectl_plugin.commands.consent import CONTINUE, PlannedChange, will_ask, with_question
from kubectl_plugin.errors import ExitCode
from kubectl_plugin.options import PauseOptions, PromoteOptions, RestartOptions, ResumeOptions, RetryOptions
from kubectl_plugin.rollout.snapshot import Snapshot


async def pause(invocation: Invocation, options: PauseOptions) -> ExitCode:
    """Writes one object without a prompt and before other reads: pausing is urgent, and `resume` undoes it."""

    async def whole(documents: Sequence[JSONObject]) -> tuple[Snapshot, ...]:
        found = await completed(invocation, documents, Parts(within=HURRY))
        note_failed_reads(invocation, found)
        return found

    async def what_stops(paused: Sequence[JSONObject]) -> list[tuple[str, ...]]:
        return [edits.what_stops(snapshot) for snapshot in await whole(paused)]

    def change_of(snapshot: Snapshot) -> PlannedChange:
        edit = edits.pause(snapshot)
        details = edits.what_stops(snapshot, edit.operations) if shown and edit.operations else ()
        return PlannedChange(snapshot, replace(edit, details=details))

    by, found = await side_by_side(
        who_am_i(invocation.session), choose(invocation, options, options.names, DOCUMENT_ONLY)
    )
    shown = len(found) > 1 and will_ask(invocation, options)
    if shown:
        found = await whole([snapshot.document for snapshot in found])
    later = None if shown else what_stops
    return await carry_out(invocation, found, change_of, options, verb="pause", by=by, later=later)


async def resume(invocation: Invocation, options: ResumeOptions) -> ExitCode:
    found = await choose(invocation, options, options.names, Parts(within=HURRY))
    return await carry_out(
        invocation, found, lambda snapshot: PlannedChange(snapshot, edits.resume(snapshot)), options, verb="resume"
    )


async def restart(invocation: Invocation, options: RestartOptions) -> ExitCode:
    """The nodes to be updated are shown in the prompt; without one, under the result."""
    found = await choose(invocation, options, options.names)
    changes = {one.key: PlannedChange(one, edits.restart(one), question=CONTINUE) for one in found}
    if will_ask(invocation, options) and len(found) == 1:
        changes = {key: with_question(change, f"Restart {key.name}?") for key, change in changes.items()}
    return await carry_out(invocation, found, lambda one: changes[one.key], options, verb="restart")


async def promote(invocation: Invocation, options: PromoteOptions) -> ExitCode:
    within = reads.PREVIEW if options.full and will_ask(invocation, options) else reads.HURRY
    snapshot = await reads.snapshot(invocation, options.name, Parts(within=within))
    note_failed_reads(invocation, (snapshot,))

    def change_of(snapshot: Snapshot) -> PlannedChange:
        if not options.full:
            return PlannedChange(snapshot, approval(snapshot))
        return with_question(PlannedChange(snapshot, full_promotion(snapshot)), f"Promote {snapshot.key.name} fully?")

    return await carry_out(invocation, (snapshot,), change_of, options, verb="promote")


async def retry(invocation: Invocation, options: RetryOptions) -> ExitCode:
    found = await reads.snapshot(invocation, options.name, reads.ALL if options.wait else reads.DOCUMENT_ONLY)
    return await carry_out(
        invocation, (found,), lambda snapshot: PlannedChange(snapshot, another_try(snapshot)), options, verb="retry"
    )
