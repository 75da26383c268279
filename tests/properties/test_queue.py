"""The work queue against a model: any mix of adds, delays, retries, hands and cancellations."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from controller.runtime.workqueue import QueueShutDown, WorkQueue
from tests.beds.stores import taken_from
from tests.beds.virtual_time import VirtualLoop
from tests.properties.size import every_day

KEYS = st.sampled_from("abc")
DELAYS = st.sampled_from([0.5, 1.0, 2.0, 5.0])


class Hand:
    """A task that takes keys, holds each until it is released, and ends when it is cancelled."""

    def __init__(self, machine: QueueMachine) -> None:
        self.machine = machine
        self.let_go = asyncio.Event()
        self.holds: str | None = None
        self.task = machine.loop.create_task(self.work())

    async def work(self) -> None:
        with contextlib.suppress(QueueShutDown):
            while True:
                self.let_go.clear()
                async with taken_from(self.machine.queue) as taken:
                    self.machine.on_taken(taken.key)
                    self.holds = taken.key
                    try:
                        await self.let_go.wait()
                    finally:
                        self.holds = None


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.queue: WorkQueue[str] = WorkQueue()
        self.hands: list[Hand] = []
        self.owed: set[str] = set()
        """Keys that were wanted since they were last handed out."""
        self.due: dict[str, float] = {}

    def now(self) -> float:
        return self.loop.time()

    def on_taken(self, key: str) -> None:
        self.come_due()
        assert key in self.owed, f"{key} was handed out, and nobody wanted it"
        assert key not in self.held(), f"{key} is in two hands"
        self.owed.discard(key)

    def held(self) -> list[str]:
        return [hand.holds for hand in self.hands if hand.holds is not None]

    def come_due(self) -> None:
        for key, due in list(self.due.items()):
            if due <= self.now():
                del self.due[key]
                self.owed.add(key)

    def turn(self, act: Callable[[], Any] | None = None) -> None:
        """One turn of the loop, with `act` in it."""
        if act is not None:
            self.loop.call_soon(act)
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()
        self.come_due()
        for hand in self.hands:
            if hand.task.done() and not hand.task.cancelled():
                hand.task.result()
        self.hands = [hand for hand in self.hands if not hand.task.done()]

    def settle(self) -> None:
        for _ in range(12):
            self.turn()

    # -- what users of the queue do

    def add_now(self, key: str) -> None:
        self.queue.add(key)
        self.owed.add(key)

    def add_later(self, key: str, delay: float) -> None:
        self.queue.add_after(key, delay)
        self.due[key] = min(self.due.get(key, self.now() + delay), self.now() + delay)

    def retry_now(self, key: str) -> None:
        before = len(self.queue._timers)
        self.queue.add_rate_limited(key, at_least=1.0)
        assert len(self.queue._timers) >= before
        self.due[key] = min(self.due.get(key, self.now() + 1.0), self.now() + 1.0)
        self.queue.forget(key)

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.turn(lambda: self.add_now(key))

    @rule(keys=st.lists(KEYS, min_size=2, max_size=5))
    def add_several_in_one_turn(self, keys: list[str]) -> None:
        def act() -> None:
            for key in keys:
                self.add_now(key)

        self.turn(act)

    @rule(key=KEYS, delay=DELAYS)
    def add_after(self, key: str, delay: float) -> None:
        self.turn(lambda: self.add_later(key, delay))

    @rule(key=KEYS)
    def retry(self, key: str) -> None:
        self.turn(lambda: self.retry_now(key))

    @rule()
    def another_hand(self) -> None:
        if len(self.hands) < 4:
            self.turn(lambda: self.hands.append(Hand(self)))

    @rule(which=st.integers(0, 3))
    def let_go(self, which: int) -> None:
        if which < len(self.hands):
            self.turn(self.hands[which].let_go.set)

    @rule(which=st.integers(0, 3))
    def cancel(self, which: int) -> None:
        if which < len(self.hands):
            self.turn(self.hands[which].task.cancel)

    @rule(key=KEYS, cancel_first=st.booleans())
    def cancel_a_free_hand_in_the_turn_of_an_add(self, key: str, cancel_first: bool) -> None:
        self.settle()
        while len(self.hands) < len(self.held()) + 2:
            self.turn(lambda: self.hands.append(Hand(self)))
        self.settle()
        hand = next(hand for hand in self.hands if hand.holds is None)

        def act() -> None:
            if cancel_first:
                hand.task.cancel()
            self.add_now(key)
            if not cancel_first:
                hand.task.cancel()

        self.turn(act)
        self.a_free_hand_means_no_key_waits()

    @rule(seconds=DELAYS)
    def time_passes(self, seconds: float) -> None:
        self.settle()  # or the model cannot tell whether a key was taken before or after it became due
        self.loop.freeze(seconds)
        self.turn()

    # -- what must hold

    @rule()
    def let_it_settle(self) -> None:
        self.a_free_hand_means_no_key_waits()

    def a_free_hand_means_no_key_waits(self) -> None:
        self.settle()
        if any(hand.holds is None for hand in self.hands):
            assert self.owed <= set(self.held()), f"{self.owed} wait beside a free hand"
        assert self.queue.depth == len(self.owed - set(self.held()))

    @invariant()
    def no_key_is_in_two_hands(self) -> None:
        assert len(self.held()) == len(set(self.held()))

    @invariant()
    def one_due_time_for_each_key(self) -> None:
        assert len(self.queue._timers) >= len(self.due)

    def teardown(self) -> None:
        """Every wanted key comes out in the end, and closing leaves no hand behind."""
        try:
            self.another_hand()
            self.time_passes(10.0)
            for _ in "abcabc":
                for hand in self.hands:
                    hand.let_go.set()
                self.settle()
            assert self.owed == set(), f"{self.owed} were lost"
            self.turn(self.queue.shut_down)
            self.settle()
            assert self.hands == [], "a hand still waits on a closed queue"
        finally:
            self.loop.close()


TestQueue = QueueMachine.TestCase
TestQueue.settings = every_day(60, steps=40)
