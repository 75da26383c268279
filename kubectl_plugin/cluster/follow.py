"""Keeps DaemonSets, their pods and their ImagePullJobs up to date by watches.

Nodes are listed once a minute, and revisions when there may be a new one. Without the right to watch, objects are
read every two seconds instead. A broken watch is restarted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from math import inf
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.image_pull_job import JOB_KIND, PULLER_LABEL, ImagePullJob, PullState, targets
from controller.api.node import Node
from controller.api.objects import JSONObject, Key, epoch
from controller.kube.decode import Malformed, Seen
from controller.kube.errors import ApiError, NotFound, Unreadable
from controller.kube.requests import DAEMONSETS, IMAGE_PULL_JOBS, NODES_WITH_IMAGES, PULLERS, Query, Resource
from kubectl_plugin.cluster import documents, reads
from kubectl_plugin.cluster.documents import list_objects, unless_forbidden, whole
from kubectl_plugin.cluster.reads import EVENTS, PODS
from kubectl_plugin.cluster.session import Invocation, Session
from kubectl_plugin.cluster.watches import MIN_INTERVAL, ReadAgain, State, Watched, WatchedObjects, WatchSet
from kubectl_plugin.rollout.snapshot import PodDetail, PullProgress, Snapshot, Unread

T = TypeVar("T")
IMAGES_EVERY: Final = 30.0
"""Seconds until nodes are read again for their images; kubelets report no more often."""
OF_JOBS: Final = (("fieldSelector", f"involvedObject.kind={JOB_KIND}"),)
"""Selects Events about ImagePullJobs."""
READ_SECONDS: Final = 5.0
"""Seconds after which a one-time report goes on without the image pulls."""


WHOLE: Final = whole(DAEMONSETS)


def _named(name: str) -> Query:
    return (("fieldSelector", f"metadata.name={name}"),)


async def nodes_with_images(session: Session) -> tuple[Node, ...] | None:
    """All nodes; None without the right to list them. Raises ApiError."""
    nodes = await unless_forbidden(list_objects(session.client, NODES_WITH_IMAGES))
    return None if nodes is None else tuple(nodes)


class PullFollowing(WatchSet):
    """The current state of a job; see `following_pull`."""

    bunch = MIN_INTERVAL

    def __init__(self, invocation: Invocation, made: ImagePullJob, nodes: Iterable[Node]) -> None:
        super().__init__()
        client, only = invocation.session.client, replace(PULLERS, only=f"{PULLER_LABEL}={made.uid}")
        self._made, self._targets = made, targets(made, nodes, None)
        self._having, self._words = {*self._targets.with_image}, dict[str, str]()
        self.job = WatchedObjects(client, IMAGE_PULL_JOBS, made.namespace, _named(made.name), self._news.set)
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
        """Keeps what pullers report, because each is deleted soon after."""
        for puller in self.pullers.found.values():
            if puller.state is PullState.SUCCEEDED:
                self._having.add(puller.node)
            elif puller.why:
                self._words[puller.node] = puller.why
        self._news.set()


def following_pull(
    invocation: Invocation, made: ImagePullJob, nodes: Iterable[Node]
) -> AbstractAsyncContextManager[PullFollowing]:
    """Keeps the job up to date while the block runs. `nodes` is empty if they may not be listed. Raises ApiError for
    permanent errors, also in the block."""
    follow = PullFollowing(invocation, made, nodes)
    return follow.keeping(first=(follow.job, follow.pullers), report=invocation.terminal.note)


class ImagesAhead:
    """Caches slow reads. `keep` gets what is read, to keep it up to date, if a verb reports repeatedly."""

    def __init__(
        self,
        session: Session,
        on_news: Callable[[], None] = lambda: None,
        keep: Callable[[Watched], None] = lambda _: None,
    ) -> None:
        self._session, self._on_news, self._keep = session, on_news, keep
        self._read: dict[object, WatchedObjects[Any]] = {}
        self._nodes: tuple[Node, ...] = ()
        self._listed = -inf
        self._words: dict[str, dict[str, str]] = {}
        """Why pulling failed, by the job's uid and node."""

    async def _objects(self, resource: Resource[Any, T], namespace: str, query: Query = ()) -> list[T]:
        """Sorted by key; empty without the kind, or the right to see them. Raises ApiError."""
        read = self._read.get((resource, namespace))
        if read is None:
            read = WatchedObjects(self._session.client, resource, namespace, query, self._on_news, dispensable=True)
            try:
                read.state = await read.refresh()
            except ApiError as error:
                read.state = read.state_when_refused(error)
            self._read[resource, namespace] = read
            self._keep(read)
        return [read.found[key] for key in sorted(read.found)]

    async def pulls_of(self, snapshot: Snapshot) -> tuple[PullProgress, ...]:
        """Progress of the ImagePullJobs for the revision being rolled out; empty if none is. Raises ApiError."""
        if not _rolls_out(snapshot):
            return ()
        identity = snapshot.daemonset.identity
        hashes = {detail.revision.hash for detail in snapshot.revisions if detail.revision.identity == identity}
        found, uid = await self._objects(IMAGE_PULL_JOBS, snapshot.key.namespace), snapshot.daemonset.uid
        return tuple(
            [await self._pull(snapshot, job) for job in found if job.owner_uid == uid and job.hash in hashes]
        )

    async def _pull(self, snapshot: Snapshot, job: ImagePullJob) -> PullProgress:
        with_pods = {
            detail.pod.node for detail in snapshot.pods if detail.pod.hash != job.hash and not detail.pod.terminating
        }
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
            pull = replace(pull, pullers=tuple(await self._objects(PULLERS, job.namespace)))
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
            for uid, message in await self._objects(EVENTS, pull.job.namespace, OF_JOBS):
                node, colon, words = message.partition(": ")
                if uid == pull.job.uid and colon and node in pull.nodes:
                    known[node] = words
        return dict(known)


