"""What all passes have in common, whatever they are over: for how long they wait, and what their end means."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from controller.kube.errors import ApiError
from controller.runtime.workers import ComeBack, Done, Outcome, PassControl, Retry, Work

AT_ONCE = 0.001
"""Seconds, so that others who wait in the queue come first."""
LOOK_AGAIN_SECONDS = 1.0
"""How long a stale pass waits for the event that makes it fresh before it looks by itself."""
PATIENCE = 2.0
"""Seconds for which a pass waits for a server that says nothing. What is not answered by then is left to itself, and
the rest of the object is looked after meanwhile."""


async def patiently(turn: PassControl, works: Sequence[Work], late: Callable[[Exception | None], None]) -> bool:
    """Each work on its own; whether all have ended in time. Raises what one has raised; `late` gets what those raise,
    if anything, that end when nobody waits any longer."""
    tasks = [turn.begin(work) for work in works]
    if tasks:
        await asyncio.wait(tasks, timeout=PATIENCE)
    for task in tasks:
        if not task.done():
            turn.leave(task, late)
        elif (crash := task.result()) is not None:
            raise crash
    return all(task.done() for task in tasks)


def outcome(errors: Sequence[ApiError], due: float | None = None) -> Outcome:
    """What went wrong first is tried again; `due`: seconds after which time alone changes what is to be done."""
    if errors:
        return Retry(errors[0], errors[0].retry_after or 0.0, due)
    return Done() if due is None else ComeBack(due, "time passed")
