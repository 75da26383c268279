"""Keeps DaemonSets up to date by watches: on each object, on its pods, and on the jobs that pull its images ahead.

Nodes are listed once a minute, and revisions when there may be a new one. What may not be watched is read every other
second instead. A watch whose connection breaks is begun again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.node import Node
from controller.api.objects import Key
from controller.kube.errors import Forbidden
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.image_pulls import IMAGES_EVERY, ImagesAhead
from kubectl_plugin.cluster.reads import PODS
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.cluster.watches import (
    MIN_INTERVAL,
    ReadAgain,
    Upkeep,
    Watched,
    WatchedObject,
    WatchedObjects,
    right_is_missing,
)
from kubectl_plugin.rollout.snapshot import PodDetail, PullProgress, Snapshot, Unread

NODES_EVERY: Final = 60.0
"""Seconds between two lists of the nodes."""
NODES_AGAIN: Final = 5.0
"""Seconds until nodes are listed again where the controller counts another number of them."""


class Following(Upkeep):
    """The present state of some DaemonSets; `following` makes one and keeps it up to date."""

    def __init__(self, invocation: Invocation, first: Sequence[Snapshot]) -> None:
        super().__init__()
        self._invocation = invocation
        self._nodes: tuple[Node, ...] | None = None
        self._pulls: dict[Key, tuple[PullProgress, ...]] = {}
        self._listing = ReadAgain(self._list_nodes, every=NODES_EVERY, bunch=NODES_AGAIN, dispensable=True)
        self._looking = ReadAgain(self._look_at_pulls, every=IMAGES_EVERY, bunch=MIN_INTERVAL, dispensable=True)
        self._ahead = ImagesAhead(invocation.session, (one.key.namespace for one in first), self._looking.mark_stale)
        self._objects = [WatchedObject(invocation, one, self._note_change) for one in first]
        self._pods = [self._pods_of(one.daemonset) for one in first]

    def snapshots(self) -> tuple[Snapshot | None, ...]:
        """A snapshot of each DaemonSet, in the order of `first`; None for one that was deleted."""
        return tuple(
            None if one.over else self._snapshot(one, pods)
            for one, pods in zip(self._objects, self._pods, strict=True)
        )

    def mark_nodes_stale(self) -> None:
        """Tell that the controller counts another number of nodes: they are listed again within seconds."""
        self._listing.mark_stale()

    async def load(self) -> None:
        """Read pods and nodes for the first time, which a caller needs before it can draw anything.

        Images that are pulled ahead are not waited for: they are read while the DaemonSets are kept up to date.
        Raises ApiError where trying again does not help.
        """
        for one in (self._listing, *self._pods):
            await one.begin(self._invocation.terminal.note)

    @property
    def watched(self) -> tuple[Watched, ...]:
        return (self._listing, self._looking, *self._objects, *self._pods, *self._ahead.watched)

    def _note_change(self) -> None:
        self._news.set()
        self._looking.mark_stale()

    async def _look_at_pulls(self) -> None:
        for one in self.snapshots():
            if one is not None and (found := await self._ahead.pulls_of(one)) != self._pulls.get(one.key, ()):
                self._pulls[one.key] = found
                self._news.set()

    async def _list_nodes(self) -> None:
        try:
            self._nodes = await reads.nodes_of(self._invocation)
        except Forbidden as error:
            if not right_is_missing(error):
                raise
            self._nodes = None
        self._news.set()

    def _pods_of(self, daemonset: DaemonSet) -> WatchedObjects[PodDetail]:
        """The pods that the DaemonSet controls. The API selects by label only, so that others may come with them."""
        return WatchedObjects(
            self._invocation.session.client,
            PODS,
            daemonset.namespace,
            reads.owned_query(daemonset),
            self._note_change,
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
    """Keep the DaemonSets of `first` up to date while the block runs. The pods and nodes of `first` are not used.

    Pods and nodes are read before the block begins. Raises ApiError where trying again does not help, also in the
    block.
    """
    follow = Following(invocation, first)
    await follow.load()
    async with follow.keeping(*follow.watched):
        yield follow
