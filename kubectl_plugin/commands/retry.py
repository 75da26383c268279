"""`retry`: patches an annotation, so that an aborted revision is tried again, from its first step."""

from __future__ import annotations

from controller.api.daemonset import rollout_of
from controller.api.names import APPROVE_ANNOTATION, RETRY_ANNOTATION
from kubectl_plugin.changes.edit import Draft, Edit
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.reads import DOCUMENT_ONLY
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.commands.change_flow import PlannedChange, carry_out
from kubectl_plugin.commands.promote import live_revision
from kubectl_plugin.errors import CommandError, ExitCode
from kubectl_plugin.options import RetryOptions as Asked
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.wording import command


async def retry(invocation: Invocation, asked: Asked) -> int:
    parts = reads.ALL if asked.wait else DOCUMENT_ONLY
    snapshot = await reads.snapshot(invocation, asked.name, parts)
    return await carry_out(
        invocation, (snapshot,), lambda one: PlannedChange(one, another_try(one)), asked, verb="retry"
    )


def another_try(snapshot: Snapshot) -> Edit:
    """Its steps have to be approved anew. Raises CommandError (exit code 6) if the rollout was not aborted."""
    live, record = live_revision(snapshot), rollout_of(snapshot.daemonset.status)
    if record.aborted_revision is None:
        raise CommandError(
            f"the rollout of {snapshot.key.name} was not aborted: there is nothing to try again",
            hints=(command("status", snapshot.key),),
            exit_code=ExitCode.REFUSED,
        )
    draft = Draft(snapshot.document)
    draft.set(_next_value(live, record.retried), "metadata", "annotations", RETRY_ANNOTATION)
    if not draft.operations:
        return Edit(result="retry is already requested", operations=())
    draft.drop("metadata", "annotations", APPROVE_ANNOTATION)
    return Edit(result="tried again, from the first step", operations=draft.operations)


def _next_value(revision: str, obeyed: str | None) -> str:
    """The controller obeys each value once: `REVISION`, then `REVISION/2`."""
    if obeyed is None or obeyed.partition("/")[0] != revision:
        return revision
    number = obeyed.partition("/")[2]
    return f"{revision}/{int(number) + 1 if number.isdecimal() else 2}"
