"""pause and resume."""

from __future__ import annotations

from kubectl_plugin.asked import Chosen
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.edits import pausing
from kubectl_plugin.flags import Acting
from kubectl_plugin.verbs.acting import Change, carry_out_all, choose


async def pause(invocation: Invocation, chosen: Chosen, acting: Acting) -> int:
    """Without a question: it is what one types in a hurry, and `resume` takes it back."""
    found = await choose(invocation, chosen, acting, hurry=True)
    return await carry_out_all(invocation, found, lambda one: Change(one, pausing.pause(one)), acting, verb="pause")


async def resume(invocation: Invocation, chosen: Chosen, acting: Acting) -> int:
    found = await choose(invocation, chosen, acting, hurry=True)
    return await carry_out_all(invocation, found, lambda one: Change(one, pausing.resume(one)), acting, verb="resume")
