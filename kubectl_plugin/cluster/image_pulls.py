"""Keeps an ImagePullJob of the user and its pullers up to date by watches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from msgspec.structs import replace

from controller.api.image_pull_job import PULLER_LABEL, ImagePullJob, Puller, PullState, targets
from controller.api.node import Node
from controller.api.pod import PodView
from controller.kube.errors import Forbidden
from controller.kube.requests import IMAGE_PULL_JOBS, NODES_WITH_IMAGES, PULLERS, Resource
from kubectl_plugin.cluster.documents import list_objects
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.cluster.upkeep import MIN_INTERVAL, Upkeep
from kubectl_plugin.cluster.watched import WatchedObjects
from kubectl_plugin.report.pulls import PullProgress


def pullers_of(job: ImagePullJob) -> Resource[PodView, Puller]:
    """The resource of pullers, reduced to those of `job`."""
    return replace(PULLERS, only=f"{PULLER_LABEL}={job.uid}")


async def nodes_with_images(session: Session) -> tuple[Node, ...] | None:
    """All nodes; None without the right to list them. Raises ApiError."""
    try:
        return tuple(await list_objects(session.client, NODES_WITH_IMAGES))
    except Forbidden:
        return None


class PullFollowing(Upkeep):
    """The present state of a job; `following_pull` makes one and keeps it up to date."""

    bunch = MIN_INTERVAL

    def __init__(self, invocation: Invocation, made: ImagePullJob, nodes: Iterable[Node]) -> None:
        super().__init__()
        session, only = invocation.session, pullers_of(made)
        self._made, self._targets = made, targets(made, nodes, None)
        self._having, self._words = {*self._targets.with_image}, dict[str, str]()
        named = (("fieldSelector", f"metadata.name={made.name}"),)
        self.job = WatchedObjects(session.client, IMAGE_PULL_JOBS, made.namespace, named, self._news.set)
        self.pullers = WatchedObjects(session.client, only, made.namespace, (), self._learn, dispensable=True)

    def pull(self) -> PullProgress | None:
        """The progress of the job; None after it was deleted."""
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
        """Note what the pullers report, because each is deleted soon afterwards."""
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
    """Keep the job up to date while the block runs. `nodes`: all nodes; empty if they may not be listed.

    Raises ApiError where trying again does not help, also in the block.
    """
    follow = PullFollowing(invocation, made, nodes)
    for one in (follow.job, follow.pullers):
        await one.begin(invocation.terminal.note)
    async with follow.keeping(follow.job, follow.pullers):
        yield follow
