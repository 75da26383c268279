"""One pass over one ImagePullJob: check that the caches are fresh, plan, carry out, write the status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import assert_never

from msgspec.structs import replace

from controller.api import patch
from controller.api.image_pull_job import ImagePullJob, ImagePullJobStatus, targets
from controller.api.names import FAILED_CREATE
from controller.api.objects import Key, Value
from controller.api.pod import Pod, PodView
from controller.api.selector import LabelSelector, as_text
from controller.imagepull.job_plan import (
    PULLED,
    STATUS,
    DeleteJob,
    EndPuller,
    JobAction,
    JobPlan,
    JobWorld,
    StartPuller,
    WriteStatus,
    plan,
)
from controller.imagepull.job_state import JobState, new_state
from controller.imagepull.wanted import puller_manifest, puller_name
from controller.kube.client import Client
from controller.kube.decode import Seen
from controller.kube.errors import ApiError, classify, is_gone
from controller.kube.requests import IMAGE_PULL_JOBS, PULLERS, Resource
from controller.kube.sender import CEILING
from controller.observe.instrumentation import PassLog
from controller.planner.actions import Note
from controller.reconcile.caches import Caches
from controller.reconcile.dependencies import Dependencies
from controller.reconcile.execute import Execution
from controller.reconcile.status_writer import status_changes
from controller.reconcile.write_outcomes import outcome_of
from controller.runtime.clock import elapsed
from controller.runtime.expectations import OF_PODS
from controller.runtime.pacing import PacedPass, PacedQueue, Pacer
from controller.runtime.workers import AT_ONCE, STALE_RETRY_SECONDS, Done, Outcome, Requeue, RequeueAfter, outcome
from controller.runtime.workqueue import WorkItem

PODS_LISTED_SECONDS = 30.0
"""Seconds after which the pods of a podSelector are listed again."""


def nodes_of_rollout(caches: Caches, job: ImagePullJob) -> frozenset[str] | None:
    """The nodes for which a rollout created the job; None if no rollout is known."""
    owner = caches.daemonset_of(job)
    if owner is None or not job.hash:
        return None
    return frozenset(nodes_with_other_revision(caches.pods_of(owner), job.hash))


def rollout_selector(caches: Caches, job: ImagePullJob) -> LabelSelector | None:
    """Selects the nodes that the job's rollout updates; None selects all."""
    owner = caches.daemonset_of(job)
    rolling = owner.rolling_update if owner is not None else None
    return rolling.selector if rolling is not None else None


def nodes_with_other_revision(pods: Iterable[Pod], revision_hash: str) -> Iterator[str]:
    """The nodes of live pods of another revision, for which the job of a rollout pulls."""
    return (
        pod.node for pod in pods if pod.node and not pod.terminating and not pod.ended and pod.hash != revision_hash
    )


