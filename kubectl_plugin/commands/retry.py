"""`retry`: patches an annotation, so that an aborted revision is tried again, from its first step."""

from __future__ import annotations

from kubectl_plugin.changes.steps import another_try
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.commands.change_flow import carry_out
from kubectl_plugin.commands.consent import PlannedChange
from kubectl_plugin.options import RetryOptions as Asked


async def retry(invocation: Invocation, asked: Asked) -> int:
    found = await reads.snapshot(invocation, asked.name, reads.ALL if asked.wait else reads.DOCUMENT_ONLY)
    return await carry_out(
        invocation, (found,), lambda snapshot: PlannedChange(snapshot, another_try(snapshot)), asked, verb="retry"
    )
