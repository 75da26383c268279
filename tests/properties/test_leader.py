"""Whatever happens between candidates and server: two never lead at once, and in the end one does."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from tests.beds.virtual_time import VirtualLoop, now, virtual_time_from
from tests.properties.size import every_day
from tests.unit.controller.runtime.lease_board import Board, Candidate, Fault

NAMES = "abc"
FAULTS: st.SearchStrategy[Fault] = st.sampled_from(["", "503", "reset", "hang", "answer lost"])
SECONDS = st.sampled_from([0.3, 1.7, 2.0, 4.9, 9.7, 16.0, 40.0])

Step = tuple[str, int, Fault, float]
STEPS: st.SearchStrategy[Step] = st.tuples(
    st.sampled_from(["fault", "leave", "touch", "delete", "freeze"]), st.integers(0, 2), FAULTS, SECONDS
)


class Election:
    def __init__(self, group: asyncio.TaskGroup) -> None:
        self.group, self.board = group, Board()
        self.candidates = [self.enter(name) for name in NAMES]

    def enter(self, name: str) -> Candidate:
        candidate = Candidate(self.board, name)
        self.group.create_task(candidate.run())
        return candidate

    def leaders(self) -> list[str]:
        return [c.name for c in self.candidates if c.leadership.is_valid()]

    def act(self, step: Step) -> None:
        what, which, fault, seconds = step
        candidate, loop = self.candidates[which], asyncio.get_running_loop()
        match what:
            case "fault":
                candidate.seat.fault = fault
            case "leave":
                candidate.leave.set()
            case "touch":
                if self.board.lease is not None:
                    self.board.touch()
            case "delete":
                self.board.put(None)
            case "freeze":
                assert isinstance(loop, VirtualLoop)
                loop.freeze(seconds)
        self.check()

    def check(self) -> None:
        leaders = self.leaders()
        assert len(leaders) <= 1, f"{leaders} lead at once, at {now():.2f}"

    async def watch(self, seconds: float) -> None:
        until = now() + seconds
        while now() < until:
            await asyncio.sleep(0.1)
            self.check()
            for number, candidate in enumerate(self.candidates):
                if candidate.ended:  # the process restarts, as its Deployment would have it
                    fault = candidate.seat.fault
                    self.candidates[number] = self.enter(candidate.name)
                    self.candidates[number].seat.fault = fault


@given(st.lists(STEPS, max_size=12))
@every_day(60)
@virtual_time_from(1000.0)
async def test_two_never_lead_at_once_and_in_the_end_one_does(steps: list[Step]) -> None:
    async with asyncio.TaskGroup() as group:
        election = Election(group)
        for step in steps:
            election.act(step)
            await election.watch(step[3])
        for candidate in election.candidates:
            candidate.seat.fault = ""
        await election.watch(40)
        assert len(election.leaders()) == 1
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
