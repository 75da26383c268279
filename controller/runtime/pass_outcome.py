"""The common part of passes over DaemonSets and ImagePullJobs: how long they wait for answers, and how their errors
decide when the key comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from controller.kube.errors import ApiError
from controller.runtime.workers import ComeBack, Done, Outcome, PassControl, Retry, Work

AT_ONCE = 0.001
"""Seconds until the next pass over a key that has more to do: practically none, but the key queues behind those that
wait already."""
LOOK_AGAIN_SECONDS = 1.0
"""Seconds for which a stale pass waits for the event that makes it fresh; then it comes back by itself."""
ANSWER_SECONDS = 2.0
"""Seconds for which a pass waits for a server that says nothing. Then the pass ends without the missing answers, so
that the rest of the object is looked after: see docs/design/life-of-an-event.md#when-the-server-does-not-answer."""


async def patiently(control: PassControl, works: Sequence[Work], late: Callable[[Exception | None], None]) -> bool:
    """Run all `works` at once; returns whether all have ended within `ANSWER_SECONDS`. Raises what one of them has
    raised. When a work ends later, `late` gets what it raised, or None."""
    tasks = [control.begin(work) for work in works]
    if tasks:
        await asyncio.wait(tasks, timeout=ANSWER_SECONDS)
    unanswered = [task for task in tasks if not task.done()]
    for task in unanswered:  # before anything is raised: all late answers are heard
        control.leave(task, late)
    for task in tasks:
        if task.done() and (crash := task.result()) is not None:
            raise crash
    return not unanswered


def outcome(errors: Sequence[ApiError], due: float | None = None) -> Outcome:
    """The outcome of a pass: a retry if there was an error, with the first one as its reason. `due`: seconds after
    which something is to be done even without an event; None: nothing is."""
    if errors:
        return Retry(errors[0], errors[0].retry_after or 0.0, due)
    return Done() if due is None else ComeBack(due, "time passed")
