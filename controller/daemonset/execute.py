"""Carries out the actions of a plan: slow start for creates, everything else side by side, one answer per action.

A failure on one pod never keeps the others from being tried, except that a bad batch of creates stops the batches
after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import assert_never

from controller.daemonset import write_events
from controller.daemonset.answers import Answer, ExecutionContext
from controller.daemonset.dependencies import Dependencies
from controller.daemonset.live_checks import (
    confirm,
    is_still_there,
    is_taken,
    is_updated,
    look_at_deleted_pod,
    look_at_prepared_pod,
    may_have_come_through,
)
from controller.daemonset.requests import Requests
from controller.kube.errors import ApiError
from controller.kube.meaning import ForWrite, meaning_of
from controller.kube.throttle import CEILING
from controller.planner.actions import (
    Action,
    AdoptPod,
    AdoptRevision,
    CreatePod,
    DeletePod,
    DrainPod,
    InDoubt,
    OnPod,
    OnRevision,
    PrepareDelete,
    ProbeTemplate,
    ResizePod,
    UpdateInPlace,
)
from controller.planner.place import Place
from controller.planner.step import Note


class PlanExecution:
    """Carries out the actions of one plan. `run` it once; `answers` and `underway` can be read meanwhile."""

    def __init__(self, actions: Sequence[Action], context: ExecutionContext, dependencies: Dependencies) -> None:
        self._actions, self._context, self._dependencies = actions, context, dependencies
        self._daemonset, self._requests = context.daemonset, Requests(context, dependencies)
        self.answers: list[Answer] = []
        """The answers so far, in the order in which they came."""
        self.underway: dict[Place, Action] = {}
        """Actions that were begun and not answered yet, by place."""
        self._late: Callable[[Answer], None] | None = None
        self._look: asyncio.Task[ApiError | None] | None = None
        """The read of the DaemonSet before the first adoption. Its result is the error that forbids adoptions; None:
        they are allowed."""

    def leave(self, tell: Callable[[Answer], None]) -> None:
        """Called when the pass stops waiting. No further action is begun, because the plan is getting old; `tell`
        receives the answers to the actions that are under way."""
        self._late = tell

    @property
    def _is_over(self) -> bool:
        """Whether the DaemonSet was found to be deleted, or to be another one of the same name."""
        look = self._look
        return look is not None and look.done() and _forbids_for_ever(look.result())

    @property
    def _begins_more(self) -> bool:
        return self._late is None and not self._is_over

    async def run(self) -> None:
        """Try every action, unless the pass leaves before. One read of the DaemonSet is enough for all adoptions.

        At most `CEILING` actions are tried at once, as many as may wait at the server: the memory that passes need is
        bounded, however many pods they want.
        """
        adopts = any(isinstance(action, AdoptPod | AdoptRevision) for action in self._actions)
        async with asyncio.TaskGroup() if adopts else nullcontext() as group:
            if group is not None:
                self._look = group.create_task(self._confirmed())
            for batch in self._batches():
                waiting = iter(batch)
                if len(batch) == 1:
                    await self._carry_out(waiting)
                    continue
                async with asyncio.TaskGroup() as side_by_side:
                    for _ in range(min(len(batch), CEILING)):
                        side_by_side.create_task(self._carry_out(waiting))

    def _batches(self) -> Iterator[Sequence[Action]]:
        """Batches, one after the other, each of actions that are tried side by side: everything but creates, then 1,
        2, 4 … creates until a batch has an error. Then the creates on nodes where one failed before: they are few,
        and say nothing about the others.

        If the server has accepted pods of the revision before, all creates are one batch: the doubling is there to
        find out cheaply that a template is refused.
        """
        known = self._context
        yield [action for action in self._actions if not isinstance(action, CreatePod)]
        creates = [action for action in self._actions if isinstance(action, CreatePod)]
        again = [action for action in creates if action.place in known.failing]
        first = [action for action in creates if action not in again] if again else creates
        size = len(first) if first and first[0].revision.hash == known.proven else 1
        done = 0
        while done < len(first) and self._begins_more:
            came = len(self.answers)
            yield first[done : done + size]
            done, size = done + size, size * 2
            if any(answer.left is not None for answer in self.answers[came:]):
                break
        yield again

    async def _carry_out(self, waiting: Iterator[Action]) -> None:
        """Carry out the actions that are waiting, one after the other."""
        for action in waiting:
            if not self._begins_more:
                return
            place = action.place
            self.underway[place] = action
            try:
                if isinstance(action, AdoptPod | AdoptRevision):
                    await self._may_adopt()
                await self._requests.send(action)
            except ApiError as error:
                answer = await self._after_error(action, error)
            else:
                answer = self._after_success(action)
            finally:
                del self.underway[place]
            self.answers.append(answer)
            if self._late is not None:
                self._late(answer)
            elif answer.error is None and isinstance(action, UpdateInPlace) and action.change.resources:
                # right after the new image, so that one restart of the container covers both
                await self._carry_out(iter((ResizePod(pod=action.pod, node=action.node),)))

    async def _after_error(self, action: Action, error: ApiError) -> Answer:
        self._dependencies.did(self._daemonset, action, error)
        counts = await self._counts(action, error)
        taken, exists = False, meaning_of(error).write is ForWrite.EXISTS
        try:
            taken = exists and await is_taken(action, self._context, self._dependencies)
            left = await self._left_to_do(action, error)
        except ApiError as second:  # the look at the server failed too
            left = second
        return Answer(action=action, error=error, left=left, counts=counts, taken=taken)

    def _after_success(self, action: Action) -> Answer:
        undone = self._context.reverted(action)
        self._dependencies.did(self._daemonset, action, undone)
        if undone is not None:
            counts = self._context.is_suspect(action.place)
            return Answer(action=action, error=undone, left=undone, counts=counts)
        self._say(write_events.success(action))
        return Answer(action=action)

    async def _counts(self, action: Action, error: ApiError) -> bool:
        """Whether the error counts as a failure of the place, which is left alone after several of them, so that the
        rest goes on."""
        means = meaning_of(error).write
        if not means.of_the_place and not self._context.is_suspect(action.place):
            return False
        if means is ForWrite.ENDING or (isinstance(action, CreatePod) and means is ForWrite.NO_ROOM):
            return True
        return not (
            isinstance(action, InDoubt) and await may_have_come_through(action, self._daemonset, self._dependencies)
        )

    async def _may_adopt(self) -> None:
        """Raises the error that forbids adoptions: the DaemonSet is gone, or could not be read."""
        if self._look is not None and (error := await self._look) is not None:
            raise error

    async def _confirmed(self) -> ApiError | None:
        try:
            await confirm(self._dependencies.client, self._daemonset)
        except ApiError as error:
            return error
        return None

    async def _left_to_do(self, action: Action, error: ApiError) -> ApiError | None:
        """The error because of which the action has to be tried again; None: nothing is left to do."""
        means = meaning_of(error).write
        if self._is_over:
            return error
        if means is ForWrite.ABSENT and isinstance(action, OnPod | OnRevision):
            # if it is not there, somebody was quicker
            return error if await is_still_there(action, self._dependencies) else None
        if isinstance(action, ProbeTemplate) and (means.refused or means is ForWrite.EXISTS):
            return None  # the refusal is the result of the dry run
        if means is ForWrite.ENDING:
            return None
        if isinstance(action, InDoubt):
            if means is ForWrite.UNKNOWN:
                await self._look_whether_done(action)
            elif not means.settles_itself:
                self._say(write_events.failure(action, error.message))
        return error  # derived names and guards make every write safe to try again

    async def _look_whether_done(self, action: InDoubt) -> None:
        """The answer was lost: ask the server what became of the write."""
        match action:
            case DeletePod():
                await look_at_deleted_pod(action, self._daemonset, self._dependencies)
            case PrepareDelete():
                await look_at_prepared_pod(action, self._daemonset, self._dependencies)
            case UpdateInPlace():
                if await is_updated(action, self._dependencies):
                    self._say(write_events.success(action))
            case CreatePod() | DrainPod():
                pass  # tried again under the same name, or on the same pod
            case _:
                assert_never(action)

    def _say(self, note: Note | None) -> None:
        if note is not None:
            self._dependencies.say(self._daemonset, note)


def _forbids_for_ever(error: ApiError | None) -> bool:
    return error is not None and meaning_of(error).write in (ForWrite.ABSENT, ForWrite.OVERTAKEN)
