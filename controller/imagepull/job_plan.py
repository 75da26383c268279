"""Decides what to do next for one ImagePullJob. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, islice
from math import inf
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from controller.api.formats import truncated
from controller.api.image_pull_job import ImagePullJob, ImagePullJobStatus, Puller, PullState
from controller.api.objects import Ref, Value, epoch, rfc3339
from controller.planner.actions import Note

FIRST_DELAY = 1.0
MAX_DELAY = 30.0
"""Seconds between two attempts on one node, at first and at most; doubled each time."""
PERMANENT = "InvalidImageName"
"""Prefix of a failure that no other node or retry avoids."""
LOST = "another client deleted its pod, or sent it to another node"
NEVER_BEGUN = "its turn did not come, or its kubelet is not ready"
UNFINISHED = "it was still being pulled"
RUNNING, COMPLETED = "job is running", "job has completed"
EXCEEDED = "job exceeds activeDeadlineSeconds"
IMAGE_PULL_FAILED = "ImagePullFailed"
IMAGE_PULL_JOB_COMPLETED = "ImagePullJobCompleted"
FAILED_NODES_KEPT = 500
"""Names in the status, at most: up to 125 KiB with 253 characters each."""

PULLED: Final = None
Result: TypeAlias = str | None
"""`PULLED`, or why pulling failed."""


class Attempt(Value):
    """A failed attempt by the pod with uid `puller`, to be repeated at `due` (`elapsed`)."""

    failures: int
    due: float
    why: str
    puller: str


STATUS = "/status"
"""Backoff key of status writes; no node name or uid equals it."""


class StartPuller(Value):
    node: str

    @property
    def backoff_key(self) -> str:
        return self.node


class EndPuller(Value):
    pod: Ref

    @property
    def backoff_key(self) -> str:
        return self.pod.uid


class DeleteJob(Value):
    job: Ref

    @property
    def backoff_key(self) -> str:
        return self.job.uid


class WriteStatus(Value):
    job: Ref
    before: ImagePullJobStatus | None
    """The newest known status, from which `status` differs."""
    status: ImagePullJobStatus
    backoff_key = STATUS


JobAction: TypeAlias = StartPuller | EndPuller | DeleteJob | WriteStatus


class JobMemory(msgspec.Struct):
    """What is remembered of a job between passes, as far as decisions need it. Times are `elapsed`. Writes are known
    by their backoff keys: node names for creates, uids for deletes."""

    pending: dict[str, None] = msgspec.field(default_factory=dict)
    """Nodes that should have the image and have no result yet, in update order."""
    pulled: set[str] = msgspec.field(default_factory=set)
    failed: dict[str, str] = msgspec.field(default_factory=dict)
    """Nodes that have used up their attempts, with the reason."""
    retry_at: dict[str, float] = msgspec.field(default_factory=dict)
    """When failed nodes of a job that never completes are retried; now for those missing here."""
    not_ready: Collection[str] = ()
    """Nodes on which no pod would start now."""
    attempts: dict[str, Attempt] = msgspec.field(default_factory=dict)
    first_seen: dict[str, float] = msgspec.field(default_factory=dict)
    """By puller uid."""
    lost_pullers: dict[str, str] = msgspec.field(default_factory=dict)
    """Nodes whose puller is gone, not deleted by us, or moved to another node; with the puller's uid."""
    in_flight: set[str] = msgspec.field(default_factory=set)
    pending_creates: dict[str, float] = msgspec.field(default_factory=dict)
    """Nodes on which a puller may be that no watch has shown yet, and until when one should have."""
    only_not_ready_since: float = inf
    """Since when all pending nodes are in `not_ready`; `inf` if they are not."""
    refusal: str = ""
    """Why the server refuses pullers; empty if it does not."""


class JobWorld(Value, gc=True):
    """The input of one decision, which changes none of it."""

    job: ImagePullJob
    status: ImagePullJobStatus
    memory: JobMemory
    pullers: Sequence[Puller]
    failing: Collection[str]
    """Keys of writes that failed last time."""
    in_backoff: Collection[str]
    max_creates: int
    now: float
    """Seconds since 1970."""
    moment: float
    """`elapsed`"""

    @property
    def desired(self) -> int:
        return len(self.memory.pending) + len(self.memory.pulled) + len(self.memory.failed)

    @property
    def retried(self) -> Mapping[str, float]:
        """When each failed node is retried; empty unless the job never completes."""
        failed = self.memory.failed if self.job.spec.never_completes else ()
        return {node: self.memory.retry_at.get(node, -inf) for node in failed}

    def may_write(self, key: str) -> bool:
        return key not in self.memory.in_flight and key not in self.in_backoff

    def may_end(self, puller: Puller) -> bool:
        return not puller.terminating and self.may_write(puller.uid)


