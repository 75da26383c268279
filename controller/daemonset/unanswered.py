"""Keeps the actions that the server had not answered when their pass ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.daemonset.answers import Answer
from controller.daemonset.execute import PlanExecution
from controller.planner.actions import Action, AdoptPod, InDoubt
from controller.planner.place import Place
from controller.runtime.workers import PassControl


class Unanswered:
    """The actions of one DaemonSet that outlast their pass."""

    def __init__(self) -> None:
        self._works: list[PlanExecution] = []
        self._crash: Exception | None = None

    @property
    def actions(self) -> list[Action]:
        """The actions that earlier passes began and that are not answered yet."""
        return [action for work in self._works for action in work.underway.values()]

    @property
    def places(self) -> frozenset[Place]:
        """The places of these actions."""
        return frozenset(action.place for action in self.actions)

    @property
    def adopted(self) -> frozenset[str]:
        """The uids of the pods that they adopt."""
        return frozenset(action.pod.uid for action in self.actions if isinstance(action, AdoptPod))

    @property
    def in_doubt(self) -> list[InDoubt]:
        """The actions that count as done because they may have been."""
        return [action for action in self.actions if isinstance(action, InDoubt)]

    def leave(
        self,
        work: PlanExecution,
        task: asyncio.Task[Exception | None],
        control: PassControl,
        learn: Callable[[Answer], None],
    ) -> None:
        """End the pass, while `task` goes on with what `work` has begun; `learn` gets each later answer."""
        self._works.append(work)

        def answered(answer: Answer) -> None:
            learn(answer)
            control.wake("answered at last")

        def ended(crash: Exception | None) -> None:
            self._works.remove(work)
            if crash is not None:
                self._crash = crash
                control.wake("a bug in the controller")

        work.leave(answered)
        control.leave(task, ended)

    def raise_crash(self) -> None:
        """Raise the exception with which such work ended, if any, once: it is a bug of ours."""
        crash, self._crash = self._crash, None
        if crash is not None:
            raise crash
