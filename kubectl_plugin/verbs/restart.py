"""restart: asks on a terminal, with a look ahead."""

from __future__ import annotations

from kubectl_plugin.asked import Chosen
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.edits import restart as edits
from kubectl_plugin.flags import Acting
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.verbs.acting import Change, carry_out_all, choose, will_ask
from kubectl_plugin.verbs.carrying_out import asking


async def restart(invocation: Invocation, chosen: Chosen, acting: Acting) -> int:
    found = await choose(invocation, chosen, acting)
    asks = will_ask(invocation, acting) and len(found) == 1
    return await carry_out_all(invocation, found, lambda one: _change(one, asks), acting, verb="restart")


def _change(snapshot: Snapshot, asks: bool) -> Change:
    """The look ahead stands in the question, or where nobody is asked, under the result."""
    change = Change(snapshot, edits.restart(snapshot), ask="Continue?")
    return asking(change, f"Restart {snapshot.key.name}?") if asks else change
