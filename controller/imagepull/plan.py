"""What is to be done next for one ImagePullJob: a function of what is there and of how each node did so far."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, islice
from math import inf

from msgspec.structs import replace

from controller.api.image_pull_job import ImagePullJobStatus
from controller.api.meta import epoch, rfc3339
from controller.api.text import shortened
from controller.imagepull.news import News
from controller.imagepull.world import PULLED, Action, DeleteJob, EndPuller, Plan, StartPuller, Try, World, may_end
from controller.planner.actions import Note

FAILED_NODES_KEPT = 500
"""Names in the status: a bound of 125 KiB."""
NEVER_BEGUN = "its turn did not come, or its kubelet is not ready"
RUNNING, COMPLETED = "job is running", "job has completed"
EXCEEDED = "job exceeds activeDeadlineSeconds"
IMAGE_PULL_JOB_COMPLETED = "ImagePullJobCompleted"


def plan(world: World) -> Plan:
    if world.job.dying or world.status.completion_time:
        return _after_the_end(world)
    deadline = _deadline(world)
    if deadline <= world.now:
        return _end(world, world.settled, EXCEEDED)
    news = News(world)
    settled = {**world.settled, **news.settled}
    left = [node for node in world.nodes if node not in settled and node not in world.silent]
    only_silent = not left and len(settled) < len(world.nodes)
    patience_ends = min(world.silent_since, world.moment) + world.job.spec.timeout
    if not left and not world.job.spec.keeps_on and (not only_silent or patience_ends <= world.moment):
        return _end(world, settled, COMPLETED, news)
    tries = {node: one for node, one in {**world.tries, **news.tries}.items() if node not in settled}
    starts = _starts(world, left, tries, news.active)
    dues = (one.due for one in tries.values())
    wakes = chain(dues, news.timeouts, [world.moment + deadline - world.now], [patience_ends] if only_silent else ())
    return Plan(
        actions=(*news.ends, *starts),
        settled=news.settled,
        tries=news.tries,
        status=_status(world, settled, len(news.active) + (0 if world.trouble else len(starts)), RUNNING),
        only_silent=only_silent,
        wake_at=min((at for at in wakes if at > world.moment), default=inf),
        notes=news.notes,
    )


def _starts(
    world: World, left: Sequence[str], tries: Mapping[str, Try], active: Collection[str]
) -> list[StartPuller]:
    """First those on which nothing has failed: a node with a fault keeps no other one waiting."""
    taken = {puller.node for puller in world.pullers}  # names are free once the pod is gone
    starting = [node for node in left if node in world.awaited] if world.awaited else []
    free = world.job.spec.at_once(len(world.nodes)) - len(active) - len(starting)

    def may_start(node: str) -> bool:
        return node not in taken and node not in world.awaited and node not in world.held_back

    again = sorted((one.due, node) for node, one in tries.items() if one.due <= world.moment)
    nodes: Iterable[str] = chain(
        (node for node in left if node not in tries),
        (node for _, node in again if node not in world.silent),
    )
    if world.failing:
        nodes = sorted(nodes, key=lambda node: node in world.failing)
    return [StartPuller(node=node) for node in islice(filter(may_start, nodes), max(0, min(free, world.room)))]


def _all_ends(world: World) -> tuple[EndPuller, ...]:
    return tuple(EndPuller(pod=puller.ref) for puller in world.pullers if may_end(world, puller))


def _deadline(world: World) -> float:
    """When it is over in any case, in seconds since 1970."""
    seconds = world.job.spec.completion_policy.active_deadline_seconds
    if seconds is None or world.job.spec.keeps_on:
        return inf
    return (epoch(world.status.start_time) or world.now) + seconds


def _end(world: World, settled: Mapping[str, str], words: str, news: News | None = None) -> Plan:
    """Whoever does not have it by now has failed."""
    missing = {node: settled.get(node, NEVER_BEGUN) for node in world.nodes if settled.get(node) != PULLED}
    status = _status(world, {**settled, **missing}, 0, words)
    return Plan(
        actions=_all_ends(world),
        settled=news.settled if news is not None else {},
        tries={},
        status=replace(status, completion_time=rfc3339(world.now)),
        notes=(
            *(news.notes if news is not None else ()),
            Note(warning=bool(missing), reason=IMAGE_PULL_JOB_COMPLETED, message=status.message),
        ),
    )


def _after_the_end(world: World) -> Plan:
    """No puller stays, and the job goes in its time."""
    status, policy = world.status, world.job.spec.completion_policy
    actions: tuple[Action, ...] = _all_ends(world)
    wake_at, ttl, completed = inf, policy.ttl_seconds_after_finished, epoch(status.completion_time)
    if completed is not None and ttl is not None and not world.job.dying and not world.pullers:
        left = completed + ttl - world.now
        if left > 0:
            wake_at = world.moment + left
        elif not {world.job.uid} & {*world.awaited, *world.held_back}:
            actions = (DeleteJob(job=world.job.ref),)
    return Plan(actions=actions, settled={}, tries={}, status=status, wake_at=wake_at)


def _status(world: World, settled: Mapping[str, str], active: int, words: str) -> ImagePullJobStatus:
    failed = sorted(node for node, why in settled.items() if why)
    desired, succeeded = len(world.nodes), len(settled) - len(failed)
    if words == RUNNING:
        words = f"{words}, progress {100 * succeeded / max(desired, 1):.1f}%"
    told = [f"{failed[0]}: {settled[failed[0]]}"] if failed else []
    return ImagePullJobStatus(
        desired=desired,
        active=active,
        succeeded=succeeded,
        failed=len(failed),
        failed_nodes=tuple(failed[:FAILED_NODES_KEPT]) or None,
        message=shortened("; ".join([words, *([world.trouble] if world.trouble else told)])),
        start_time=world.status.start_time or rfc3339(world.now),
        completion_time=world.status.completion_time,
    )
