"""Carries out the actions of a plan: slow start for creates, everything else side by side, one verdict per action.

A failure on one pod never keeps the others from being tried, except that a bad batch of creates stops the batches
after it (D11, behaviour.md §7.3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, assert_never

from controller.api.daemonset import DaemonSet
from controller.api.wellknown import FAILED_CREATE, FAILED_DELETE, SUCCESSFUL_CREATE, SUCCESSFUL_DELETE
from controller.daemonset.claims import (
    confirm,
    is_still_there,
    look_at_deleted_pod,
    look_at_taken_pod,
    look_at_taken_revision,
    may_have_come_through,
)
from controller.daemonset.hands import Hands
from controller.daemonset.memory import ROOM_AT_MOST, Memory
from controller.daemonset.trouble import Failure
from controller.daemonset.writes import Writes
from controller.kube.client import Written
from controller.kube.errors import (
    AlreadyExists,
    ApiError,
    Busy,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Unknown,
    Unreachable,
)
from controller.kube.kinds import PODS, REVISIONS
from controller.kube.resource import Resource
from controller.kube.throttle import CEILING
from controller.planner.actions import (
    ROOM,
    Action,
    AdoptPod,
    AdoptRevision,
    CreatePod,
    CreateRevision,
    DeletePod,
    DeleteRevision,
    Note,
    ProbeTemplate,
    RelabelPod,
    ReleasePod,
    RenumberRevision,
    Why,
    place_of,
)
from controller.runtime.clock import elapsed

EXCEEDED_QUOTA = "exceeded quota"
"""In the message of the ResourceQuota admission; it has no reason of its own."""
ENDING_SECONDS = 30.0
"""For which a node is left alone when the namespace is on its way out: the DaemonSet goes with it."""


async def carry_out(
    actions: Sequence[Action], daemonset: DaemonSet, memory: Memory, hands: Hands
) -> tuple[Failure, ...]:
    """Try every action; returns what went wrong and has to be tried again, in the order of the actions."""
    if not actions:
        return ()
    turn = _Turn(daemonset, memory, hands)
    adoptions = [action for action in actions if isinstance(action, AdoptPod | AdoptRevision)]
    if adoptions:
        try:
            await confirm(hands.client, daemonset)
        except ApiError as error:
            return (Failure(action=adoptions[0], error=error),)
    creates = [action for action in actions if isinstance(action, CreatePod)]
    others = [action for action in actions if not isinstance(action, CreatePod)]
    failures = await turn.side_by_side(others)
    return (*failures, *await turn.create_slowly(creates))


def is_refusal(error: ApiError) -> bool:
    """Whether the server refuses the template that was probed. A quota does not: the pod that goes makes room."""
    return isinstance(error, Invalid | Forbidden) and EXCEEDED_QUOTA not in error.message


class _Turn:
    """One pass over one DaemonSet."""

    def __init__(self, daemonset: DaemonSet, memory: Memory, hands: Hands) -> None:
        self._daemonset, self._memory, self._hands = daemonset, memory, hands
        self._ledger = hands.ledger
        self._writes = Writes(hands.client, daemonset, memory)
        self._noted: set[str] = set()
        """Places that have failed in this pass: once is enough, however many creates a full quota has refused."""

    async def side_by_side(self, actions: Sequence[Action]) -> list[Failure]:
        """Try them all, so many at once as there are places at the server: what all passes together wait with is
        bounded, however many pods they want."""
        failures: list[Failure | None] = [None] * len(actions)
        left = iter(enumerate(actions))

        async def one_after_the_other() -> None:
            for number, action in left:
                failures[number] = await self.carry_out(action)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(len(actions), CEILING)):
                group.create_task(one_after_the_other())
        return [failure for failure in failures if failure is not None]

    async def create_slowly(self, creates: Sequence[CreatePod]) -> list[Failure]:
        """Batches of 1, 2, 4 … pods; a batch with an error is the last one of this pass. Then those that failed
        before, which are few: they say nothing about the others.

        Once some of this revision were accepted, later passes start with everything, until a quota is full or a pass
        has all refused that it tries: the doubling is there to find out cheaply that a template is.
        """
        again = [action for action in creates if place_of(action) in self._memory.failing]
        first = [action for action in creates if action not in again] if again else creates
        done, size = 0, 1
        revision_hash = creates[0].revision.hash if creates else ""
        if creates and self._memory.proven == revision_hash:
            size = len(creates)
        failures: list[Failure] = []
        while done < len(first) and not failures:
            batch = first[done : done + size]
            failures = await self.side_by_side(batch)
            done, size = done + len(batch), size * 2
        if first and (done == len(failures) or ROOM in self._noted):
            self._memory.proven = ""
        elif done > 1:
            self._memory.proven = revision_hash
        return [*failures, *await self.side_by_side(again)]

    async def carry_out(self, action: Action) -> Failure | None:
        """Try one action. None: done, or there is nothing left to do."""
        place = place_of(action)
        try:
            await self._attempt(action)
        except ApiError as error:
            self._hands.did(self._daemonset, action, error)
            await self._note(place, action, error)
            try:
                left = await self._verdict(action, error)
            except ApiError as second:  # the look at the server failed too
                left = second
            if left is None:
                return None
            return Failure(action=action, error=left, repeated=place in self._memory.failing)
        self._hands.did(self._daemonset, action, None)
        self._memory.went_well(place)
        if isinstance(action, CreatePod):
            self._memory.went_well(ROOM)
        return None

    async def _note(self, place: str, action: Action, error: ApiError) -> None:
        """What fails again and again in one place is left alone there, so that the rest goes on (D11).

        A server that is away is no matter of the place, and a full quota is one of all pods that are to be created.
        """
        passing = isinstance(error, Conflict | AlreadyExists | NotFound | Unknown | Unreachable | Busy)
        if passing and not self._memory.doubted(place):
            return
        if isinstance(action, CreatePod) and EXCEEDED_QUOTA in error.message:
            place = ROOM
        if place in self._noted:
            return
        self._noted.add(place)
        if place == ROOM:
            self._memory.failed(place, elapsed(), ROOM_AT_MOST)
        elif error.is_terminating_namespace:
            self._memory.leave_alone(place, ENDING_SECONDS, elapsed())
        elif not await may_have_come_through(action, self._daemonset, self._hands):
            self._memory.failed(place, elapsed())

    async def _attempt(self, action: Action) -> None:
        writes = self._writes
        match action:
            case CreatePod():
                written = await writes.create_pod(action)
                self._wrote(PODS, written)
                self._tell(SUCCESSFUL_CREATE, f"Created pod: {action.name}")
            case DeletePod():
                await self._delete_pod(action)
            case ProbeTemplate():
                await writes.probe(action)
                self._memory.accepted(action.revision.hash)
            case AdoptPod():
                written = await writes.adopt(PODS, action.pod, action.owners)
                self._wrote(PODS, written)
            case ReleasePod():
                written = await writes.release(action.pod, action.owner_index)
                self._wrote(PODS, written)
            case RelabelPod():
                written = await writes.relabel(action.pod, action.hash)
                self._wrote(PODS, written)
            case AdoptRevision():
                written = await writes.adopt(REVISIONS, action.revision, action.owners)
                self._wrote(REVISIONS, written)
            case CreateRevision():
                written = await writes.create_revision(action)
                self._wrote(REVISIONS, written)
            case RenumberRevision():
                written = await writes.renumber(action.revision, action.number)
                self._wrote(REVISIONS, written)
            case DeleteRevision():
                await writes.delete_revision(action.revision)
            case _:
                assert_never(action)

    def _wrote(self, resource: Resource[Any, Any], written: Written) -> None:
        self._ledger.wrote(self._daemonset.uid, resource.name, written.version, elapsed())

    async def _delete_pod(self, action: DeletePod) -> None:
        version = await self._writes.delete_pod(action)
        self._ledger.deleted(self._daemonset.uid, action.pod.uid, elapsed(), version)
        if action.why is Why.FAILED:
            daemonset = self._daemonset
            key = (daemonset.uid, daemonset.generation, action.node)
            self._hands.failed_pods.strike(key, elapsed())
        self._tell(SUCCESSFUL_DELETE, f"Deleted pod: {action.pod.name}")

    async def _verdict(self, action: Action, error: ApiError) -> ApiError | None:
        """What an error means for this action (architecture.md §10)."""
        match action, error:
            case (_, NotFound()) if not isinstance(action, CreatePod | CreateRevision | ProbeTemplate):
                return error if await is_still_there(action, self._hands) else None  # else somebody was quicker
            case ProbeTemplate(), AlreadyExists():
                self._memory.accepted(action.revision.hash)  # the name is the last thing that a server looks at
                return None
            case ProbeTemplate(), Invalid() | Forbidden():
                if is_refusal(error):
                    of_node = isinstance(error, Forbidden)
                    self._memory.refused(action.revision.hash, error.message, elapsed(), perhaps_of_node=of_node)
                else:
                    self._memory.accepted(action.revision.hash)
                return None
            case (_, _) if error.is_terminating_namespace:
                return None
            case CreatePod(), AlreadyExists():
                await look_at_taken_pod(action, self._daemonset, self._memory, self._hands)
                return error
            case CreateRevision(), AlreadyExists():
                await look_at_taken_revision(action, self._daemonset, self._memory, self._hands)
                return error
            case DeletePod(), Unknown():
                await look_at_deleted_pod(action, self._daemonset, self._hands)
                return error
            case _, Conflict() | Unknown():
                return error  # derived names and guards make every write safe to try again
            case CreatePod(), _:
                self._warn(FAILED_CREATE, f"Error creating: {error.message}")
            case DeletePod(), _:
                self._warn(FAILED_DELETE, f"Error deleting: {error.message}")
        return error

    def _tell(self, reason: str, message: str) -> None:
        self._hands.say(self._daemonset, Note(warning=False, reason=reason, message=message))

    def _warn(self, reason: str, message: str) -> None:
        self._hands.say(self._daemonset, Note(warning=True, reason=reason, message=message))
