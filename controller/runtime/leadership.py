"""The scope in which this process leads: entering waits for the Lease, leaving gives it back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext

from controller.runtime.clock import Clock
from controller.runtime.election import Election, Leadership
from controller.runtime.lease import LeaseAPI
from controller.runtime.lease_rules import LeadershipLost
from controller.runtime.watchdog import Watchdog


@asynccontextmanager
async def leadership(
    api: LeaseAPI,
    identity: str,
    clock: Clock,
    *,
    say: Callable[[str], None],
    watchdog: Watchdog | None = None,
) -> AsyncIterator[Leadership]:
    """Lead while the block runs. `identity` must be unique to this process; a restarted process needs a new one.

    Entering waits for the Lease, for ever if need be. When the Lease is lost, the block is cancelled at once and
    `LeadershipLost` is raised. When the block ends in another way, the Lease is released, so that a standby takes
    over at once. `say` gets one sentence at each change of state.
    """
    election = Election(api, identity, clock, say, watchdog)
    try:
        await election.win()
    except asyncio.CancelledError:
        await election.withdraw()
        raise
    try:
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(election.keep(), name="leader-lease")
            with nullcontext() if watchdog is None else watchdog.guarding():
                yield election.leadership
            renewing.cancel()
    except BaseExceptionGroup as errors:
        if lost := errors.subgroup(LeadershipLost):
            raise LeadershipLost(str(innermost(lost))) from errors
        raise
    finally:
        await election.release()


def innermost(error: BaseException) -> BaseException:
    """The first error in nested groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