class JobReconciler:
    def __init__(
        self,
        dependencies: Dependencies,
        caches: Caches,
        pacer: Pacer[Key],
        *,
        count_pulls: Callable[[str, int], None],
        daemonset_queue: PacedQueue[Key],
    ) -> None:
        self._dependencies, self._caches, self._pacer = dependencies, caches, pacer
        self._observer, self._expectations = dependencies.observer, dependencies.expectations
        self._count_pulls, self._daemonset_queue = count_pulls, daemonset_queue
        self._states: dict[Key, JobState] = {}

    async def __call__(self, item: WorkItem[Key], requeue: Requeue) -> Outcome:
        key = item.key
        try:
            await self._gather(key)
        except ApiError as error:
            return outcome([error])
        # From here to the plan nothing is awaited: the answer to a write of an earlier pass could come in between,
        # and a puller that was just created would count as lost.
        job = self._caches.jobs.get(key)
        state = self._state_of(key, job)
        state.own_status.observe(self._caches.jobs.progress_in(key.namespace))
        if self._is_stale(key):
            return RequeueAfter(STALE_RETRY_SECONDS, "own writes not seen yet")
        if job is None:
            return await self._clear_up(key, state, requeue)
        with PacedPass(self._pacer, key, requeue) as paced:
            decided = self._decide(job, state)
            paced.end_deciding()
            return await self._do(job, state, decided, paced.requeue)

    def remembered(self, job: ImagePullJob) -> JobState | None:
        """What is remembered of the job; None before its first pass."""
        state = self._states.get(job.key)
        return state if state is not None and state.uid == job.uid else None

    def wake_owner(self, job: ImagePullJob) -> None:
        """Makes the DaemonSet whose rollout wants the job look again at which nodes wait."""
        daemonset = self._caches.daemonset_of(job)
        if daemonset is not None and daemonset.waits_for_images:
            self._daemonset_queue.enqueue(daemonset.key, "soon", "images")

    def server_back(self) -> None:
        for state in self._states.values():
            state.write_backoff.server_back()

    def node_gone(self, name: str) -> None:
        for state in self._states.values():
            state.forget_result(name)

    def _state_of(self, key: Key, job: ImagePullJob | None) -> JobState:
        known = self._states.get(key)
        if known is None or (job is not None and known.uid != job.uid):
            known = self._states[key] = new_state(job) if job is not None else JobState(uid="")
        return known

    def _is_stale(self, key: Key) -> bool:
        reached = {OF_PODS: self._caches.pullers.progress_in(key.namespace)}
        alive = {puller.uid for puller in self._caches.pullers_of(key) if not puller.terminating}
        stale = self._expectations.check(str(key), reached, alive.__contains__, elapsed())
        if stale is None:
            return False
        self._observer.stale(key, stale)
        if stale.overdue:
            self._expectations.forget(str(key))  # names and guards make a pass safe without it
        return True

    async def _gather(self, key: Key) -> None:
        """Lists pods that the pass needs and no cache has, until the list is recent on arrival. Raises ApiError."""
        while True:
            job = self._caches.jobs.get(key)
            state = self._state_of(key, job)
            if job is None or _is_over(job, state):
                return
            selector = job.spec.pod_selector
            if selector != state.pod_selector:
                state.pod_nodes, state.pod_selector = None, selector
            is_recent = state.pod_nodes is not None and elapsed() - state.pods_listed < PODS_LISTED_SECONDS
            if selector is None or is_recent:
                return
            found = nodes_of_rollout(self._caches, job)
            if found is None:
                try:
                    found = await _nodes_of_pods(self._dependencies.client, job.namespace, selector)
                except ApiError:
                    if (found := state.pod_nodes) is None:  # else use the older list
                        raise
            state.pod_nodes, state.pods_listed = found, elapsed()

    def _decide(self, job: ImagePullJob, state: JobState) -> JobPlan:
        moment, caches, pullers = elapsed(), self._caches, self._caches.pullers_of(job.key)
        first = rollout_selector(caches, job)
        key = (caches.fleet, job.generation, state.pod_nodes, first)
        if _is_over(job, state):
            state.clear()
        elif state.targets_key != key:
            nodes = tuple(caches.nodes.values())
            updated = state.pulled.intersection(node.name for node in nodes) if job.owner_uid else ()
            state.set_targets(targets(job, nodes, state.pod_nodes, first), key, updated)
        state.observe_pullers(job.spec.image, pullers, moment)
        decided = plan(
            JobWorld(
                job=job,
                status=state.latest_status(job) or ImagePullJobStatus(),
                memory=state,
                pullers=pullers,
                failing=state.write_backoff.failing.keys() | state.write_backoff.inconclusive.keys(),
                in_backoff=state.write_backoff.in_backoff(moment),
                max_creates=state.max_creates(moment),
                now=self._dependencies.clock(),
                moment=moment,
            )
        )
        state.apply_plan(decided, moment)
        return decided

    async def _do(self, job: ImagePullJob, state: JobState, decided: JobPlan, requeue: Requeue) -> Outcome:
        if decided.results:
            self.wake_owner(job)
        for result in decided.results.values():
            self._count_pulls("pulled" if result is PULLED else "failed", 1)
        self._count_pulls("failed", len(decided.attempts))
        for note in decided.notes:
            self._observer.event(job, note)
        execution = self._execution(job.key, job, state, requeue)
        room = max(CEILING - len(state.in_flight), 0)
        if not await execution.run(*decided.actions[:room]):
            return outcome(execution.errors, AT_ONCE)
        later = await self._write_status(job, state, decided.status, execution)
        moment = elapsed()
        if state.update_stuck(job, moment):
            self.wake_owner(job)
        wakes = [
            decided.wake_at,
            later,
            state.no_creates_before,
            state.refused_since + job.spec.timeout,
            *state.write_backoff.in_backoff(moment).values(),
        ]
        if job.spec.pod_selector is not None and not _is_over(job, state):
            due = state.pods_listed + PODS_LISTED_SECONDS
            wakes.append(max(due, moment + AT_ONCE))  # a timer may fire a rounding error too early
        if len(decided.actions) > room:
            wakes.append(moment + AT_ONCE)
        return _outcome(execution, min((at for at in wakes if at > moment), default=inf) - moment)

    async def _clear_up(self, key: Key, state: JobState, requeue: Requeue) -> Outcome:
        """Deletes the pullers of a job that is gone, like the garbage collector, if one runs."""
        pullers = self._caches.pullers_of(key)
        if not pullers and not state.in_flight:
            self._states.pop(key, None)
            self._pacer.forget(key)
            self._expectations.forget(str(key))
            return Done()
        in_backoff = state.write_backoff.in_backoff(elapsed())
        ends = [
            puller
            for puller in pullers
            if not puller.terminating and puller.uid not in {*state.in_flight, *in_backoff}
        ]
        execution = self._execution(key, None, state, requeue)
        await execution.run(*(EndPuller(pod=puller.ref) for puller in ends[:CEILING]))
        later = AT_ONCE if len(ends) > CEILING else min(in_backoff.values(), default=inf) - elapsed()
        return _outcome(execution, later)

    def _execution(self, key: Key, job: ImagePullJob | None, state: JobState, requeue: Requeue) -> JobExecution:
        report = None if job is None else partial(self._observer.event, job)
        warned = report and state.server_warnings.reporter(key.name, report)
        client = self._dependencies.client.with_reserved_permit(warned)
        return JobExecution(key, job, state, replace(self._dependencies, client=client), requeue)

    async def _write_status(
        self, job: ImagePullJob, state: JobState, wanted: ImagePullJobStatus, execution: JobExecution
    ) -> float:
        """Writes the status if allowed now. Returns when to write remaining changes; `inf` if none remain."""
        before = state.latest_status(job)
        if wanted == before or STATUS in state.in_flight or job.terminating:
            return inf
        moment = elapsed()
        if (until := state.write_backoff.in_backoff(moment).get(STATUS)) is not None:
            return until
        urgent = before is None or wanted.completion_time != before.completion_time
        if (delay := state.pacer.delay(moment, urgent=urgent)) > 0:
            return moment + delay
        await execution.run(WriteStatus(job=job.ref, before=before, status=wanted))
        return inf


