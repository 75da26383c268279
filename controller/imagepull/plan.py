"""Reads the results off the pullers: who has the image now, where pulling failed, which pullers can go.

Decides what to do next for one ImagePullJob, from what there is and the results of its nodes so far. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, islice
from math import inf

from msgspec.structs import replace

from controller.api.formats import shortened
from controller.api.image_pull_job import ImagePullJobStatus, Puller, Pulling
from controller.api.objects import epoch, rfc3339
from controller.imagepull.jobs import (
    PULLED,
    DeleteJob,
    EndPuller,
    JobAction,
    JobPlan,
    JobWorld,
    StartPuller,
    Try,
    may_end,
)
from controller.planner.actions import Note

FIRST_WAIT = 1.0
LONGEST_WAIT = 30.0
"""Seconds between two attempts on one node, at first and at most. They double in between."""
DOUBLINGS = 5
"""Doublings until the longest wait; doubling further would overflow at some time."""
HOPELESS = "InvalidImageName"
"""The beginning of a failure that no node and no retry can avoid."""
LOST = "its pod was deleted, or sent to another node, by somebody else"
IMAGE_PULL_FAILED = "ImagePullFailed"


def failed(nodes: Mapping[str, str]) -> tuple[Note, ...]:
    """Notes about nodes where it will not be tried again."""
    said = (f"{node}: {why}" for node, why in nodes.items())
    return tuple(Note(warning=True, reason=IMAGE_PULL_FAILED, message=one) for one in said)


class PullerResults:
    """The results that the pullers show."""

    def __init__(self, world: JobWorld) -> None:
        self.settled: dict[str, str | None] = {}
        self.tries: dict[str, Try] = {}
        self.active: set[str] = set()
        """Nodes whose puller goes on."""
        self.ends: list[EndPuller] = []
        self.timeouts: list[float] = []
        self._world = world
        self._due = {node for node, due in world.retried.items() if due <= world.moment}
        for puller in world.pullers:
            if self._is_asked(puller.node) and puller.job_uid == world.job.uid and self._goes_on(puller):
                self.active.add(puller.node)
            elif may_end(world, puller):
                self.ends.append(EndPuller(pod=puller.ref))
        for node, uid in world.lost.items():
            if self._is_asked(node) and node not in world.silent:
                self._failed(node, uid, LOST)

    @property
    def notes(self) -> tuple[Note, ...]:
        return failed({node: why for node, why in self.settled.items() if why is not PULLED})

    def _is_asked(self, node: str) -> bool:
        return node in self._world.left or node in self._due

    def _goes_on(self, puller: Puller) -> bool:
        world, node = self._world, puller.node
        if puller.dying or puller.uid in world.awaited:
            return False
        if puller.state is Pulling.DONE:
            self.settled[node] = PULLED
            return False
        if puller.state is Pulling.FAILED:
            self._failed(node, puller.uid, puller.why)
            return False
        if node in world.silent:
            return False  # nobody waits for it; the node gets another one when it is back
        timeout = world.job.spec.timeout
        until = world.since.get(puller.uid, world.moment) + timeout
        if until > world.moment:
            self.timeouts.append(until)
            return True
        self._failed(node, puller.uid, f"not pulled within {timeout} s" + (f": {puller.why}" if puller.why else ""))
        return False

    def _failed(self, node: str, puller: str, why: str) -> None:
        known = self._world.tries.get(node)
        if known is not None and known.puller == puller:
            return  # known already; its puller could not be deleted yet
        failures = 1 + (known.failures if known is not None else 0)
        if node in self._due or failures > self._world.job.spec.retries or why.startswith(HOPELESS):
            self.settled[node] = why
            return
        wait = min(FIRST_WAIT * 2.0 ** min(failures - 1, DOUBLINGS), LONGEST_WAIT)
        self.tries[node] = Try(failures=failures, due=self._world.moment + wait, why=why, puller=puller)


FAILED_NODES_KEPT = 500
"""Names in the status, at most; 253 characters each, they take up to 125 KiB."""
NEVER_BEGUN = "its turn did not come, or its kubelet is not ready"
UNFINISHED = "it was still being pulled"
RUNNING, COMPLETED = "job is running", "job has completed"
EXCEEDED = "job exceeds activeDeadlineSeconds"
IMAGE_PULL_JOB_COMPLETED = "ImagePullJobCompleted"


def plan(world: JobWorld) -> JobPlan:
    if world.job.dying or world.job.is_left_behind or world.status.completion_time:
        return _after_the_end(world)
    events = PullerResults(world)
    tries = {node: one for node, one in {**world.tries, **events.tries}.items() if node not in events.settled}
    deadline = _deadline(world)
    if deadline <= world.now:
        return _end(world, events, tries, EXCEEDED)
    awake = any(node not in events.settled and node not in world.silent for node in world.left)
    only_silent = not awake and len(events.settled) < len(world.left)
    patience_ends = min(world.silent_since, world.moment) + world.job.spec.timeout
    if not awake and not world.job.spec.keeps_on and (not only_silent or patience_ends <= world.moment):
        return _end(world, events, tries, COMPLETED)
    starts = _starts(world, events, tries)
    wakes = chain(
        (one.due for one in tries.values()),
        world.retried.values(),
        events.timeouts,
        [world.moment + deadline - world.now],
        [patience_ends] if only_silent else (),
    )
    return JobPlan(
        actions=(*events.ends, *starts),
        settled=events.settled,
        tries=events.tries,
        status=_status(world, events.settled, len(events.active) + (0 if world.refusal else len(starts)), RUNNING),
        only_silent=only_silent,
        wake_at=min((at for at in wakes if at > world.moment), default=inf),
        notes=events.notes,
    )


def _starts(world: JobWorld, events: PullerResults, tries: Mapping[str, Try]) -> list[StartPuller]:
    """The nodes that get a puller now. Nodes where nothing has failed come first: a faulty node delays no other."""
    taken = {puller.node for puller in world.pullers}  # the name is free once that pod is gone
    starting = sum((place in world.left or place in world.failed) and place not in taken for place in world.awaited)
    free = min(world.job.spec.at_once(world.desired) - len(events.active) - starting, world.room)
    others = (taken, events.settled, world.silent, world.awaited, world.held_back)
    again = sorted((one.due, node) for node, one in tries.items() if one.due <= world.moment)
    once_more = sorted((due, node) for node, due in world.retried.items() if due <= world.moment)
    nodes: Iterable[str] = chain(
        (node for node in world.left if node not in tries), (node for _, node in chain(again, once_more))
    )
    if world.failing:
        nodes = sorted(nodes, key=lambda node: node in world.failing)
    may_start = (node for node in nodes if not any(node in some for some in others))
    return [StartPuller(node=node) for node in islice(may_start, max(free, 0))]


def _all_ends(world: JobWorld) -> tuple[EndPuller, ...]:
    return tuple(EndPuller(pod=puller.ref) for puller in world.pullers if may_end(world, puller))


def _deadline(world: JobWorld) -> float:
    """When the job ends in any case (seconds since 1970); infinite: never."""
    seconds = world.job.spec.completion_policy.active_deadline_seconds
    if seconds is None or world.job.spec.keeps_on:
        return inf
    return (epoch(world.status.start_time) or world.now) + seconds


def _end(world: JobWorld, events: PullerResults, tries: Mapping[str, Try], words: str) -> JobPlan:
    """The plan that ends the job. A node without the image has failed; a note names it if it was tried."""
    unfinished = (one for one in world.pullers if one.node in events.active)
    cut_off = {one.node: f"{UNFINISHED}: {one.why}" if one.why else UNFINISHED for one in unfinished}
    cut_off |= {node: one.why for node, one in tries.items()}
    missing = {node: cut_off.get(node, NEVER_BEGUN) for node in world.left if node not in events.settled}
    status = _status(world, {**events.settled, **missing}, 0, words)
    over = Note(warning=status.failed > 0, reason=IMAGE_PULL_JOB_COMPLETED, message=status.message)
    return JobPlan(
        actions=_all_ends(world),
        settled=events.settled,
        tries={},
        status=replace(status, completion_time=rfc3339(world.now)),
        notes=(*events.notes, *failed({node: why for node, why in missing.items() if node in cut_off}), over),
    )


def _after_the_end(world: JobWorld) -> JobPlan:
    """The plan after the end: no puller stays, and the job is deleted in its time."""
    actions: tuple[JobAction, ...] = _all_ends(world)
    left, wake_at = _stays(world), inf
    if not world.job.dying and not world.pullers:
        if left > 0:
            wake_at = world.moment + left
        elif world.job.uid not in world.awaited and world.job.uid not in world.held_back:
            actions = (DeleteJob(job=world.job.ref),)
    return JobPlan(actions=actions, settled={}, tries={}, status=world.status, wake_at=wake_at)


def _stays(world: JobWorld) -> float:
    """Seconds until the job is deleted; infinite: it stays."""
    if world.job.is_left_behind:
        return 0.0
    completed, ttl = epoch(world.status.completion_time), world.job.spec.completion_policy.ttl_seconds_after_finished
    return inf if completed is None or ttl is None else completed + ttl - world.now


def _status(world: JobWorld, settled: Mapping[str, str | None], active: int, words: str) -> ImagePullJobStatus:
    """The status. `settled` are the results found in this pass."""
    failed = {node: why for node, why in {**world.failed, **settled}.items() if why is not PULLED}
    names = sorted(failed)
    succeeded = len(world.pulled) + sum(why is PULLED for why in settled.values())
    if words == RUNNING:
        words = f"{words}, progress {100 * succeeded / max(world.desired, 1):.1f}%"
    told = [f"{names[0]}: {failed[names[0]]}"] if names else []
    return ImagePullJobStatus(
        desired=world.desired,
        active=active,
        succeeded=succeeded,
        failed=len(failed),
        failed_nodes=tuple(names[:FAILED_NODES_KEPT]) or None,
        message=shortened("; ".join([words, *([world.refusal] if world.refusal else told)])),
        start_time=world.status.start_time or rfc3339(world.now),
        completion_time=world.status.completion_time,
    )
