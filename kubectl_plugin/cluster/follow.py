"""DaemonSets and what surrounds them, kept up to date by watches: on each object, on its pods, and on the jobs that
pull its images ahead.

Nodes are listed now and then, revisions when there may be a new one. Where watching is forbidden the objects are read
every other second instead. A connection that breaks is taken up again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.meta import Key
from controller.api.node import Node
from controller.kube.errors import ApiError, Forbidden
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.images_ahead import IMAGES_EVERY, ImagesAhead
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.cluster.kinds import PODS
from kubectl_plugin.cluster.upkeep import (
    APART,
    LONGEST_PAUSE,
    POLL,
    Upkeep,
    at_last,
    comes,
    going_on,
    right_is_missing,
)
from kubectl_plugin.cluster.watched import WatchedObject, WatchedObjects
from kubectl_plugin.report.pulls import PullProgress
from kubectl_plugin.report.snapshot import PodDetail, Snapshot, Unread

NODES_EVERY: Final = 60.0
NODES_AGAIN: Final = 5.0
"""Seconds until they are listed again when the controller counts others."""


class Following(Upkeep):
    """What is known now; see `following`."""

    def __init__(self, invocation: Invocation, first: Sequence[Snapshot]) -> None:
        super().__init__()
        self._invocation = invocation
        self._last = 0.0
        self._nodes: tuple[Node, ...] | None = ()
        self._doubted = asyncio.Event()
        self._pulls, self._pulls_moved = dict[Key, tuple[PullProgress, ...]](), asyncio.Event()
        self.ahead = ImagesAhead(invocation.session, (one.key.namespace for one in first), self._pulls_moved.set)
        self.objects = [WatchedObject(invocation, one, self._saw) for one in first]
        self.pods = [self._pods_of(one.daemonset) for one in first]

    def snapshots(self) -> tuple[Snapshot | None, ...]:
        """In the order of the beginning; None for what is gone."""
        return tuple(
            None if one.over else self._snapshot(one, pods) for one, pods in zip(self.objects, self.pods, strict=True)
        )

    async def changed(self, seconds: float, *, apart: float = APART) -> None:
        """Wait for news, at most so many seconds. There are none within `apart` seconds after the last."""
        if not await comes(self._news, seconds):
            return
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(self._last + apart - loop.time(), 0.0))  # a screen is not drawn for each event
        self._last = loop.time()
        self._news.clear()

    def doubt_the_nodes(self) -> None:
        """They are listed again soon."""
        self._doubted.set()

    async def load(self) -> None:
        """The first state of all. Raises ApiError."""
        tell = self._invocation.terminal.note
        try:
            await at_last(self._list_nodes, tell)
        except Forbidden:
            self._nodes = None
        for one in self.pods:
            await one.begin(tell)

    async def follow_nodes(self) -> None:
        while True:
            if await comes(self._doubted, NODES_EVERY):
                await asyncio.sleep(NODES_AGAIN)  # a fleet that grows is listed once, not for each node
            try:
                await self._list_nodes()
            except ApiError as error:
                self.failed("nodes", error)
            else:
                self.works("nodes")

    async def follow_pulls(self) -> None:
        """After each change of what they depend on, and now and then for the images that nodes have."""
        pause = POLL
        while True:
            self._pulls_moved.clear()
            try:
                await self._look_at_pulls()
            except ApiError as error:
                self.failed("imagepulljobs", error)
                await asyncio.sleep(pause)  # after a failure
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            self.works("imagepulljobs")
            pause = POLL
            if await comes(self._pulls_moved, IMAGES_EVERY):
                await asyncio.sleep(APART)  # pods and pullers change in bunches

    def _saw(self) -> None:
        self._news.set()
        self._pulls_moved.set()

    async def _look_at_pulls(self) -> None:
        for one in self.snapshots():
            if one is not None and (found := await self.ahead.of(one)) != self._pulls.get(one.key, ()):
                self._pulls[one.key] = found
                self._news.set()

    async def _list_nodes(self) -> None:
        try:
            self._nodes = await reads.nodes_of(self._invocation)
        except Forbidden as error:
            if not right_is_missing(error):
                raise
            self._nodes = None
        self._doubted.clear()
        self._news.set()

    def _pods_of(self, daemonset: DaemonSet) -> WatchedObjects[PodDetail]:
        """Those that it controls."""
        return WatchedObjects(
            self._invocation.session.client,
            PODS,
            daemonset.namespace,
            reads.selected(daemonset),
            self._saw,
            wanted=lambda one: one.pod.owner_uid == daemonset.uid,
            dispensable=True,
        )

    def _snapshot(self, watched: WatchedObject, pods: WatchedObjects[PodDetail]) -> Snapshot:
        nodes = (Unread(what="nodes"),) if self._nodes is None else ()
        of_pods = (Unread(what="pods"),) if pods.over else ()
        return replace(
            watched.snapshot,
            pods=tuple(pods.found.values()),
            nodes=self._nodes,
            now=self._invocation.terminal.now(),
            pulls=self._pulls.get(watched.snapshot.key, ()),
            unread=(*nodes, *watched.snapshot.unread, *of_pods),
        )


@asynccontextmanager
async def following(invocation: Invocation, first: Sequence[Snapshot]) -> AsyncIterator[Following]:
    """Keep up with these objects while the block runs; of `first` only the DaemonSets and revisions are used.

    Entering reads pods and nodes. Raises ApiError for what cannot be mended by trying again, also in the block.
    """
    follow = Following(invocation, first)
    await follow.load()
    watches = map(follow.keep, (*follow.objects, *follow.pods, *follow.ahead.watched))
    async with going_on(follow.follow_nodes(), follow.follow_pulls(), *watches):
        yield follow
