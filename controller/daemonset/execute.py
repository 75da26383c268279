"""Carries out the actions of a plan: slow start for creates, everything else side by side, one answer per action.

A failure on one pod never keeps the others from being tried, except that a bad batch of creates stops the batches
after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import assert_never

from controller.api import revision
from controller.daemonset import write_events
from controller.daemonset.answers import Answer, Briefing
from controller.daemonset.dependencies import Dependencies
from controller.daemonset.in_place import InPlaceWrites
from controller.daemonset.live_checks import (
    confirm,
    is_still_there,
    is_taken,
    is_updated,
    look_at_deleted_pod,
    look_at_prepared_pod,
    may_have_come_through,
)
from controller.daemonset.writes import metadata_patch, revision_body
from controller.kube.client import Written
from controller.kube.errors import ApiError, Conflict, NotFound
from controller.kube.kinds import PODS, REVISIONS
from controller.kube.meaning import ForWrite, meaning_of
from controller.kube.throttle import CEILING
from controller.planner.actions import (
    Action,
    AdoptPod,
    AdoptRevision,
    CancelDelete,
    ContinueInPlace,
    CreatePod,
    CreateRevision,
    DeletePod,
    DeleteReason,
    DeleteRevision,
    DrainPod,
    InDoubt,
    OnPod,
    OnRevision,
    OpenGates,
    PrepareDelete,
    ProbeTemplate,
    RelabelPod,
    ReleasePod,
    RenumberRevision,
    ResizePod,
    UpdateInPlace,
)
from controller.planner.place import Place
from controller.planner.step import Note
from controller.runtime.clock import elapsed


class CarryingOut:
    """Carries out the actions of one plan. `run` it once; `answers` and `underway` can be read meanwhile."""

    def __init__(self, actions: Sequence[Action], briefing: Briefing, dependencies: Dependencies) -> None:
        self._actions, self._briefing, self._dependencies = actions, briefing, dependencies
        self._daemonset, self._ledger = briefing.daemonset, dependencies.ledger
        self._in_place = InPlaceWrites(dependencies.client, dependencies.clock, partial(self._wrote, PODS.name))
        self.answers: list[Answer] = []
        """In the order in which they came."""
        self.underway: dict[Place, Action] = {}
        """Begun and not answered, by place."""
        self._late: Callable[[Answer], None] | None = None
        self._look: asyncio.Task[ApiError | None] | None = None
        """The read of the DaemonSet that precedes adoptions; its result is why none may be made, None where they
        may."""

    def leave(self, tell: Callable[[Answer], None]) -> None:
        """The pass waits no longer. No further action is begun, for the plan gets old; `tell` gets the answers to
        those that were begun."""
        self._late = tell

    @property
    def _is_over(self) -> bool:
        """Whether the DaemonSet was found to be deleted, or to be another one of the same name."""
        look = self._look
        return look is not None and look.done() and isinstance(look.result(), Conflict | NotFound)

    @property
    def _begins_more(self) -> bool:
        return self._late is None and not self._is_over

    async def run(self) -> None:
        """Try every action, as far as it comes. One look at the DaemonSet is enough for all adoptions.

        So many at once as there are places at the server: what all passes together wait with is bounded, however
        many pods they want.
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
        """What is tried side by side, one batch after the other: everything but creates, then 1, 2, 4 … of these; a
        batch of creates with an error is the last one of this pass. Then those that failed before, which are few:
        they say nothing about the others.

        Of a revision of which some were accepted, all at once: the doubling is there to find out cheaply that a
        template is refused.
        """
        known = self._briefing
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
        """One after the other."""
        for action in waiting:
            if not self._begins_more:
                return
            place = action.place
            self.underway[place] = action
            try:
                await self._attempt(action)
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
                # at once, so that a container restarts once for both
                await self._carry_out(iter((ResizePod(pod=action.pod, node=action.node),)))

    async def _after_error(self, action: Action, error: ApiError) -> Answer:
        self._dependencies.did(self._daemonset, action, error)
        counts = await self._counts(action, error)
        taken, exists = False, meaning_of(error).write is ForWrite.EXISTS
        try:
            taken = exists and await is_taken(action, self._briefing, self._dependencies)
            left = await self._left_to_do(action, error)
        except ApiError as second:  # the look at the server failed too
            left = second
        return Answer(action=action, error=error, left=left, counts=counts, taken=taken)

    def _after_success(self, action: Action) -> Answer:
        undone = self._briefing.undone(action)
        self._dependencies.did(self._daemonset, action, undone)
        if undone is not None:
            counts = self._briefing.is_suspect(action.place)
            return Answer(action=action, error=undone, left=undone, counts=counts)
        self._say(write_events.success(action))
        return Answer(action=action)

    async def _counts(self, action: Action, error: ApiError) -> bool:
        """What fails again and again in one place is left alone there, so that the rest goes on."""
        if not meaning_of(error).write.of_the_place and not self._briefing.is_suspect(action.place):
            return False
        if error.is_terminating_namespace or (isinstance(action, CreatePod) and error.is_full_quota):
            return True
        return not (
            isinstance(action, InDoubt) and await may_have_come_through(action, self._daemonset, self._dependencies)
        )

    async def _attempt(self, action: Action) -> None:
        client, daemonset = self._dependencies.client, self._daemonset
        adopts = isinstance(action, AdoptPod | AdoptRevision)
        if adopts and self._look is not None and (error := await self._look) is not None:
            raise error  # the DaemonSet is not there, or could not be looked at
        match action:
            case CreatePod() | ProbeTemplate():
                body = self._briefing.compiled.renderer(daemonset, action.revision).body(action.name, action.node)
                probes = isinstance(action, ProbeTemplate)  # the server checks everything and stores nothing
                written = await client.create(PODS, daemonset.namespace, body, name=action.name, dry_run=probes)
                if not probes:
                    self._wrote(PODS.name, written)
            case DeletePod():
                if action.why is DeleteReason.FAILED:
                    key = (daemonset.uid, daemonset.generation, action.node)
                    # however it ends: it may be done and not answered
                    self._dependencies.failed_pods.strike(key, elapsed())
                seen = action.pod.version if action.as_seen else ""
                deleted = await client.delete(PODS, action.pod, version=seen)
                self._ledger.deleted(daemonset.uid, action.pod.uid, elapsed(), deleted.version)
            case CreateRevision():
                document = revision.encode(revision_body(daemonset, action))
                written = await client.create(REVISIONS, daemonset.namespace, document, name=action.name)
                self._wrote(REVISIONS.name, written)
            case DeleteRevision():
                await client.delete(REVISIONS, action.revision)
            case AdoptPod() | ReleasePod() | RelabelPod():
                self._wrote(PODS.name, await client.patch(PODS, action.pod, metadata_patch(action, daemonset)))
            case AdoptRevision() | RenumberRevision():
                written = await client.patch(REVISIONS, action.revision, metadata_patch(action, daemonset))
                self._wrote(REVISIONS.name, written)
            case (
                PrepareDelete()
                | CancelDelete()
                | DrainPod()
                | UpdateInPlace()
                | ContinueInPlace()
                | ResizePod()
                | OpenGates()
            ):
                await self._in_place.carry_out(action)
            case _:
                assert_never(action)

    def _wrote(self, resource: str, written: Written) -> None:
        self._ledger.wrote(self._daemonset.uid, resource, written.version, elapsed())

    async def _confirmed(self) -> ApiError | None:
        try:
            await confirm(self._dependencies.client, self._daemonset)
        except ApiError as error:
            return error
        return None

    async def _left_to_do(self, action: Action, error: ApiError) -> ApiError | None:
        """What an error means for this action."""
        means = meaning_of(error).write
        if self._is_over:
            return error
        if means is ForWrite.ABSENT and isinstance(action, OnPod | OnRevision):
            # None: somebody was quicker.
            return error if await is_still_there(action, self._dependencies) else None
        if means in (ForWrite.EXISTS, ForWrite.REFUSED) and isinstance(action, ProbeTemplate):
            return None  # that is what was asked
        if error.is_terminating_namespace:
            return None
        if isinstance(action, InDoubt):
            if means is ForWrite.UNKNOWN:
                await self._look_whether_done(action)
            elif not means.settles_itself:
                self._say(write_events.failure(action, error.message))
        return error  # derived names and guards make every write safe to try again

    async def _look_whether_done(self, action: InDoubt) -> None:
        """The answer was lost."""
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
