"""Image pre-download: ImagePullJobs of a rollout or a user, their pullers, and why pulling failed on a node.

If the kind is not installed, or something cannot be read, less is shown and nothing fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import Final, TypeVar

from msgspec.structs import replace

from controller.api.image_pull_job import JOB_KIND, PULLER_LABEL, ImagePullJob, PullState, targets
from controller.api.node import Node
from controller.api.objects import epoch
from controller.kube.errors import ApiError, Forbidden, NotFound
from controller.kube.requests import IMAGE_PULL_JOBS, NODES_WITH_IMAGES, PULLERS
from kubectl_plugin.cluster.documents import list_objects
from kubectl_plugin.cluster.events import EVENTS
from kubectl_plugin.cluster.session import Invocation, Session
from kubectl_plugin.cluster.watches import MIN_INTERVAL, Watched, WatchedObjects, WatchSet
from kubectl_plugin.rollout.snapshot import PullProgress, Snapshot

T = TypeVar("T")
IMAGES_EVERY: Final = 30.0
"""Seconds until nodes are read again for their images; kubelets report no more often."""
OF_JOBS: Final = (("fieldSelector", f"involvedObject.kind={JOB_KIND}"),)
"""Selects Events about ImagePullJobs."""
READ_SECONDS: Final = 5.0
"""Seconds after which a one-time report goes on without the image pulls."""


async def nodes_with_images(session: Session) -> tuple[Node, ...] | None:
    """All nodes; None without the right to list them. Raises ApiError."""
    try:
        return tuple(await list_objects(session.client, NODES_WITH_IMAGES))
    except Forbidden:
        return None


class PullFollowing(WatchSet):
    """The current state of a job; see `following_pull`."""

    bunch = MIN_INTERVAL

    def __init__(self, invocation: Invocation, made: ImagePullJob, nodes: Iterable[Node]) -> None:
        super().__init__()
        client, only = invocation.session.client, replace(PULLERS, only=f"{PULLER_LABEL}={made.uid}")
        self._made, self._targets = made, targets(made, nodes, None)
        self._having, self._words = {*self._targets.with_image}, dict[str, str]()
        named = (("fieldSelector", f"metadata.name={made.name}"),)
        self.job = WatchedObjects(client, IMAGE_PULL_JOBS, made.namespace, named, self._news.set)
        self.pullers = WatchedObjects(client, only, made.namespace, (), self._learn, dispensable=True)

    def pull(self) -> PullProgress | None:
        """The progress of the job; None once it is deleted."""
        job = self.job.found.get(self._made.key)
        if job is None or job.uid != self._made.uid:
            return None
        return PullProgress(
            job=job,
            nodes=self._targets.nodes,
            pullers=tuple(self.pullers.found.values()),
            having=self._having,
            words=self._words,
        )

    def _learn(self) -> None:
        """Keep what pullers report, because each is deleted soon after."""
        for puller in self.pullers.found.values():
            if puller.state is PullState.SUCCEEDED:
                self._having.add(puller.node)
            elif puller.why:
                self._words[puller.node] = puller.why
        self._news.set()


@asynccontextmanager
async def following_pull(
    invocation: Invocation, made: ImagePullJob, nodes: Iterable[Node]
) -> AsyncIterator[PullFollowing]:
    """Keep the job up to date while the block runs. `nodes` is empty if they may not be listed. Raises ApiError for
    permanent errors, also in the block."""
    follow = PullFollowing(invocation, made, nodes)
    for one in (follow.job, follow.pullers):
        await one.begin(invocation.terminal.note)
    async with follow.keeping(follow.job, follow.pullers):
        yield follow


class _ReadOnDemand(WatchedObjects[T]):
    """Objects read on first use and watched from then on; empty without the right to see them."""

    current = True

    async def read(self) -> list[T]:
        """Sorted by key. Raises ApiError."""
        if not self.is_read.is_set():
            await self.refresh()
        return [self.found[key] for key in sorted(self.found)]

    async def refresh(self) -> None:
        try:
            await super().refresh()
        except (Forbidden, NotFound):
            self.found, self.over = {}, True
            self.is_read.set()

    async def watch(self) -> None:
        await self.is_read.wait()
        if not self.over:
            await super().watch()


class ImagesAhead:
    """Caches slow reads; a verb that reports repeatedly keeps `watched` up to date."""

    def __init__(
        self, session: Session, namespaces: Iterable[str], on_news: Callable[[], None] = lambda: None
    ) -> None:
        each = sorted({*namespaces})
        self._session, client = session, session.client
        self._jobs = {one: _ReadOnDemand(client, IMAGE_PULL_JOBS, one, (), on_news) for one in each}
        self._pullers = {one: _ReadOnDemand(client, PULLERS, one, (), on_news) for one in each}
        self._events = {one: _ReadOnDemand(client, EVENTS, one, OF_JOBS, on_news) for one in each}
        self._nodes: tuple[Node, ...] = ()
        self._listed = -inf
        self._words: dict[str, dict[str, str]] = {}
        """Why pulling failed, by the job's uid and node."""

    @property
    def watched(self) -> tuple[Watched, ...]:
        return (*self._jobs.values(), *self._pullers.values(), *self._events.values())

    async def pulls_of(self, snapshot: Snapshot) -> tuple[PullProgress, ...]:
        """Progress of the ImagePullJobs for the revision being rolled out; empty if none is. Raises ApiError."""
        if not _rolls_out(snapshot):
            return ()
        identity = snapshot.daemonset.identity
        hashes = {one.revision.hash for one in snapshot.revisions if one.revision.identity == identity}
        found, uid = await self._jobs[snapshot.key.namespace].read(), snapshot.daemonset.uid
        return tuple(
            [await self._pull(snapshot, job) for job in found if job.owner_uid == uid and job.hash in hashes]
        )

    async def _pull(self, snapshot: Snapshot, job: ImagePullJob) -> PullProgress:
        with_pods = {one.pod.node for one in snapshot.pods if one.pod.hash != job.hash and not one.pod.terminating}
        rolling = snapshot.daemonset.rolling_update
        nodes, began = await self._nodes_now(), epoch(job.status.start_time if job.status is not None else None)
        meant = targets(job, nodes, with_pods, rolling.selector if rolling else None)
        pull = PullProgress(
            job=job,
            nodes=meant.nodes or sorted(with_pods, reverse=True),
            having=meant.with_image,
            joined={node.name for node in nodes if began is not None and node.created > began},
        )
        if not pull.over:
            pull = replace(pull, pullers=tuple(await self._pullers[job.namespace].read()))
        return replace(pull, words=await self._failure_words(pull))

    async def _nodes_now(self) -> tuple[Node, ...]:
        now = asyncio.get_running_loop().time()
        if now - self._listed >= IMAGES_EVERY:
            self._nodes, self._listed = await nodes_with_images(self._session) or (), now
        return self._nodes

    async def _failure_words(self, pull: PullProgress) -> dict[str, str]:
        """Why pulling failed, by node. Read from Events, one for each failure, as the job's status holds only one."""
        known = self._words.setdefault(pull.job.uid, {})
        if not set(pull.status.failed_nodes or ()) <= known.keys():
            for uid, message in await self._events[pull.job.namespace].read():
                node, colon, words = message.partition(": ")
                if uid == pull.job.uid and colon and node in pull.nodes:
                    known[node] = words
        return dict(known)


async def with_pulls(invocation: Invocation, seen: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """The snapshots with their image pulls; if these cannot be read, unchanged and with a note."""
    ahead = ImagesAhead(invocation.session, [one.key.namespace for one in seen])
    try:
        async with asyncio.timeout(READ_SECONDS):
            return tuple([replace(one, pulls=await ahead.pulls_of(one)) for one in seen])
    except (ApiError, TimeoutError) as error:
        words = str(error) if isinstance(error, ApiError) else f"no answer within {READ_SECONDS:g}s"
        invocation.terminal.note(f"cannot tell which images are pulled ahead: {words}")
        return tuple(seen)


def _rolls_out(snapshot: Snapshot) -> bool:
    status = snapshot.daemonset.status
    seen = status is not None and status.observed_generation >= snapshot.daemonset.generation
    return not seen or status is None or status.updated_number_scheduled < status.desired_number_scheduled
