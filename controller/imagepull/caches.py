"""The stores that jobs are decided from, and the questions asked of them."""

from __future__ import annotations

from controller.api.image_pull_job import ImagePullJob
from controller.api.meta import Key
from controller.api.node import Node
from controller.api.puller import Puller
from controller.runtime.store import Store


class JobCaches:
    def __init__(self, jobs: Store[ImagePullJob], pullers: Store[Puller], nodes: Store[Node]) -> None:
        self.jobs, self.pullers, self.nodes = jobs, pullers, nodes
        self._by_job = pullers.index(lambda puller: Key(puller.namespace, puller.job))
        self.fleet = 0
        """Another number whenever a node came, went, or got other labels or taints."""

    def pullers_of(self, job: Key) -> tuple[Puller, ...]:
        """Also those of a job of that name that is gone."""
        return tuple(self._by_job.get(job).values())

    async def whole(self) -> None:
        """Wait until no list is half taken in, until the next await."""
        while not (self.pullers.is_whole and self.nodes.is_whole):
            await self.pullers.whole()
            await self.nodes.whole()
