"""restart: asks on a terminal, with a look ahead."""

from __future__ import annotations

from msgspec.structs import replace

from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.edits import restart as edits
from kubectl_plugin.flags import Acting
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.verbs.acting import Change, Chosen, carry_out_all, choose, will_ask

__all__ = ["Chosen", "restart"]


async def restart(invocation: Invocation, chosen: Chosen, acting: Acting) -> int:
    found = await choose(invocation, chosen, acting)
    asks = will_ask(invocation, acting) and len(found) == 1
    return await carry_out_all(invocation, found, lambda one: _change(one, asks), acting, verb="restart")


def _change(snapshot: Snapshot, asks: bool) -> Change:
    """The look ahead stands in the question, or where nobody is asked, under the result."""
    edit = edits.restart(snapshot)
    if not asks:
        return Change(snapshot, edit, ask="Continue?")
    lines = (f"Restart {snapshot.key.name}?", *(f"  {line}" for line in edit.details), "Continue?")
    return Change(snapshot, replace(edit, details=()), ask="\n".join(lines))
