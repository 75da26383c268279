"""`restart`: patches an annotation of the template, so that every node gets a new pod."""

from __future__ import annotations

from kubectl_plugin.changes import pausing
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.commands.change_flow import carry_out, choose
from kubectl_plugin.commands.consent import PlannedChange, will_ask, with_question
from kubectl_plugin.options import RestartOptions


async def restart(invocation: Invocation, asked: RestartOptions) -> int:
    """The nodes to be updated are shown in the prompt; without one, under the result."""
    found = await choose(invocation, asked, asked.names)
    changes = {one.key: PlannedChange(one, pausing.restart(one), ask="Continue?") for one in found}
    if will_ask(invocation, asked) and len(found) == 1:
        changes = {key: with_question(change, f"Restart {key.name}?") for key, change in changes.items()}
    return await carry_out(invocation, found, lambda one: changes[one.key], asked, verb="restart")
