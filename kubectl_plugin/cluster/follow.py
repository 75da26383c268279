"""Keeps DaemonSets, their pods and their ImagePullJobs up to date by watches.

Nodes are listed once a minute, and revisions when there may be a new one. Without the right to watch, objects are
read every two seconds instead. A broken watch is restarted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Final

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.node import Node
from controller.api.objects import JSONObject, Key
from controller.kube.errors import Forbidden, NotFound
from controller.kube.requests import DAEMONSETS
from kubectl_plugin.cluster import documents, reads
from kubectl_plugin.cluster.image_pulls import IMAGES_EVERY, ImagesAhead
from kubectl_plugin.cluster.reads import PODS
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.cluster.watches import (
    MIN_INTERVAL,
    ReadAgain,
    Watched,
    WatchedObjects,
    WatchSet,
    right_is_missing,
)
from kubectl_plugin.rollout.snapshot import PodDetail, PullProgress, Snapshot, Unread

NODES_EVERY: Final = 60.0
"""Seconds between lists of nodes."""
NODES_AGAIN: Final = 5.0
"""Seconds until nodes are listed again if the controller counts another number of them."""


class Following(WatchSet):
    """The current state of some DaemonSets; see `following`."""

    def __init__(self, invocation: Invocation, first: Sequence[Snapshot]) -> None:
        super().__init__()
        self._invocation = invocation
        self._nodes: tuple[Node, ...] | None = None
        self._pulls: dict[Key, tuple[PullProgress, ...]] = {}
        self._listing = ReadAgain(self._list_nodes, every=NODES_EVERY, bunch=NODES_AGAIN, dispensable=True)
        self._looking = ReadAgain(self._look_at_pulls, every=IMAGES_EVERY, bunch=MIN_INTERVAL, dispensable=True)
        self._ahead = ImagesAhead(invocation.session, (one.key.namespace for one in first), self._looking.mark_stale)
        self._objects = [_WatchedDaemonSet(invocation, one, self._note_change) for one in first]
        self._pods = [self._pods_of(one.daemonset) for one in first]

    def snapshots(self) -> tuple[Snapshot | None, ...]:
        """Snapshots in the order of `first`; None for a deleted DaemonSet."""
        return tuple(
            None if one.over else self._snapshot(one, pods)
            for one, pods in zip(self._objects, self._pods, strict=True)
        )

    def mark_nodes_stale(self) -> None:
        """List the nodes again within seconds: the controller counts another number of them."""
        self._listing.mark_stale()

    @asynccontextmanager
    async def begun(self) -> AsyncIterator[Following]:
        """Waits for pods and nodes, without which nothing can be drawn, but not for image pulls."""
        for one in (self._listing, *self._pods):
            await one.begin(self._invocation.terminal.note)
        watched = (self._listing, self._looking, *self._objects, *self._pods, *self._ahead.watched)
        async with self.keeping(*watched):
            yield self

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
        """The pods that the DaemonSet controls. The API selects by label only, so others are filtered here."""
        return WatchedObjects(
            self._invocation.session.client,
            PODS,
            daemonset.namespace,
            reads.owned_query(daemonset),
            self._note_change,
            wanted=lambda one: one.pod.owner_uid == daemonset.uid,
            dispensable=True,
        )

    def _snapshot(self, watched: _WatchedDaemonSet, pods: WatchedObjects[PodDetail]) -> Snapshot:
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


def following(invocation: Invocation, first: Sequence[Snapshot]) -> AbstractAsyncContextManager[Following]:
    """Keep the DaemonSets of `first` up to date while the block runs; reads their pods and nodes before it begins.
    Raises ApiError for permanent errors, also in the block."""
    return Following(invocation, first).begun()


class _WatchedDaemonSet(Watched):
    """The latest document of one DaemonSet, and its revisions, listed again when there may be another one."""

    current = True

    def __init__(self, invocation: Invocation, first: Snapshot, on_news: Callable[[], None]) -> None:
        unread = tuple(one for one in first.unread if one.what == "controllerrevisions")
        self.snapshot = replace(first, unread=unread)
        self._invocation, self._on_news = invocation, on_news
        self._version = reads.meta_of(first.document).resource_version
        failed = any(not one.is_forbidden for one in unread)
        self._revised = None if failed else _revision_marks(first.daemonset)

    async def refresh(self) -> None:
        try:
            document = await documents.get(self._invocation.session, DAEMONSETS, self.snapshot.key)
        except NotFound as error:
            if error.name != self.snapshot.key.name:  # the 404 is from a proxy, or about the whole kind
                raise
            self._note_deletion()
            return
        await self._see(document)

    async def watch(self) -> None:
        await self._read_revisions()
        watch = documents.watch(self._invocation.session, DAEMONSETS, self.snapshot.key, self._version)
        async with aclosing(watch) as events:
            async for kind, document in events:
                if kind == "BOOKMARK":
                    self._version = reads.meta_of(document).resource_version
                elif kind == "DELETED":
                    self._note_deletion()
                else:
                    await self._see(document)
                if self.over:
                    return

    async def _see(self, document: JSONObject) -> None:
        """Store the newer `document`. Another uid means that the followed object was deleted."""
        made = reads.with_document(self.snapshot, document)
        if made.daemonset.uid != self.snapshot.daemonset.uid:
            self._note_deletion()
            return
        self._version = reads.meta_of(document).resource_version
        self.snapshot = made
        self._on_news()
        await self._read_revisions()

    async def _read_revisions(self) -> None:
        """List the revisions if the DaemonSet changed in a way that may have created or renumbered one. Without the
        right to list them they are empty and `unread`. Raises ApiError for other failures; the next call retries."""
        daemonset = self.snapshot.daemonset
        revised = _revision_marks(daemonset)
        if revised == self._revised:
            return
        try:
            revisions = await reads.revisions_of(self._invocation, daemonset)
            self.snapshot = replace(self.snapshot, revisions=revisions, unread=())
        except Forbidden as error:
            if not right_is_missing(error):
                raise
            self.snapshot = replace(self.snapshot, revisions=(), unread=(Unread(what="controllerrevisions"),))
        self._revised = revised
        self._on_news()

    def _note_deletion(self) -> None:
        self.over = True
        self._on_news()


def _revision_marks(daemonset: DaemonSet) -> tuple[object, ...]:
    """Fields of the DaemonSet that change whenever a revision is created or renumbered."""
    status = daemonset.status
    return (daemonset.generation, status and status.update_revision, status and status.observed_generation)
