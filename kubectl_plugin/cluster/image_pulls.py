"""ImagePullJobs, their pullers, and what was heard of nodes where it failed.

Of those that go ahead of a rollout less is told where the kind is not installed, or something may not or cannot be
read: nothing else depends on it. One that was made by hand is followed by watches.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import Final

from msgspec.structs import replace

from controller.api.image_pull_job import ImagePullJob, targets
from controller.api.meta import epoch
from controller.api.node import Node
from controller.api.puller import PULLER_LABEL, Puller, PullerView, Pulling
from controller.kube.errors import ApiError, Forbidden, NotFound
from controller.kube.kinds import IMAGE_PULL_JOBS, NODES_WITH_IMAGES, PULLERS
from controller.kube.resource import Resource
from kubectl_plugin.cluster.documents import listed
from kubectl_plugin.cluster.events import EVENTS
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.cluster.upkeep import APART, Upkeep, comes, going_on
from kubectl_plugin.cluster.watched import WatchedObjects
from kubectl_plugin.report.pulls import PullProgress
from kubectl_plugin.report.snapshot import Snapshot

NODES_EVERY: Final = 30.0
"""Seconds until nodes are asked again which images they have: kubelets do not tell more often."""

WITHIN: Final = 5.0
"""Seconds after which a single look does without them."""


class ImagePulls:
    """Remembers from one look to the next what takes long to read."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._nodes: tuple[Node, ...] = ()
        self._listed = -inf
        self._words: dict[str, dict[str, str]] = {}
        """By the job's uid."""
        self.out_of_sight = False
        """The kind is not installed, or may not be read."""

    async def of(self, snapshot: Snapshot) -> tuple[PullProgress, ...]:
        """Raises ApiError."""
        if not _rolls_out(snapshot) or self.out_of_sight:
            return ()
        identity = snapshot.daemonset.identity
        hashes = {one.revision.hash for one in snapshot.revisions if one.revision.identity == identity}
        try:
            found = await listed(self._session.client, IMAGE_PULL_JOBS, snapshot.daemonset.namespace)
        except (Forbidden, NotFound):
            self.out_of_sight = True
            return ()
        uid = snapshot.daemonset.uid
        return tuple(
            [await self._pull(snapshot, job) for job in found if job.owner_uid == uid and job.hash in hashes]
        )

    async def _pull(self, snapshot: Snapshot, job: ImagePullJob) -> PullProgress:
        with_pods = {one.pod.node for one in snapshot.pods if one.pod.hash != job.hash and not one.pod.dying}
        rolling = snapshot.daemonset.rolling_update
        nodes, began = await self._nodes_now(), epoch(job.status.start_time if job.status is not None else None)
        meant = targets(job, nodes, with_pods, rolling.selector if rolling else None)
        pull = PullProgress(
            job=job,
            nodes=meant.nodes or sorted(with_pods, reverse=True),
            having=meant.having,
            joined={node.name for node in nodes if began is not None and node.created > began},
        )
        if not pull.over:
            pull = replace(pull, pullers=await self._pullers(job))
        return replace(pull, words=await self._heard(pull))

    async def _nodes_now(self) -> tuple[Node, ...]:
        now = asyncio.get_running_loop().time()
        if now - self._listed >= NODES_EVERY:
            self._nodes, self._listed = await nodes_with_images(self._session) or (), now
        return self._nodes

    async def _pullers(self, job: ImagePullJob) -> tuple[Puller, ...]:
        with suppress(Forbidden):
            return tuple(await listed(self._session.client, pullers_of(job), job.namespace))
        return ()

    async def _heard(self, pull: PullProgress) -> dict[str, str]:
        """The controller tells of each failure in an event, `node: words`; the status has room for one."""
        known = self._words.setdefault(pull.job.uid, {})
        if not set(pull.status.failed_nodes or ()) <= known.keys():
            query = (("fieldSelector", f"involvedObject.uid={pull.job.uid}"),)
            with suppress(Forbidden):
                for message in await listed(self._session.client, EVENTS, pull.job.namespace, query):
                    node, colon, words = message.partition(": ")
                    if colon and node in pull.nodes:
                        known[node] = words
        return dict(known)


async def with_pulls(invocation: Invocation, seen: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """The same with the images that go ahead; where these cannot be read a note says so."""
    ahead = ImagePulls(invocation.session)
    try:
        async with asyncio.timeout(WITHIN):
            return tuple([replace(one, pulls=await ahead.of(one)) for one in seen])
    except (ApiError, TimeoutError) as error:
        words = str(error) if isinstance(error, ApiError) else f"no answer within {WITHIN:g}s"
        invocation.terminal.note(f"which images go ahead cannot be told: {words}")
        return tuple(seen)


def _rolls_out(snapshot: Snapshot) -> bool:
    status = snapshot.daemonset.status
    seen = status is not None and status.observed_generation >= snapshot.daemonset.generation
    return not seen or status is None or status.updated_number_scheduled < status.desired_number_scheduled


def pullers_of(job: ImagePullJob) -> Resource[PullerView, Puller]:
    return replace(PULLERS, only=f"{PULLER_LABEL}={job.uid}")


async def nodes_with_images(session: Session) -> tuple[Node, ...] | None:
    """All nodes; None without the right to list them. Raises ApiError."""
    try:
        return tuple(await listed(session.client, NODES_WITH_IMAGES))
    except Forbidden:
        return None


class PullFollowing(Upkeep):
    """What is known of a job; see `following_pull`."""

    def __init__(self, invocation: Invocation, made: ImagePullJob, nodes: Iterable[Node]) -> None:
        super().__init__()
        session, only = invocation.session, pullers_of(made)
        self._made, self._targets = made, targets(made, nodes, None)
        self._having, self._words = {*self._targets.having}, dict[str, str]()
        named = (("fieldSelector", f"metadata.name={made.name}"),)
        self.job = WatchedObjects(session.client, IMAGE_PULL_JOBS, made.namespace, named, self._news.set)
        self.pullers = WatchedObjects(session.client, only, made.namespace, (), self._learn, dispensable=True)

    def pull(self) -> PullProgress | None:
        """None: it is gone."""
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

    async def changed(self, seconds: float) -> None:
        """Wait for news, at most so many seconds, and let them come together."""
        if await comes(self._news, seconds):
            await asyncio.sleep(APART)  # a screen is not drawn for each event
            self._news.clear()

    def _learn(self) -> None:
        """A puller is gone soon after it has told."""
        for puller in self.pullers.found.values():
            if puller.state is Pulling.DONE:
                self._having.add(puller.node)
            elif puller.why:
                self._words[puller.node] = puller.why
        self._news.set()


@asynccontextmanager
async def following_pull(
    invocation: Invocation, made: ImagePullJob, nodes: Iterable[Node]
) -> AsyncIterator[PullFollowing]:
    """Keep up with the job while the block runs. `nodes`: empty where they may not be listed.

    Raises ApiError for what cannot be mended by trying again, also in the block.
    """
    follow = PullFollowing(invocation, made, nodes)
    for one in (follow.job, follow.pullers):
        await one.begin(invocation.terminal.note)
    async with going_on(follow.keep(follow.job), follow.keep(follow.pullers)):
        yield follow
