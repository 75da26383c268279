"""What `Upkeep` keeps up to date: one DaemonSet as a whole document, and lists of objects such as its pods."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.objects import JSONObject, Key
from controller.kube.client import Client
from controller.kube.decode import Bookmark, Malformed, Seen
from controller.kube.errors import ApiError, Forbidden, NotFound
from controller.kube.requests import DAEMONSETS, Query, Resource
from kubectl_plugin.cluster import documents, reads
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.cluster.retrying_reads import right_is_missing
from kubectl_plugin.cluster.upkeep import State, Watched
from kubectl_plugin.report.snapshot import Snapshot, Unread

T = TypeVar("T")


class WatchedObject(Watched):
    """One DaemonSet. `snapshot` has its newest document and its revisions, which are listed again when there may be
    another one."""

    state = State.CURRENT

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
        """Take over the newer `document`. One with another uid is another object: the followed one was deleted."""
        made = reads.with_document(self.snapshot, document)
        if made.daemonset.uid != self.snapshot.daemonset.uid:
            self._note_deletion()
            return
        self._version = reads.meta_of(document).resource_version
        self.snapshot = made
        self._on_news()
        await self._read_revisions()

    async def _read_revisions(self) -> None:
        """List the revisions again, if the DaemonSet has changed in a way that may have made or renumbered one.

        Without the right to list them they are none, and `unread` says so. Raises ApiError for any other failure; the
        next call then tries again.
        """
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
        self.end()
        self._on_news()


class WatchedObjects(Watched, Generic[T]):
    """A list of objects: those that `query` selects on the server and for which `wanted` holds here.

    `found` has them by key. It is empty before the first `refresh`, and is replaced as a whole by each further one.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[Any, T],
        namespace: str,
        query: Query,
        on_news: Callable[[], None],
        *,
        wanted: Callable[[T], bool] = lambda _: True,
        dispensable: bool = False,
    ) -> None:
        """`dispensable`: whether a user without the right to list them gets a report without them, and no error."""
        self.found: dict[Key, T] = {}
        self._client, self._resource, self._namespace, self._query = client, resource, namespace, query
        self._on_news, self._wanted, self._dispensable = on_news, wanted, dispensable
        self._version = ""

    async def refresh(self) -> None:
        found: dict[Key, T] = {}
        async for page in self._client.pages(self._resource, self._namespace, query=self._query):
            for item in page.items:
                if isinstance(item, Seen) and item.obj is not None and self._wanted(item.obj):
                    found[item.key] = item.obj
        is_news = not self._version or found != self.found
        self.found, self._version = found, page.version
        if is_news:
            self._on_news()

    def on_refusal(self, error: ApiError) -> None:
        if not (self._dispensable and isinstance(error, Forbidden)):
            raise error
        self.end()
        self._on_news()

    async def watch(self) -> None:
        query = (*self._query, *documents.from_version(self._version))
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


def _revision_marks(daemonset: DaemonSet) -> tuple[object, ...]:
    """The fields of the DaemonSet that change whenever a revision is created or renumbered. While they stay the same,
    the revisions that were listed are up to date.
    """
    status = daemonset.status
    return (daemonset.generation, status and status.update_revision, status and status.observed_generation)
