"""One Lease as a server keeps it, and candidates that reach it, each with faults of its own, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal, NamedTuple

from controller.kube.errors import Forbidden, ServerError
from controller.runtime.leader_election import LeaderElector, Leadership, LeadershipLost, Lease, LeaseLock, LeaseSpec
from tests.beds.virtual_time import now

Fault = Literal["", "503", "reset", "hang", "answer lost"]


class Written(NamedTuple):
    at: float
    holder: str | None
    spec: LeaseSpec


class Board:
    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.version = 100
        self.written: list[Written] = []
        self.listeners: list[asyncio.Queue[Lease | None]] = []

    def put(self, spec: LeaseSpec | None) -> Lease | None:
        """A write that was accepted, ours or another's; None deletes."""
        self.version += 1
        self.lease = None if spec is None else Lease(spec=spec, version=str(self.version))
        if spec is not None:
            self.written.append(Written(now(), spec.holder_identity, spec))
        for listener in self.listeners:
            listener.put_nowait(self.lease)
        return self.lease

    def touch(self) -> None:
        """Another client annotates the Lease: a new version, the same record."""
        assert self.lease is not None
        self.put(self.lease.spec)
        self.written.pop()

    @property
    def holder(self) -> str | None:
        return self.lease.spec.holder_identity if self.lease else None


class Seat(LeaseLock):
    """A candidate's way to the board."""

    def __init__(self, board: Board, *, may_watch: bool = True) -> None:
        self.board, self.may_watch = board, may_watch
        self.fault: Fault = ""
        self.calls: list[tuple[str, float]] = []

    async def get(self) -> Lease | None:
        await self._travel("get")
        return self.board.lease

    async def create(self, spec: LeaseSpec) -> Lease | None:
        await self._travel("create")
        if self.board.lease is not None:
            return None
        written = self.board.put(spec)
        await self._travel_back()
        return written

    async def update(self, spec: LeaseSpec, version: str) -> Lease | None:
        await self._travel("update")
        if self.board.lease is None or self.board.lease.version != version:
            return None
        written = self.board.put(spec)
        await self._travel_back()
        return written

    async def watch(self, version: str) -> AsyncGenerator[Lease | None]:
        await self._travel("watch")
        if not self.may_watch:
            raise Forbidden("watch", "lease", "no")
        changes: asyncio.Queue[Lease | None] = asyncio.Queue()
        lease = self.board.lease
        if lease is None or lease.version != version:
            changes.put_nowait(lease)
        self.board.listeners.append(changes)
        try:
            while True:
                yield await changes.get()
        finally:
            self.board.listeners.remove(changes)

    async def _travel(self, verb: str) -> None:
        self.calls.append((verb, now()))
        match self.fault:
            case "hang":
                await asyncio.Event().wait()
            case "reset":
                raise ConnectionResetError("reset by peer")
            case "503":
                raise ServerError(verb, "lease", "etcd is away", status=503)
            case _:
                await asyncio.sleep(0.01)

    async def _travel_back(self) -> None:
        if self.fault == "answer lost":
            raise ConnectionResetError("reset by peer")
        await asyncio.sleep(0.01)


WALL_START = 1795255200.0


def wall() -> float:
    return WALL_START + now() - 1000.0


class Candidate:
    """One process: leads when it can, until it is stopped, and says why it stopped."""

    def __init__(self, board: Board, name: str, *, may_watch: bool = True) -> None:
        self.name, self.seat = name, Seat(board, may_watch=may_watch)
        self.said: list[str] = []
        self.leads_since: float | None = None
        self.leadership = Leadership()
        self.leave = asyncio.Event()
        self.ended: str = ""
        self.ended_at: float = 0.0

    def scope(self) -> AbstractAsyncContextManager[None]:
        return LeaderElector(self.leadership, self.seat, self.name, wall, self.said.append).leading()

    async def run(self) -> None:
        try:
            async with self.scope():
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
    await asyncio.sleep(16)  # it has to make the lease, and a deleted one has no holder
    assert candidate.leads_since is not None
    return candidate