def _is_over(job: ImagePullJob, state: JobState) -> bool:
    status = state.latest_status(job)
    return job.terminating or (status is not None and status.completion_time is not None)


def _outcome(execution: JobExecution, after: float) -> Outcome:
    return outcome(execution.errors, None if after == inf else max(after, AT_ONCE))


def _node(view: PodView) -> str | None:
    over = view.metadata.deletion_timestamp is not None or view.status.phase in ("Failed", "Succeeded")
    return None if over else view.spec.node_name or None


RUNNING_PODS = Resource(plural="pods", wire=PodView, project=_node)


async def _nodes_of_pods(client: Client, namespace: str, selector: LabelSelector) -> frozenset[str]:
    """The nodes where a pod with these labels runs or will run, whatever controls it. Raises ApiError."""
    query = () if selector.empty else (("labelSelector", as_text(selector)),)
    found: set[str] = set()
    async for page in client.with_reserved_permit().pages(RUNNING_PODS, namespace, query=query):
        found.update(item.obj for item in page.items if isinstance(item, Seen) and item.obj is not None)
    return frozenset(found)


class JobActionResult(Value, gc=True):
    action: JobAction
    error: ApiError | None = None
    """None: the action is done."""


class JobExecution(Execution[JobAction, JobActionResult]):
    """Carries out the actions of one pass over a job, each with its precondition."""

    def __init__(
        self,
        key: Key,
        job: ImagePullJob | None,
        state: JobState,
        dependencies: Dependencies,
        requeue: Requeue,
    ) -> None:
        """`job` is needed for all but EndPuller."""
        super().__init__(requeue)
        self._key, self._job, self._state, self._dependencies = str(key), job, state, dependencies

    async def run(self, *actions: JobAction) -> bool:
        """Returns False if answers are late: then another pass has begun."""
        return await self._run([actions])

    @property
    def errors(self) -> list[ApiError]:
        return [result.error for result in self.results if result.error is not None]

    @contextmanager
    def _under_way(self, action: JobAction) -> Iterator[None]:
        in_flight, key = self._state.in_flight, action.backoff_key
        in_flight.add(key)
        try:
            yield
        finally:
            in_flight.discard(key)

    async def _send(self, action: JobAction) -> None:
        client, expectations = self._dependencies.client, self._dependencies.expectations
        state, job = self._state, self._job
        match action:
            case StartPuller(node=node):
                assert job is not None
                name, manifest = puller_name(job, node), puller_manifest(job, node)
                written = await client.create(PULLERS, job.namespace, manifest, name=name)
                state.create_accepted()
                state.node_of[written.uid] = node
                expectations.expect_version(self._key, PULLERS.name, written.version, elapsed())
            case EndPuller(pod=ref):
                state.deleted.add(ref.uid)
                deleted = await client.delete(PULLERS, ref)
                expectations.expect_deletion(self._key, ref.uid, elapsed(), deleted)
            case DeleteJob(job=ref):  # as it was when it was decided: not one that was edited since
                await client.delete(IMAGE_PULL_JOBS, ref, version=ref.version, propagation="Background")
            case WriteStatus(job=ref, before=before, status=wanted):  # only this controller writes it
                operations = patch.guarded_by_uid(ref.uid, *status_changes(before, wanted))
                written = await client.patch(IMAGE_PULL_JOBS, ref, operations, sub="status")
                state.own_status.wrote(wanted, written.version, elapsed())
                state.pacer.wrote(elapsed())
            case _:
                assert_never(action)

    async def _result(self, action: JobAction, error: ApiError | None) -> JobActionResult:
        gone = error is not None and is_gone(error, versioned=isinstance(action, DeleteJob))
        if gone and not isinstance(action, StartPuller):
            return JobActionResult(action=action)
        name = "status_written" if isinstance(action, WriteStatus) else type(action).__name__
        PassLog.count_write(name if error is None else f"{name}_failed")
        return JobActionResult(action=action, error=error)

    def _learn(self, result: JobActionResult) -> None:
        action, error, backoff = result.action, result.error, self._state.write_backoff
        if error is None:
            backoff.record_success(action.backoff_key)
            return
        known = outcome_of(error)
        counts = backoff.record_error(action.backoff_key, elapsed(), counts=known.counts, hold=known.hold)
        if isinstance(action, StartPuller):
            self._not_started(action.node, error, counts)

    def _not_started(self, node: str, error: ApiError, counts: bool) -> None:
        """Decides how long no puller is created anywhere. An unavailable or busy server has refused none. A taken
        name is that of our own puller not yet in the cache, unless it stays taken."""
        known = outcome_of(error)
        if known.pending:
            self._state.pending_creates[node] = elapsed() + known.pending
        if counts and known.report_create and not classify(error).write.undecided:
            assert self._job is not None
            self._state.create_refused(str(error), elapsed())
            note = Note(warning=True, reason=FAILED_CREATE, message=f"Error creating: {error.message}")
            self._dependencies.observer.event(self._job, note)
        elif known.pauses_creates:
            self._state.pause_creates(elapsed())
