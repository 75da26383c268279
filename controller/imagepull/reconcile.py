"""Carries out the writes of a pass, each with its guard, and notes what the answers teach.

One pass over one job: check that the caches are fresh, plan, carry out, write the status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from math import inf
from typing import Final, Literal, TypeAlias, assert_never

from controller.api import patch
from controller.api.image_pull_job import ImagePullJob, ImagePullJobStatus, Puller, keeps_images, targets
from controller.api.names import FAILED_CREATE
from controller.api.objects import JSONObject, Key, Ref, as_json
from controller.api.selector import LabelSelector
from controller.imagepull import puller
from controller.imagepull.jobs import (
    PULLED,
    DeleteJob,
    EndPuller,
    JobAction,
    JobCached,
    JobCaches,
    JobPlan,
    JobWorld,
    StartPuller,
    nodes_of_pods,
)
from controller.imagepull.plan import plan
from controller.imagepull.state import STATUS, JobState, begin, lacking
from controller.kube.client import Client
from controller.kube.errors import ApiError, WriteVerdict, classify
from controller.kube.requests import IMAGE_PULL_JOBS, PULLERS
from controller.kube.sender import CEILING
from controller.observe.instrumentation import Instrumentation
from controller.planner.actions import Note
from controller.planner.world import Unpulled
from controller.runtime.clock import Clock, elapsed
from controller.runtime.expectations import OF_PODS, Expectations
from controller.runtime.pacing import PacedPass, Pacer
from controller.runtime.workers import (
    AT_ONCE,
    LOOK_AGAIN_SECONDS,
    Answers,
    ComeBack,
    Done,
    Outcome,
    Requeue,
    outcome,
)
from controller.runtime.workqueue import WorkItem

Work: TypeAlias = Callable[[], Coroutine[None, None, object]]

_GONE: Final = (WriteVerdict.NOT_FOUND, WriteVerdict.CONFLICT)
"""The answers to a write guarded only by the uid which mean that the object is gone or was replaced."""


class JobExecution:
    def __init__(
        self,
        client: Client,
        expectations: Expectations,
        key: Key,
        state: JobState,
        requeue: Requeue,
        say: Callable[[ImagePullJob, Note], None],
        did: Callable[[str], None],
    ) -> None:
        self._client, self._expectations, self._key, self._state = client, expectations, key, state
        self._requeue, self._say, self._did = requeue, say, did

    async def carry_out(self, actions: Sequence[JobAction], job: ImagePullJob | None = None) -> bool:
        """Carry out each action on its own; returns whether the answers came in time. If not, another pass has begun
        meanwhile. `job` is needed for StartPuller."""
        return await self._answered([self._begin(action, job) for action in actions])

    async def _answered(self, works: Sequence[Work]) -> bool:
        async def one(work: Work) -> None:
            await work()
            answers.came()

        with Answers(self._requeue) as answers:
            async with asyncio.TaskGroup() as group:
                for work in works:
                    group.create_task(one(work))
        return not answers.is_late

    async def write_status(
        self, job: ImagePullJob, before: ImagePullJobStatus | None, wanted: ImagePullJobStatus
    ) -> None:
        async def write() -> None:
            operations = patch.guarded_by_uid(job.uid, *_changes(before, wanted))
            written = await self._client.with_reserved_permit().patch(
                IMAGE_PULL_JOBS, job.ref, operations, sub="status"
            )
            self._state.wrote = (written.version, wanted)
            self._state.pacer.wrote(elapsed())

        await self._answered([self._at_place(STATUS, "status_written", write, over=_GONE)])

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
                return self._at_place(ref.uid, what, write, over=(WriteVerdict.NOT_FOUND,))
            case _:
                assert_never(action)

    def _at_place(
        self,
        place: str,
        what: str,
        write: Work,
        *,
        over: Collection[WriteVerdict] = (),
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
                means = classify(error).write
                if means in over:
                    state.places.went_well(place)
                else:
                    state.errors.append(error)
                    self._did(f"{what}_failed")
                    failed(error, state.places.learn_failure(place, means, elapsed()))
            else:
                self._did(what)
                state.places.went_well(place)
            finally:
                state.awaited.discard(place)

        return work

    async def _start(self, job: ImagePullJob, node: str) -> None:
        name = puller.pod_name(job, node)
        written = await self._client.create(PULLERS, job.namespace, puller.body(job, node), name=name)
        self._state.accepted()
        self._state.here[written.uid] = node
        self._expectations.expect_version(str(self._key), PULLERS.name, written.version, elapsed())

    def _not_started(self, job: ImagePullJob, error: ApiError, counts: bool) -> None:
        """Decide how long no puller is created anywhere. A server that is away or busy refuses none. A name that is
        taken is that of our own puller, which the cache does not show yet, unless it stays taken."""
        means = classify(error).write
        if counts and not means.undecided:
            if means is not WriteVerdict.NAMESPACE_TERMINATING:
                self._state.refused(str(error), elapsed())
                self._say(job, Note(warning=True, reason=FAILED_CREATE, message=f"Error creating: {error.message}"))
        elif means is not WriteVerdict.ALREADY_EXISTS:
            self._state.unanswered(elapsed())

    async def _end(self, ref: Ref) -> None:
        deleted = await self._client.delete(PULLERS, ref)
        self._expectations.expect_deletion(str(self._key), ref.uid, elapsed(), deleted.version)


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


PODS_LISTED_SECONDS = 30.0
"""Seconds after which the pods that a podSelector selects are listed again."""


class JobReconciler:
    def __init__(
        self,
        client: Client,
        caches: JobCaches,
        clock: Clock,
        pacer: Pacer[Key],
        instrumentation: Instrumentation,
        *,
        say: Callable[[ImagePullJob, Note], None],
        attempted: Callable[[Literal["pulled", "failed"]], None],
        on_progress: Callable[[ImagePullJob], None],
        relist: Callable[[], None],
    ) -> None:
        """`attempted` is called when an attempt on a node has ended, `on_progress` when a node has got the image or
        cannot get it. `relist` lists jobs and pullers again."""
        self._client, self._caches, self._clock, self._pacer = client, caches, clock, pacer
        self._instrumentation, self._say, self._attempted = instrumentation, say, attempted
        self._on_progress, self._relist, self._expectations = on_progress, relist, Expectations()
        self._states: dict[Key, JobState] = {}

    async def __call__(self, taken: WorkItem[Key], requeue: Requeue) -> Outcome:
        key = taken.key
        try:
            await self._gather(key)
        except ApiError as error:
            return outcome([error])
        # From here to the plan nothing is awaited: otherwise a late answer to a write of ours could come in between,
        # and a puller that was just created would count as lost.
        job = self._caches.jobs.get(key)
        state = self._state_of(key, job)
        if self._is_stale(key):
            return ComeBack(LOOK_AGAIN_SECONDS, "own writes not seen yet")
        cached = self._caches.snapshot(key, job)
        if job is None:
            return await self._clear_up(key, cached.pullers, state, requeue)
        with PacedPass(self._pacer, key, requeue) as paced:
            decided = self._decide(job, cached, state)
            paced.decided()
            return await self._do(job, state, decided, paced.requeue)

    def lacking(self, job: ImagePullJob, nodes: Collection[str]) -> Mapping[str, Unpulled]:
        """Those of `nodes` that lack the image; see `state.lacking`."""
        return lacking(job, self._states.get(job.key), nodes, self._keeps_images)

    def is_moved(self, job: ImagePullJob) -> bool:
        """Whether nodes have its image under another name, because admission changed its pullers."""
        state = self._states.get(job.key)
        return state is not None and state.uid == job.uid and state.moved

    def _keeps_images(self, name: str) -> bool:
        node = self._caches.nodes.get(Key("", name))
        return node is None or keeps_images(node)

    def server_back(self) -> None:
        for state in self._states.values():
            state.places.server_back()

    def node_gone(self, name: str) -> None:
        for state in self._states.values():
            state.forget_node(name)

    def _state_of(self, key: Key, job: ImagePullJob | None) -> JobState:
        known = self._states.get(key)
        if known is None or (job is not None and known.uid != job.uid):
            known = self._states[key] = begin(job) if job is not None else JobState(uid="")
        return known

    def _is_stale(self, key: Key) -> bool:
        reached = {OF_PODS: self._caches.pullers.progress_in(key.namespace)}
        alive = {puller.uid for puller in self._caches.pullers_of(key) if not puller.dying}
        stale = self._expectations.check(str(key), reached, alive.__contains__, elapsed())
        if stale is None:
            return False
        self._instrumentation.stale(key, stale)
        if stale.overdue:
            self._expectations.forget(str(key))  # names and guards make a pass safe without it
            self._instrumentation.overdue(key, stale)
            self._relist()
        return True

    async def _gather(self, key: Key) -> None:
        """List the pods that a pass needs and no cache has, until the list is recent when it is there. Raises
        ApiError."""
        while True:
            job = self._caches.jobs.get(key)
            state = self._state_of(key, job)
            if job is None or _is_over(job, state):
                return
            state.forget_other_selector(job.spec.pod_selector)
            is_recent = state.with_pods is not None and elapsed() - state.pods_listed < PODS_LISTED_SECONDS
            if job.spec.pod_selector is None or is_recent:
                return
            await self._list_pods(job, job.spec.pod_selector, state)

    async def _list_pods(self, job: ImagePullJob, chosen: LabelSelector, state: JobState) -> None:
        found = self._caches.nodes_of_rollout(job)
        if found is None:
            try:
                found = await nodes_of_pods(self._client, job.namespace, chosen)
            except ApiError:
                if (found := state.with_pods) is None:  # else use the older list
                    raise
        state.with_pods, state.pods_listed = found, elapsed()

    def _decide(self, job: ImagePullJob, cached: JobCached, state: JobState) -> JobPlan:
        moment = elapsed()
        chosen_at = (cached.fleet, job.generation, state.with_pods, cached.updated)
        if _is_over(job, state):
            state.clear()
        elif state.chosen_at != chosen_at:
            served = state.pulled.intersection(node.name for node in cached.nodes) if job.owner_uid else ()
            state.choose(targets(job, cached.nodes, state.with_pods, cached.updated), chosen_at, served)
        state.see(job.spec.image, cached.pullers, moment)
        held_back = state.places.held_back(moment)
        decided = plan(
            JobWorld(
                job=job,
                status=state.latest_status(job) or ImagePullJobStatus(),
                left=state.left,
                pulled=state.pulled,
                failed=state.failed,
                again=state.again,
                silent=state.silent,
                tries=state.tries,
                pullers=cached.pullers,
                since=state.since,
                lost=state.lost,
                awaited=state.awaited,
                failing=state.places.failing.keys() | state.places.inconclusive.keys(),
                held_back=held_back,
                silent_since=state.silent_since,
                room=state.room(moment),
                refusal=state.refusal,
                now=self._clock(),
                moment=moment,
            )
        )
        state.learn(decided, moment)
        return decided

    async def _do(self, job: ImagePullJob, state: JobState, decided: JobPlan, requeue: Requeue) -> Outcome:
        if decided.settled:
            self._on_progress(job)
        for how in decided.settled.values():
            self._attempted("pulled" if how is PULLED else "failed")
        for _ in decided.tries:
            self._attempted("failed")
        for note in decided.notes:
            self._say(job, note)

        def warned(text: str) -> None:
            if (note := state.server_warnings.note(job.name, text, elapsed())) is not None:
                self._say(job, note)

        execution = self._execution(job.key, state, requeue, warned)
        room = max(CEILING - len(state.awaited), 0)
        if not await execution.carry_out(decided.actions[:room], job):
            return _outcome(state, AT_ONCE)
        later = await self._settle_status(job, state, decided.status, execution)
        moment = elapsed()
        if state.look_whether_stuck(job, moment):
            self._on_progress(job)
        wakes = [
            decided.wake_at,
            later,
            state.rests_until,
            state.refused_since + job.spec.timeout,
            *state.places.held_back(moment).values(),
        ]
        if job.spec.pod_selector is not None and not _is_over(job, state):
            due = state.pods_listed + PODS_LISTED_SECONDS
            wakes.append(max(due, moment + AT_ONCE))  # a timer may fire a rounding error too early
        if len(decided.actions) > room:
            wakes.append(moment + AT_ONCE)
        return _outcome(state, min((at for at in wakes if at > moment), default=inf) - moment)

    async def _clear_up(self, key: Key, pullers: Sequence[Puller], state: JobState, requeue: Requeue) -> Outcome:
        """Delete the pullers of a job that is gone. The garbage collector also does that, if one runs."""
        if not pullers and not state.awaited:
            self._states.pop(key, None)
            self._pacer.forget(key)
            self._expectations.forget(str(key))
            return Done()
        held_back = state.places.held_back(elapsed())
        ends = [one for one in pullers if not one.dying and one.uid not in {*state.awaited, *held_back}]
        await self._execution(key, state, requeue).carry_out([EndPuller(pod=one.ref) for one in ends[:CEILING]])
        return _outcome(state, AT_ONCE if len(ends) > CEILING else min(held_back.values(), default=inf) - elapsed())

    def _execution(
        self, key: Key, state: JobState, requeue: Requeue, warned: Callable[[str], None] | None = None
    ) -> JobExecution:
        did = self._instrumentation.job_passes.count_write
        return JobExecution(
            self._client.with_reserved_permit(warned), self._expectations, key, state, requeue, self._say, did
        )

    async def _settle_status(
        self, job: ImagePullJob, state: JobState, wanted: ImagePullJobStatus, execution: JobExecution
    ) -> float:
        """Write the status if it may be written now. Returns when the remaining changes may be written; `inf`: none
        remain."""
        before = state.latest_status(job)
        if wanted == before or STATUS in state.awaited or job.dying:
            return inf
        now = elapsed()
        if (until := state.places.held_back(now).get(STATUS)) is not None:
            return until
        urgent = before is None or wanted.completion_time != before.completion_time
        if (delay := state.pacer.delay(now, urgent=urgent)) > 0:
            return now + delay
        await execution.write_status(job, before, wanted)
        return inf


def _is_over(job: ImagePullJob, state: JobState) -> bool:
    status = state.latest_status(job)
    return job.dying or (status is not None and status.completion_time is not None)


def _outcome(state: JobState, after: float) -> Outcome:
    errors, state.errors = state.errors, []
    return outcome(errors, None if after == inf else max(after, AT_ONCE))
