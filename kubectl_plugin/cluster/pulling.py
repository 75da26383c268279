"""One ImagePullJob and its pullers, kept up to date by watches; the rights to see pullers may be missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final, Generic, TypeVar

from controller.api.image_pull_job import ImagePullJob
from controller.api.meta import Key
from controller.api.node import Node
from controller.api.pull_targets import targets
from controller.api.puller import Puller, Pulling
from controller.kube.client import Query
from controller.kube.decode import Bookmark, Malformed, Seen
from controller.kube.errors import ApiError, Forbidden
from controller.kube.kinds import IMAGE_PULL_JOBS
from controller.kube.resource import Resource, Wire
from kubectl_plugin.cluster.images_ahead import pullers_of
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.cluster.upkeep import Upkeep
from kubectl_plugin.cluster.watched import LASTING
from kubectl_plugin.report.pulls import Pull

W = TypeVar("W", bound=Wire)
T = TypeVar("T")

APART: Final = 0.25
"""Seconds between two looks at the least."""


class _Kept(Generic[W, T]):
    """`found` are the objects of one kind that fit a query."""

    def __init__(
        self,
        session: Session,
        resource: Resource[W, T],
        namespace: str,
        query: Query,
        on_news: Callable[[], None],
    ) -> None:
        self.name = resource.name
        self.found: dict[Key, T] = {}
        self.forbidden = False
        self._client, self._resource, self._namespace, self._query = session.client, resource, namespace, query
        self._on_news, self._version = on_news, ""

    @property
    def over(self) -> bool:
        return self.forbidden

    async def refresh(self) -> None:
        page = await self._client.page(self._resource, self._namespace, query=self._query)
        self.found = {one.key: one.obj for one in page.items if isinstance(one, Seen) and one.obj is not None}
        self._version = page.version
        self._on_news()

    def refused(self, error: ApiError) -> None:
        raise error

    async def watch(self) -> None:
        query = (*self._query, ("resourceVersion", self._version), *LASTING)
        async with self._client.watch(self._resource, self._namespace, query=query) as bunches:
            async for bunch in bunches:
                for event in bunch:
                    self._version = event.version or self._version
                    if isinstance(event, Bookmark | Malformed):
                        continue
                    self.found.pop(event.key, None)
                    if event.obj is not None:
                        self.found[event.key] = event.obj
                    self._on_news()


class _KeptPullers(_Kept[W, T]):
    """Who may not see them is told less."""

    def refused(self, error: ApiError) -> None:
        if not isinstance(error, Forbidden):
            raise error
        self.forbidden = True


class PullFollowing:
    """What is known of a job; see `following_pull`."""

    def __init__(self, invocation: Invocation, made: ImagePullJob, nodes: Iterable[Node]) -> None:
        session, only = invocation.session, pullers_of(made)
        self._made, self._targets = made, targets(made, nodes, None)
        self._having, self._words = {*self._targets.having}, dict[str, str]()
        self._news = asyncio.Event()
        self.upkeep = Upkeep()
        named = (("fieldSelector", f"metadata.name={made.name}"),)
        self.job = _Kept(session, IMAGE_PULL_JOBS, made.namespace, named, self._news.set)
        self.pullers = _KeptPullers(session, only, made.namespace, (), self._learn)

    def pull(self) -> Pull | None:
        """None: it is gone."""
        job = self.job.found.get(self._made.key)
        if job is None or job.uid != self._made.uid:
            return None
        return Pull(
            job=job,
            nodes=self._targets.nodes,
            pullers=tuple(self.pullers.found.values()),
            having=self._having,
            words=self._words,
        )

    async def changed(self, seconds: float) -> None:
        """Wait for news, at most so many seconds, and let them come together."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
                await asyncio.sleep(APART)
        except TimeoutError:
            return
        self._news.clear()

    def _learn(self) -> None:
        """A puller is gone soon after it has told."""
        for puller in self.pullers.found.values():
            self._note(puller)
        self._news.set()

    def _note(self, puller: Puller) -> None:
        if puller.state is Pulling.DONE:
            self._having.add(puller.node)
        elif puller.why:
            self._words[puller.node] = puller.why


@asynccontextmanager
async def following_pull(
    invocation: Invocation, made: ImagePullJob, nodes: Iterable[Node]
) -> AsyncIterator[PullFollowing]:
    """Keep up with the job while the block runs. `nodes`: empty where they may not be listed.

    Raises ApiError for what cannot be mended by trying again, also in the block.
    """
    follow = PullFollowing(invocation, made, nodes)
    await follow.job.refresh()
    try:
        await follow.pullers.refresh()
    except Forbidden as error:
        follow.pullers.refused(error)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(follow.upkeep.keep(one)) for one in (follow.job, follow.pullers)]
            yield follow
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
