"""What passes over DaemonSets and over ImagePullJobs share: for how long they wait, and how their errors decide when
the key comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from controller.kube.errors import ApiError
from controller.runtime.workers import ComeBack, Done, Outcome, PassControl, Retry, Work

AT_ONCE = 0.001
"""Seconds: the key comes back at once, but after those that wait in the queue."""
LOOK_AGAIN_SECONDS = 1.0
"""How long a stale pass waits for the event that makes it fresh before it looks by itself."""
PATIENCE = 2.0
"""Seconds for which a pass waits for a server that says nothing. What is not answered by then is left to itself, and
the rest of the object is looked after meanwhile."""


async def patiently(control: PassControl, works: Sequence[Work], late: Callable[[Exception | None], None]) -> bool:
    """Run all `works` at once; returns whether all have ended within `PATIENCE`. Raises what one of them has raised.
    Of one that ends later, `late` gets the exception, or None."""
    tasks = [control.begin(work) for work in works]
    if tasks:
        await asyncio.wait(tasks, timeout=PATIENCE)
    for task in tasks:
        if not task.done():
            control.leave(task, late)
        elif (crash := task.result()) is not None:
            raise crash
    return all(task.done() for task in tasks)


def outcome(errors: Sequence[ApiError], due: float | None = None) -> Outcome:
    """The outcome of a pass: a retry for its first error, if there is one. `due`: seconds after which time alone
    changes what is to be done."""
    if errors:
        return Retry(errors[0], errors[0].retry_after or 0.0, due)
    return Done() if due is None else ComeBack(due, "time passed")
