"""One DaemonSet as a whole document, and objects of a kind such as its pods: read and watched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from controller.api.base import JSONObject
from controller.api.daemonset import DaemonSet
from controller.api.meta import Key
from controller.kube import errors
from controller.kube.client import STREAM_SILENCE, Client
from controller.kube.decode import Bookmark, Malformed, Seen
from controller.kube.errors import ApiError, Forbidden, NotFound, Unreadable
from controller.kube.kinds import DAEMONSETS
from controller.kube.request import Query, Request, Response
from controller.kube.resource import Resource, Wire
from controller.kube.sender import Call
from kubectl_plugin.cluster import documents, reads
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.cluster.kinds import PODS, PodDetailView
from kubectl_plugin.cluster.upkeep import right_is_missing
from kubectl_plugin.report.snapshot import PodDetail, Snapshot, Unread

W = TypeVar("W", bound=Wire)
T = TypeVar("T")

SERVER_ENDS: Final = "540"
"""Seconds after which the server shall end a watch by itself."""
LASTING: Final = (("allowWatchBookmarks", "true"), ("timeoutSeconds", SERVER_ENDS))

_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


class WatchedObject:
    """`snapshot` has the newest document; `revisions` are read anew when the template may have changed."""

    def __init__(self, invocation: Invocation, first: Snapshot, on_news: Callable[[], None]) -> None:
        self.name = f"daemonset {first.key}"
        self.snapshot, self.over = first, False
        self.revisions = first.revisions
        self.unread = tuple(one for one in first.unread if one.what == "controllerrevisions")
        """Of the revisions, at most one."""
        self._invocation, self._on_news = invocation, on_news
        self._version = reads.meta_of(first.document).resource_version
        failed = any(not one.is_forbidden for one in self.unread)
        self._revised = None if failed else _revised(first.daemonset)

    async def refresh(self) -> None:
        try:
            document = await documents.get(self._invocation.session, DAEMONSETS, self.snapshot.key)
        except NotFound as error:
            if error.name != self.snapshot.key.name:  # a proxy's, or of the whole kind
                raise
            self._went()
            return
        await self._see(document)

    def refused(self, error: ApiError) -> None:
        raise error

    async def watch(self) -> None:
        await self._read_revisions()
        key = self.snapshot.key
        selector = ("fieldSelector", f"metadata.name={key.name}")
        query = (("watch", "1"), selector, ("resourceVersion", self._version), *LASTING)
        call = Call(verb="watch", resource=DAEMONSETS.name, what=DAEMONSETS.describe(key))
        path = DAEMONSETS.collection(key.namespace)
        request = Request(method="GET", path=path, query=query, timeout=STREAM_SILENCE)
        async with self._invocation.session.sender.stream(call, request) as lines:
            async for kind, document in _told(call, lines):
                if kind == "BOOKMARK":
                    self._version = reads.meta_of(document).resource_version
                elif kind == "DELETED":
                    self._went()
                    return
                else:
                    await self._see(document)
                    if self.over:
                        return

    async def _see(self, document: JSONObject) -> None:
        """Another object of that name is not ours: ours is gone then."""
        made = reads.with_document(self.snapshot, document)
        if made.daemonset.uid != self.snapshot.daemonset.uid:
            self._went()
            return
        self._version = reads.meta_of(document).resource_version
        self.snapshot = made
        self._on_news()
        await self._read_revisions()

    async def _read_revisions(self) -> None:
        """Where there may be others than those that are known. Raises ApiError."""
        daemonset = self.snapshot.daemonset
        revised = _revised(daemonset)
        if revised == self._revised:
            return
        try:
            self.revisions, self.unread = await reads.revisions_of(self._invocation, daemonset), ()
        except Forbidden as error:
            if not right_is_missing(error):
                raise
            self.revisions, self.unread = (), (Unread(what="controllerrevisions"),)
        self._revised = revised
        self._on_news()

    def _went(self) -> None:
        self.over = True
        self._on_news()


class WatchedObjects(Generic[W, T]):
    """`found`: the objects of one kind that a query asks for and that are `wanted`."""

    def __init__(
        self,
        client: Client,
        resource: Resource[W, T],
        namespace: str,
        query: Query,
        on_news: Callable[[], None],
        *,
        name: str = "",
        wanted: Callable[[T], bool] = lambda _: True,
        dispensable: bool = False,
    ) -> None:
        """`dispensable`: who may not see them is told less."""
        self.name = name or resource.name
        self.found: dict[Key, T] = {}
        self.forbidden = False
        self._client, self._resource, self._namespace, self._query = client, resource, namespace, query
        self._on_news, self._wanted, self._dispensable = on_news, wanted, dispensable
        self._version = ""

    @property
    def over(self) -> bool:
        return self.forbidden

    async def refresh(self) -> None:
        found: dict[Key, T] = {}
        async for page in documents.pages(self._client, self._resource, self._namespace, self._query):
            for item in page.items:
                if isinstance(item, Seen) and item.obj is not None and self._wanted(item.obj):
                    found[item.key] = item.obj
        self.found, self._version = found, page.version
        self._on_news()

    def refused(self, error: ApiError) -> None:
        if not (self._dispensable and isinstance(error, Forbidden)):
            raise error
        self.forbidden = True
        self._on_news()

    async def watch(self) -> None:
        query = (*self._query, ("resourceVersion", self._version), *LASTING)
        async with self._client.watch(self._resource, self._namespace, query=query) as bunches:
            async for bunch in bunches:
                for event in bunch:
                    self._version = event.version or self._version
                    if not isinstance(event, Bookmark | Malformed):
                        self._see(event)

    def _see(self, event: Seen[T]) -> None:
        before = self.found.pop(event.key, None)
        if event.obj is not None and self._wanted(event.obj):
            self.found[event.key] = event.obj
        elif before is None:
            return
        self._on_news()


WatchedPods: TypeAlias = WatchedObjects[PodDetailView, PodDetail]


def watched_pods(client: Client, daemonset: DaemonSet, on_news: Callable[[], None]) -> WatchedPods:
    """Those that the DaemonSet controls."""
    return WatchedObjects(
        client,
        PODS,
        daemonset.namespace,
        reads.selected(daemonset),
        on_news,
        name=f"pods of {daemonset.key}",
        wanted=lambda one: one.pod.owner_uid == daemonset.uid,
        dispensable=True,
    )


def _revised(daemonset: DaemonSet) -> tuple[object, ...]:
    """What a new revision, or a new number of one, comes with."""
    status = daemonset.status
    return (daemonset.generation, status and status.update_revision, status and status.observed_generation)


async def _told(call: Call, lines: AsyncIterator[list[bytes]]) -> AsyncIterator[tuple[str, JSONObject]]:
    """A watch whose objects are whole documents."""
    async for bunch in lines:
        for line in bunch:
            try:
                event = _decoder.decode(line)
                kind, raw = msgspec.json.decode(event["type"], type=str), event["object"]
                document = msgspec.json.decode(raw)
            except (msgspec.MsgspecError, KeyError) as error:
                raise Unreadable("watch", call.what, str(error)) from error
            if kind == "ERROR":
                status = document.get("code") or 0
                raise errors.refused(call.verb, call.what, Response(status=status, body=bytes(raw)))
            yield kind, document
