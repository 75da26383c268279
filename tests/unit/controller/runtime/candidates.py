"""Candidates for one Lease, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from controller.runtime.election import Leadership
from controller.runtime.leadership import leadership
from controller.runtime.lease_rules import LeadershipLost
from tests.beds.virtual_time import now
from tests.unit.controller.runtime.lease_board import Board, Seat

WALL_START = 1795255200.0


def wall() -> float:
    return WALL_START + now() - 1000.0


class Candidate:
    """One process: leads when it can, until it is told to leave, and says why it stopped."""

    def __init__(self, board: Board, name: str, *, may_watch: bool = True) -> None:
        self.name, self.seat = name, Seat(board, may_watch=may_watch)
        self.said: list[str] = []
        self.leads_since: float | None = None
        self.leadership: Leadership | None = None
        self.leave = asyncio.Event()
        self.ended: str = ""
        self.ended_at: float = 0.0

    def scope(self) -> AbstractAsyncContextManager[Leadership]:
        return leadership(self.seat, self.name, wall, say=self.said.append)

    async def run(self) -> None:
        try:
            async with self.scope() as self.leadership:
                self.leads_since = now()
                await self.leave.wait()
            self.ended = "left"
        except LeadershipLost as lost:
            self.ended = str(lost)
        finally:
            self.ended_at = now()


@asynccontextmanager
async def lease_board() -> AsyncIterator[tuple[asyncio.TaskGroup, Board]]:
    """A Lease, and a group for its candidates, which is cancelled at the end."""
    async with asyncio.TaskGroup() as group:
        yield group, Board()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()


async def leading(group: asyncio.TaskGroup, board: Board, name: str = "a") -> Candidate:
    candidate = Candidate(board, name)
    group.create_task(candidate.run())
    await asyncio.sleep(16)  # it has to make the lease, and nobody may hold a deleted one
    assert candidate.leads_since is not None
    return candidate
