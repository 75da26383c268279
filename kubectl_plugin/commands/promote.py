"""`promote`: approves the step at which a rollout waits; --full lets it go on to all nodes."""

from __future__ import annotations

from kubectl_plugin.changes.steps import approval, full_promotion
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.reads import Parts
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.commands.change_flow import carry_out, note_failed_reads
from kubectl_plugin.commands.consent import PlannedChange, will_ask, with_question
from kubectl_plugin.options import PromoteOptions as Asked
from kubectl_plugin.rollout.snapshot import Snapshot


async def promote(invocation: Invocation, asked: Asked) -> int:
    within = reads.PREVIEW if asked.full and will_ask(invocation, asked) else reads.HURRY
    snapshot = await reads.snapshot(invocation, asked.name, Parts(within=within))
    note_failed_reads(invocation, (snapshot,))

    def change_of(snapshot: Snapshot) -> PlannedChange:
        if not asked.full:
            return PlannedChange(snapshot, approval(snapshot))
        return with_question(PlannedChange(snapshot, full_promotion(snapshot)), f"Promote {snapshot.key.name} fully?")

    return await carry_out(invocation, (snapshot,), change_of, asked, verb="promote")
