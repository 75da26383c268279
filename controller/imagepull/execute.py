"""Carries out the writes of a pass, each with its guard, and notes what the answers teach."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, assert_never

from controller.api import patch
from controller.api.base import JSONObject, as_json
from controller.api.image_pull_job import ImagePullJob, ImagePullJobStatus
from controller.api.meta import Key, Ref
from controller.api.wellknown import FAILED_CREATE
from controller.imagepull import puller_manifest
from controller.imagepull.state import STATUS, JobState
from controller.imagepull.world import DeleteJob, EndPuller, JobAction, StartPuller
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.kube.kinds import IMAGE_PULL_JOBS, PULLERS
from controller.kube.meaning import ForWrite, meaning_of
from controller.planner.step import Note
from controller.runtime.clock import elapsed
from controller.runtime.freshness import Ledger
from controller.runtime.pass_outcome import patiently
from controller.runtime.workers import PassControl, Work

_GONE: Final = (ForWrite.ABSENT, ForWrite.OVERTAKEN)
"""The answers to a write guarded only by the uid which mean that the object is gone or was replaced."""


class JobExecution:
    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        key: Key,
        state: JobState,
        control: PassControl,
        say: Callable[[ImagePullJob, Note], None],
        did: Callable[[Key, str], None],
    ) -> None:
        self._client, self._ledger, self._key, self._state = client, ledger, key, state
        self._control, self._say, self._did = control, say, did

    async def carry_out(self, actions: Sequence[JobAction], job: ImagePullJob | None = None) -> None:
        """Carry out each action on its own. A late answer wakes the key. `job` is needed for StartPuller."""
        await patiently(self._control, [self._begin(action, job) for action in actions], self._late)

    async def write_status(
        self, job: ImagePullJob, before: ImagePullJobStatus | None, wanted: ImagePullJobStatus
    ) -> None:
        async def write() -> None:
            operations = patch.guarded_by_uid(job.uid, *_changes(before, wanted))
            written = await self._client.apart().patch(IMAGE_PULL_JOBS, job.ref, operations, sub="status")
            self._state.wrote = (written.version, wanted)
            self._state.pacer.wrote(elapsed())

        await patiently(self._control, [self._at_place(STATUS, "status_written", write, over=_GONE)], self._late)

    def _late(self, crash: Exception | None) -> None:
        self._state.crash = self._state.crash or crash
        self._control.wake("answered at last")

    def _begin(self, action: JobAction, job: ImagePullJob | None) -> Work:
        what = type(action).__name__
        match action:
            case StartPuller(node=node):
                assert job is not None
                failed = partial(self._not_started, job)
                return self._at_place(node, what, partial(self._start, job, node), failed=failed)
            case EndPuller(pod=ref):
                self._state.ended.add(ref.uid)
                return self._at_place(ref.uid, what, partial(self._end, ref), over=_GONE)
            case DeleteJob(job=ref):  # as it was when it was decided: not one that was edited since
                write = partial(
                    self._client.delete, IMAGE_PULL_JOBS, ref, version=ref.version, propagation="Background"
                )
                return self._at_place(ref.uid, what, write, over=(ForWrite.ABSENT,))
            case _:
                assert_never(action)

    def _at_place(
        self,
        place: str,
        what: str,
        write: Work,
        *,
        over: Collection[ForWrite] = (),
        failed: Callable[[ApiError, bool], None] = lambda error, counts: None,
    ) -> Work:
        """The write at one place. `over` are errors after which nothing is left to do. `failed` is called after any
        other error, with whether it counts as a failure of the place."""
        state = self._state
        state.awaited.add(place)

        async def work() -> None:
            try:
                await write()
            except ApiError as error:
                means = meaning_of(error).write
                if means in over:
                    state.places.went_well(place)
                else:
                    state.errors.append(error)
                    self._did(self._key, f"{what}_failed")
                    failed(error, state.places.learn_failure(place, means, elapsed()))
            else:
                self._did(self._key, what)
                state.places.went_well(place)
            finally:
                state.awaited.discard(place)

        return work

    async def _start(self, job: ImagePullJob, node: str) -> None:
        name = puller_manifest.pod_name(job, node)
        written = await self._client.create(PULLERS, job.namespace, puller_manifest.body(job, node), name=name)
        self._state.accepted()
        self._state.here[written.uid] = node
        self._ledger.wrote(str(self._key), PULLERS.name, written.version, elapsed())

    def _not_started(self, job: ImagePullJob, error: ApiError, counts: bool) -> None:
        """Decide how long no puller is created anywhere. A server that is away or busy refuses none. A name that is
        taken is that of our own puller, which the cache does not show yet, unless it stays taken."""
        means = meaning_of(error).write
        if counts and not means.undecided:
            if means is not ForWrite.ENDING:
                self._state.refused(str(error), elapsed())
                self._say(job, Note(warning=True, reason=FAILED_CREATE, message=f"Error creating: {error.message}"))
        elif means is not ForWrite.EXISTS:
            self._state.unanswered(elapsed())

    async def _end(self, ref: Ref) -> None:
        deleted = await self._client.delete(PULLERS, ref)
        self._ledger.deleted(str(self._key), ref.uid, elapsed(), deleted.version)


def _changes(before: ImagePullJobStatus | None, wanted: ImagePullJobStatus) -> list[JSONObject]:
    """The operations that change the status. Only we write it, so the uid is enough as a guard."""
    after = _fields(wanted)
    if before is None:
        return [patch.add(after, "status")]
    old = _fields(before)
    gone = [patch.remove("status", name) for name in old if name not in after]
    return [patch.add(value, "status", name) for name, value in after.items() if old.get(name) != value] + gone


def _fields(status: ImagePullJobStatus) -> JSONObject:
    return {name: value for name, value in as_json(status).items() if value is not None}
