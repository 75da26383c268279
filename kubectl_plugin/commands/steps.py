"""`promote`: approves the step at which a rollout waits; --full lets it go on to all nodes. `retry`: tries an aborted
revision again, from its first step. Both patch annotations."""

from __future__ import annotations

from kubectl_plugin.changes.steering import another_try, approval, full_promotion
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.reads import Parts
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.commands.change_flow import carry_out, note_failed_reads
from kubectl_plugin.commands.consent import PlannedChange, will_ask, with_question
from kubectl_plugin.options import PromoteOptions, RetryOptions
from kubectl_plugin.rollout.snapshot import Snapshot


async def promote(invocation: Invocation, options: PromoteOptions) -> int:
    within = reads.PREVIEW if options.full and will_ask(invocation, options) else reads.HURRY
    snapshot = await reads.snapshot(invocation, options.name, Parts(within=within))
    note_failed_reads(invocation, (snapshot,))

    def change_of(snapshot: Snapshot) -> PlannedChange:
        if not options.full:
            return PlannedChange(snapshot, approval(snapshot))
        return with_question(PlannedChange(snapshot, full_promotion(snapshot)), f"Promote {snapshot.key.name} fully?")

    return await carry_out(invocation, (snapshot,), change_of, options, verb="promote")


async def retry(invocation: Invocation, options: RetryOptions) -> int:
    found = await reads.snapshot(invocation, options.name, reads.ALL if options.wait else reads.DOCUMENT_ONLY)
    return await carry_out(
        invocation, (found,), lambda snapshot: PlannedChange(snapshot, another_try(snapshot)), options, verb="retry"
    )
