"""What passes have begun and the server has not answered by the time they ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.daemonset.answers import Answer
from controller.daemonset.execute import CarryingOut
from controller.planner.actions import Action
from controller.runtime.workers import PassControl


class Unanswered:
    """Of every DaemonSet, by uid."""

    def __init__(self) -> None:
        self._works: dict[str, list[CarryingOut]] = {}
        self._crashes: dict[str, Exception] = {}

    def actions(self, uid: str) -> list[Action]:
        """Begun by earlier passes, and not answered yet."""
        return [action for work in self._works.get(uid, ()) for action in work.underway.values()]

    def leave(
        self,
        uid: str,
        work: CarryingOut,
        task: asyncio.Task[Exception | None],
        turn: PassControl,
        learn: Callable[[Answer], None],
    ) -> None:
        """The pass ends, and `task` goes on with `work` as far as it has begun; `learn` is told what it finds out."""
        self._works.setdefault(uid, []).append(work)

        def answered(answer: Answer) -> None:
            learn(answer)
            turn.wake("answered at last")

        def ended(crash: Exception | None) -> None:
            self._works[uid].remove(work)
            if not self._works[uid]:
                del self._works[uid]
            if crash is not None:
                self._crashes[uid] = crash
                turn.wake("a mistake of ours")

        work.leave(answered)
        turn.leave(task, ended)

    def crash(self, uid: str) -> Exception | None:
        """What such work ended with, if that was a mistake of ours; told once."""
        return self._crashes.pop(uid, None)