class JobPlan(Value, gc=True):
    actions: tuple[JobAction, ...]
    status: ImagePullJobStatus
    results: Mapping[str, Result] = {}
    attempts: Mapping[str, Attempt] = {}
    only_not_ready: bool = False
    wake_at: float = inf
    """When the next pass is needed even without an event (`elapsed`)."""
    notes: tuple[Note, ...] = ()


def plan(world: JobWorld) -> JobPlan:
    if world.job.terminating or world.job.is_orphaned or world.status.completion_time:
        return _after_the_end(world)
    found, memory = PullerResults(world), world.memory
    attempts = {
        node: attempt for node, attempt in {**memory.attempts, **found.attempts}.items() if node not in found.results
    }
    deadline = _deadline(world)
    if deadline <= world.now:
        return _end(world, found, attempts, EXCEEDED)
    some_ready = any(node not in found.results and node not in memory.not_ready for node in memory.pending)
    only_not_ready = not some_ready and len(found.results) < len(memory.pending)
    gives_up_at = min(memory.only_not_ready_since, world.moment) + world.job.spec.timeout
    if not some_ready and not world.job.spec.never_completes and (not only_not_ready or gives_up_at <= world.moment):
        return _end(world, found, attempts, COMPLETED)
    starts = _starts(world, found, attempts)
    wakes = chain(
        (attempt.due for attempt in attempts.values()),
        world.retried.values(),
        found.timeouts,
        [world.moment + deadline - world.now],
        [gives_up_at] if only_not_ready else (),
    )
    return JobPlan(
        actions=(*found.ends, *starts),
        results=found.results,
        attempts=found.attempts,
        status=_status(world, found.results, len(found.active) + (0 if memory.refusal else len(starts)), RUNNING),
        only_not_ready=only_not_ready,
        wake_at=min((at for at in wakes if at > world.moment), default=inf),
        notes=found.notes,
    )


def _starts(world: JobWorld, found: PullerResults, attempts: Mapping[str, Attempt]) -> list[StartPuller]:
    """The nodes that get a puller now, those without failures first, so that a faulty node delays no other. A node
    whose create was not answered keeps its place, and is asked again."""
    memory = world.memory
    taken = {puller.node for puller in world.pullers}  # the name is free once that pod is gone
    begun = memory.in_flight | memory.pending_creates.keys()
    starting = {key for key in begun if key in memory.pending or key in memory.failed}
    free = world.job.spec.at_once(world.desired) - len(found.active) - len(starting - taken)
    excluded = (taken, found.results, memory.not_ready, memory.in_flight, world.in_backoff)

    def may_start(node: str) -> bool:
        return not any(node in some for some in excluded)

    again = sorted((attempt.due, node) for node, attempt in attempts.items() if attempt.due <= world.moment)
    retried = sorted((due, node) for node, due in world.retried.items() if due <= world.moment)
    nodes: Iterable[str] = chain(
        (node for node in memory.pending if node not in attempts), (node for _, node in chain(again, retried))
    )
    if world.failing:
        nodes = sorted(nodes, key=lambda node: node in world.failing)
    others = (node for node in nodes if node not in starting and may_start(node))
    chosen = chain(
        filter(may_start, sorted(starting.intersection(memory.pending_creates))), islice(others, max(free, 0))
    )
    return [StartPuller(node=node) for node in islice(chosen, world.max_creates)]


def _deadline(world: JobWorld) -> float:
    """When the job ends in any case (seconds since 1970, or `inf`)."""
    seconds = world.job.spec.completion_policy.active_deadline_seconds
    if seconds is None or world.job.spec.never_completes:
        return inf
    return (epoch(world.status.start_time) or world.now) + seconds


def _end(world: JobWorld, found: PullerResults, attempts: Mapping[str, Attempt], message: str) -> JobPlan:
    """Ends the job. Nodes without the image have failed; a note names those that were tried."""
    unfinished = (puller for puller in world.pullers if puller.node in found.active)
    cut_off = {puller.node: f"{UNFINISHED}: {puller.why}" if puller.why else UNFINISHED for puller in unfinished}
    cut_off |= {node: attempt.why for node, attempt in attempts.items()}
    missing = {node: cut_off.get(node, NEVER_BEGUN) for node in world.memory.pending if node not in found.results}
    status = _status(world, {**found.results, **missing}, 0, message)
    over = Note(warning=status.failed > 0, reason=IMAGE_PULL_JOB_COMPLETED, message=status.message)
    return JobPlan(
        actions=_all_ends(world),
        results=found.results,
        status=replace(status, completion_time=rfc3339(world.now)),
        notes=(*found.notes, *_failure_notes({node: why for node, why in missing.items() if node in cut_off}), over),
    )


