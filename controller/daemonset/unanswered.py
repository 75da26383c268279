"""What passes have begun and the server has not answered by the time they ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.daemonset.answers import Answer
from controller.daemonset.execute import CarryingOut
from controller.planner.actions import Action
from controller.runtime.workers import PassControl


class Unanswered:
    """Of one DaemonSet."""

    def __init__(self) -> None:
        self._works: list[CarryingOut] = []
        self._crash: Exception | None = None

    @property
    def actions(self) -> list[Action]:
        """Begun by earlier passes, and not answered yet."""
        return [action for work in self._works for action in work.underway.values()]

    def leave(
        self,
        work: CarryingOut,
        task: asyncio.Task[Exception | None],
        turn: PassControl,
        learn: Callable[[Answer], None],
    ) -> None:
        """The pass ends, and `task` goes on with `work` as far as it has begun; `learn` is told what it finds out."""
        self._works.append(work)

        def answered(answer: Answer) -> None:
            learn(answer)
            turn.wake("answered at last")

        def ended(crash: Exception | None) -> None:
            self._works.remove(work)
            if crash is not None:
                self._crash = crash
                turn.wake("a mistake of ours")

        work.leave(answered)
        turn.leave(task, ended)

    def raise_crash(self) -> None:
        """What such work ended with, if that was a mistake of ours; once."""
        crash, self._crash = self._crash, None
        if crash is not None:
            raise crash