async def with_pulls(invocation: Invocation, seen: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """The snapshots with their image pulls; if these cannot be read, unchanged and with a note."""
    ahead = ImagesAhead(invocation.session)
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
        self._ahead = ImagesAhead(invocation.session, self._looking.mark_stale, self.begin_to_keep)
        self._objects = [WatchedDaemonSet(invocation, one, self._note_change) for one in first]
        self._pods = [self._pods_of(one.daemonset) for one in first]

    def snapshots(self) -> tuple[Snapshot | None, ...]:
        """Snapshots in the order of `first`; None for a deleted DaemonSet."""
        return tuple(
            None if one.snapshot is None else self._snapshot(one.snapshot, pods)
            for one, pods in zip(self._objects, self._pods, strict=True)
        )

    @property
    def unread_words(self) -> list[str]:
        """What the user may not list, in words."""
        return [words for snapshot in self.snapshots() if snapshot is not None for words in snapshot.unread_words]

    def mark_nodes_stale(self) -> None:
        """Lists the nodes again within seconds: the controller counts another number of them."""
        self._listing.mark_stale()

    def begun(self) -> AbstractAsyncContextManager[Following]:
        """Waits for pods and nodes, without which nothing can be drawn, but not for image pulls."""
        first, report = (self._listing, *self._pods), self._invocation.terminal.note
        histories = [one.history for one in self._objects]
        return self.keeping(self._looking, *self._objects, *histories, first=first, report=report)

    def _note_change(self) -> None:
        self._news.set()
        self._looking.mark_stale()

    async def _look_at_pulls(self) -> None:
        for snapshot in self.snapshots():
            if snapshot is not None and (found := await self._ahead.pulls_of(snapshot)) != self._pulls.get(
                snapshot.key, ()
            ):
                self._pulls[snapshot.key] = found
                self._news.set()

    async def _list_nodes(self) -> None:
        self._nodes = await unless_forbidden(reads.nodes_of(self._invocation))
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

    def _snapshot(self, snapshot: Snapshot, pods: WatchedObjects[PodDetail]) -> Snapshot:
        nodes = (Unread(what="nodes"),) if self._nodes is None else ()
        of_pods = (Unread(what="pods"),) if pods.state is State.OVER else ()
        return replace(
            snapshot,
            pods=tuple(pods.found.values()),
            nodes=self._nodes,
            now=self._invocation.terminal.now(),
            pulls=self._pulls.get(snapshot.key, ()),
            unread=(*nodes, *snapshot.unread, *of_pods),
        )


def following(invocation: Invocation, first: Sequence[Snapshot]) -> AbstractAsyncContextManager[Following]:
    """Keeps the DaemonSets of `first` up to date while the block runs; reads their pods and nodes before it begins.
    Raises ApiError for permanent errors, also in the block."""
    return Following(invocation, first).begun()


class WatchedDaemonSet(WatchedObjects[JSONObject]):
    """One DaemonSet, read by its name, which needs fewer rights than a list."""

    state = State.CURRENT

    def __init__(self, invocation: Invocation, first: Snapshot, on_news: Callable[[], None]) -> None:
        client, key = invocation.session.client, first.key
        super().__init__(client, WHOLE, key.namespace, _named(key.name), self._learn)
        unread = tuple(one for one in first.unread if one.what == "controllerrevisions")
        self.snapshot: Snapshot | None = replace(first, unread=unread)
        """Without pods and nodes; None once the DaemonSet is deleted."""
        failed = any(not one.is_forbidden for one in unread)
        state = State.STALE if failed else State.CURRENT
        self.history = ReadAgain(self._read_revisions, every=inf, bunch=0.0, state=state)
        self._invocation, self._key, self._tell = invocation, key, on_news
        self.found, self._version = {key: first.document}, reads.meta_of(first.document).resource_version
        self._revised = _revision_marks(first.daemonset)

    async def refresh(self) -> State:
        try:
            document = await documents.get(self._invocation.session, DAEMONSETS, self._key)
        except NotFound as error:
            if error.name != self._key.name:  # the 404 is from a proxy, or about the whole kind
                raise
            self.snapshot = None
            return State.OVER
        self._version = reads.meta_of(document).resource_version
        self._see(Seen(key=self._key, version=self._version, obj=document))
        return State.CURRENT

    def leave_out(self, event: Malformed) -> None:
        raise Unreadable("watch", WHOLE.describe(self._key), event.reason)

    def _learn(self) -> None:
        """Another uid means that the followed object was deleted. Raises Unreadable."""
        document, before = self.found.get(self._key), self.snapshot
        if before is None:
            return
        made = reads.with_document(before, document) if document is not None else None
        self.snapshot = made if made is not None and made.daemonset.uid == before.daemonset.uid else None
        if self.snapshot is not None and (marks := _revision_marks(self.snapshot.daemonset)) != self._revised:
            self._revised = marks
            self.history.mark_stale()
        self._tell()

    async def _read_revisions(self) -> None:
        """Without the right to list the revisions they are empty and `unread`. Raises ApiError for other failures."""
        if self.snapshot is None:
            return
        revisions = await unless_forbidden(reads.revisions_of(self._invocation, self.snapshot.daemonset))
        unread = (Unread(what="controllerrevisions"),) if revisions is None else ()
        if self.snapshot is not None:
            self.snapshot = replace(self.snapshot, revisions=revisions or (), unread=unread)
        self._tell()


def _revision_marks(daemonset: DaemonSet) -> tuple[object, ...]:
    """Fields of the DaemonSet that change whenever a revision is created or renumbered."""
    status = daemonset.status
    return (daemonset.generation, status and status.update_revision, status and status.observed_generation)