def _after_the_end(world: JobWorld) -> JobPlan:
    """Deletes all pullers, and the job after its TTL."""
    actions: tuple[JobAction, ...] = _all_ends(world)
    ttl, wake_at = _remaining_ttl(world), inf
    if not world.job.terminating and not world.pullers:
        if ttl > 0:
            wake_at = world.moment + ttl
        elif world.may_write(world.job.uid):
            actions = (DeleteJob(job=world.job.ref),)
    return JobPlan(actions=actions, status=world.status, wake_at=wake_at)


def _all_ends(world: JobWorld) -> tuple[EndPuller, ...]:
    return tuple(EndPuller(pod=puller.ref) for puller in world.pullers if world.may_end(puller))


def _remaining_ttl(world: JobWorld) -> float:
    """Seconds until the job is deleted, or `inf`."""
    if world.job.is_orphaned:
        return 0.0
    completed, ttl = epoch(world.status.completion_time), world.job.spec.completion_policy.ttl_seconds_after_finished
    return inf if completed is None or ttl is None else completed + ttl - world.now


def _status(world: JobWorld, results: Mapping[str, Result], active: int, message: str) -> ImagePullJobStatus:
    failed = {node: why for node, why in {**world.memory.failed, **results}.items() if why is not PULLED}
    names = sorted(failed)
    succeeded = len(world.memory.pulled) + sum(why is PULLED for why in results.values())
    if message == RUNNING:
        message += f", progress {100 * succeeded / max(world.desired, 1):.1f}%"
    if problem := world.memory.refusal or (f"{names[0]}: {failed[names[0]]}" if names else ""):
        message += f"; {problem}"
    return ImagePullJobStatus(
        desired=world.desired,
        active=active,
        succeeded=succeeded,
        failed=len(failed),
        failed_nodes=tuple(names[:FAILED_NODES_KEPT]) or None,
        message=truncated(message),
        start_time=world.status.start_time or rfc3339(world.now),
        completion_time=world.status.completion_time,
    )


def _failure_notes(nodes: Mapping[str, str]) -> tuple[Note, ...]:
    messages = (f"{node}: {why}" for node, why in nodes.items())
    return tuple(Note(warning=True, reason=IMAGE_PULL_FAILED, message=message) for message in messages)


class PullerResults:
    """The results shown by the pullers: nodes with the image, failures, and pullers that can be deleted."""

    def __init__(self, world: JobWorld) -> None:
        self.results: dict[str, Result] = {}
        self.attempts: dict[str, Attempt] = {}
        self.active: set[str] = set()
        self.ends: list[EndPuller] = []
        self.timeouts: list[float] = []
        self._world = world
        self._due = {node for node, due in world.retried.items() if due <= world.moment}
        for puller in world.pullers:
            if self._is_wanted(puller.node) and puller.job_uid == world.job.uid and self._goes_on(puller):
                self.active.add(puller.node)
            elif world.may_end(puller):
                self.ends.append(EndPuller(pod=puller.ref))
        for node, uid in world.memory.lost_pullers.items():
            if self._is_wanted(node) and node not in world.memory.not_ready:
                self._failed(node, uid, LOST)

    @property
    def notes(self) -> tuple[Note, ...]:
        return _failure_notes({node: why for node, why in self.results.items() if why is not PULLED})

    def _is_wanted(self, node: str) -> bool:
        return node in self._world.memory.pending or node in self._due

    def _goes_on(self, puller: Puller) -> bool:
        world, node = self._world, puller.node
        if puller.terminating or puller.uid in world.memory.in_flight:
            return False
        if puller.state is PullState.SUCCEEDED:
            self.results[node] = PULLED
            return False
        if puller.state is PullState.FAILED:
            self._failed(node, puller.uid, puller.why)
            return False
        if node in world.memory.not_ready:
            return False  # the node gets another one when it is back
        timeout = world.job.spec.timeout
        until = world.memory.first_seen.get(puller.uid, world.moment) + timeout
        if until > world.moment:
            self.timeouts.append(until)
            return True
        self._failed(node, puller.uid, f"not pulled within {timeout} s" + (f": {puller.why}" if puller.why else ""))
        return False

    def _failed(self, node: str, puller: str, why: str) -> None:
        last = self._world.memory.attempts.get(node)
        if last is not None and last.puller == puller:
            return  # known already; its puller could not be deleted yet
        failures = 1 + (last.failures if last is not None else 0)
        if node in self._due or failures > self._world.job.spec.retries or why.startswith(PERMANENT):
            self.results[node] = why
            return
        delay = min(FIRST_DELAY * 2.0 ** min(failures - 1, 10), MAX_DELAY)  # a larger power would overflow some day
        self.attempts[node] = Attempt(failures=failures, due=self._world.moment + delay, why=why, puller=puller)
