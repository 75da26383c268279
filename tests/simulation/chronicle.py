"""What happened at the server, by whose hand, and how much of it the controller had been told when it decided.

A write is judged by the state that the controller had been *handed* (the bytes of its watches) when it made the plan
that the write belongs to, and by everything that it has written itself since. That is exact: where no fault delays
the news this is what the server holds. `Chronicle.deaf` is the law that keeps the excuse honest: a controller that
does not listen although nothing hinders it breaks that one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from controller.api.names import HASH_LABEL, NEVER_RAN_ANNOTATION
from controller.kube.requests import Request, Response, Stream, Transport
from tests.beds.api import Object
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.kinds import DAEMONSETS, NODES, PODS, REVISIONS
from tests.beds.simulator.objects import Kind
from tests.beds.simulator.route import route
from tests.beds.simulator.store import HistoryEntry
from tests.simulation.record import Listener
from tests.simulation.scene import Gone, Node, Pod, Spec, State, is_ours, node_from, pod_of, spec_of
from tests.simulation.wear import Wear

WRITING: ContextVar[tuple[Chronicle, list[int]] | None] = ContextVar("writing", default=None)
"""While a request of a controller is carried out: whose, and the versions that it has written."""
KINDS = (DAEMONSETS, NODES, PODS, REVISIONS)

UNANSWERED_COUNTS = True
"""Whether the controller is held to remember what it tried when the answer was lost and a late watch hides the effect
too. It plans anew from what it has been told; only two pods of one image on a node are impossible even so."""

AGAIN = ("kruise-ds/skip-steps", "kruise-ds/retry")
"""Annotations that name an aborted revision which is tried in spite of that."""

AT_ONCE = 0.01
"""Seconds within which what has been received is handled."""
TOLD_ONCE = 30.0
"""Seconds in which a process looks at everything again no more than once."""
PROMPT, LATE = 1.0, 30.0
"""Seconds within which news arrive while nothing delays them, and while something does."""


@dataclass(frozen=True)
class Entry:
    version: int
    kind: Kind
    ours: bool
    """Whether the controller wrote it."""
    others: bool
    """Whether another process of it did."""
    at: float
    before: Any
    after: Any


@dataclass(frozen=True)
class Decision:
    """A plan of the controller. Each write is judged by the one that it comes from, however late it gets through."""

    at: float
    known: dict[str, int]
    """Resource -> version up to which the controller had been told."""
    version: int
    """Of the server."""
    blind: set[int]
    """Versions that the controller had written, and had not been told of."""
    restores: int
    """How often the server had been restored."""
    written_since: list[str] = field(default_factory=list)
    """Creates and deletes of pods that came from it."""


DECISION: ContextVar[Decision] = ContextVar("decision")
"""Of the pass that runs, and of what it has begun."""


@dataclass(frozen=True)
class Departure:
    version: int
    pod: Pod
    node_uid: str


@dataclass
class Chronicle:
    """Follows a simulated cluster from within, write by write. `on_write` is asked about each one of the controller's
    before the chronicle has it."""

    cluster: Cluster
    on_write: Callable[[HistoryEntry, Chronicle], None]
    spec: Spec | None = None
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    revisions: dict[str, tuple[int, str, bool]] = field(default_factory=dict)
    """uid -> number, image, and whether a pod is recorded to have had it."""
    hashes: dict[str, str] = field(default_factory=dict)
    """Hash of a revision -> image, also of those that are gone."""
    heard: dict[str, int] = field(default_factory=dict)
    """Resource -> version up to which the controller has been told."""
    life_began: float = 0.0
    hindered_until: float = 0.0
    """Seconds since 1970: until then news may be late or missing, by our doing."""
    unstored: bool = False
    clock_set: bool = False
    restores: int = 0
    """How often the server was restored from a backup."""
    restored_at: float = float("-inf")
    """When it last found out, by a list that is older than what it had."""
    is_told_of_restore: bool = False
    deaf: list[str] = field(default_factory=list)
    answered: set[int] = field(default_factory=set)
    """Versions that the controller has written, and knows that it has."""
    beside_the_sick: set[str] = field(default_factory=set)
    """uids of pods that were created beside an old one that did not serve."""
    wear: Wear = field(default_factory=Wear)
    last_to_store: int = 0
    """Of the DaemonSet, when the process last asked to store a revision."""
    _had: dict[str, int] = field(default_factory=dict)
    """Resource -> version of what it has of it, which may never have been."""
    _seen: set[str] = field(default_factory=set)
    """uids of the pods that it knew when it decided."""
    _entries: list[Entry] = field(default_factory=list)
    _departures: list[Departure] = field(default_factory=list)

    def __post_init__(self) -> None:
        for kind in KINDS:
            self.cluster.store.watches[kind].append(Listener(kind, self._happened))

    @property
    def predates_restore(self) -> bool:
        """Whether the write comes from a plan that was made by what the server was before it was restored."""
        return (
            self.decision.restores != self.restores
            or not {kind.resource for kind in KINDS} <= self.decision.known.keys()
        )

    def restarted(self) -> None:
        """A new process knows nothing."""
        self.life_began = self.cluster.clock()
        self.heard.clear()
        self._had.clear()
        self.restored_at, self.is_told_of_restore = float("-inf"), False
        self._seen.clear()
        self.answered.clear()
        self.last_to_store = 0

    def server_restored(self) -> None:
        """It has the objects of a backup, and versions of before; what the controller knows may never have been."""
        self._had, self.is_told_of_restore = self._had | self.heard, False
        store, gone = self.cluster.store, [*(one.pod for one in self._departures), *self.pods.values()]
        for table in (self.nodes, self.pods, self.revisions, self.heard):
            table.clear()
        self.answered.clear()
        self._entries.clear()
        self._departures = [Departure(0, pod, "") for pod in gone if pod.uid not in store.by_uid]  # it may remember
        self.restores += 1
        for kind in KINDS:
            for found in store.objects[kind].values():
                if kind is not PODS or is_ours(found.object):
                    self._apply(kind, found.object, self.cluster.clock(), gone=False)

    def has_listed(self, resource: str, version: int) -> None:
        """The process has a whole list."""
        before, now = self._had.pop(resource, 0), self.cluster.clock()
        self.heard[resource] = version
        if version < before and not self.is_told_of_restore and now > self.restored_at + TOLD_ONCE:
            self.restored_at, self.is_told_of_restore = now, True

    def unlisted(self) -> list[str]:
        """In the end: what the leader has not listed since the server was restored."""
        missing = sorted({kind.resource for kind in KINDS} - self.heard.keys())
        return [f"{resource} is not listed since the server was restored" for resource in missing]

    def believes_what_never_was(self, *, fresh: bool) -> Iterator[str]:
        """`fresh`: it plans now as if its caches showed what is there."""
        listed = {PODS.resource, REVISIONS.resource} <= self.heard.keys()
        if fresh and self.is_told_of_restore and not listed and self.cluster.clock() > self.restored_at + AT_ONCE:
            yield f"plans by what was before the server was restored, and has listed {sorted(self.heard)} only"

    def decided(self) -> None:
        """The controller has just made a plan, in the task that carries it out or begins what does."""
        at, heard = self.cluster.clock(), dict(self.heard)
        own = self._entries_after(heard, PODS, REVISIONS)  # a trimmed revision is one that no node may get
        unheard = {entry.version for entry in own if entry.kind is PODS or entry.after is not None}
        DECISION.set(Decision(at, heard, self.cluster.store.version, unheard & self.answered, self.restores))
        known = heard.get(PODS.resource, 0)
        self._seen |= self._pods_at(known, known).keys()
        if at > self.hindered_until:
            for entry in self._entries_after(heard):
                if entry.at < at - PROMPT:
                    self.deaf.append(f"of a change of {entry.kind.resource} at {entry.at:.1f} it has not heard")

    def unknown_of_predecessors(self, since: float) -> list[Entry]:
        """What other processes had written before `since`, and this one has not been told when it decides."""
        unheard = self._entries_after(self.heard, DAEMONSETS, PODS, REVISIONS)
        return [entry for entry in unheard if entry.others and entry.at < since]

    @property
    def decision(self) -> Decision:
        """That which this write comes from."""
        return DECISION.get()

    def now(self) -> State:
        """The server's own state."""
        assert self.spec is not None
        everything = {kind.resource: self.cluster.store.version for kind in KINDS}
        return self._scene(self.cluster.clock(), everything, self.cluster.store.version)

    def basis(self) -> State:
        """What the controller knew when it decided on this write, all its earlier writes included."""
        return self._scene(self.decision.at, self.decision.known, self.decision.version)

    def told(self) -> State:
        """The same, and what it has written since."""
        return self._scene(self.decision.at, self.decision.known, self.cluster.store.version)

    def _scene(self, at: float, known: dict[str, int], own: int) -> State:
        spec, nodes = self.spec, dict(self.nodes)
        unheard = self._entries_after(known, DAEMONSETS, NODES)
        edited = [one for one in unheard if one.kind is DAEMONSETS and not self._is_own(one)]
        for entry in unheard:
            if entry.kind is DAEMONSETS:
                spec = entry.before or spec if edited else spec
            elif entry.before is None:
                nodes.pop(entry.after.name, None)
            else:
                nodes[entry.before.name] = entry.before
        assert spec is not None, "there is no DaemonSet yet"
        spec = self.in_force(spec)
        pods = self._pods_at(known.get(PODS.resource, 0), own)
        slack = LATE if at <= self.hindered_until else PROMPT
        unheard = self._entries_after({PODS.resource: known.get(PODS.resource, 0)}, PODS)
        sure = all(entry.version in self.answered for entry in unheard if entry.ours and entry.version <= own)
        gone = self._gone(known, nodes)
        had = {pod.image for pod in pods.values()} | {one.image for one in gone.values() if one.surely_known}
        stored_ones = sorted(self.revisions.values(), reverse=True)
        older = tuple(dict.fromkeys(one for _, one, ran in stored_ones if one != spec.image and (ran or one in had)))
        departed = {one.pod.image for one in self._departures} | {pod.image for pod in self.pods.values()}
        perhaps = frozenset(one for _, one, ran in stored_ones if not ran and one in departed - had)
        stored = self._is_stored(spec.image, known)
        return State(
            at,
            spec,
            nodes,
            pods,
            older,
            gone,
            self.life_began,
            slack,
            sure,
            stored,
            self.unstored,
            perhaps,
            self.clock_set,
        )

    def misnumbered(self) -> list[str]:
        """In the end: `kubectl rollout undo` goes by the numbers of revisions."""
        _, newest, _ = max(self.revisions.values(), default=(0, "", False))
        image = self.in_force(self.spec).image if self.spec is not None else newest
        return [] if newest == image else [f"the newest revision has {newest}, and {image} is rolled out"]

    def _is_own(self, entry: Entry) -> bool:
        """A status that it has written, and knows that it has."""
        return entry.ours and entry.version in self.answered

    def unrecorded(self) -> list[str]:
        """In the end: revisions that pods have, without a record of that."""
        images = {pod.image for pod in self.pods.values() if pod.live}
        had = (image for _, image, ran in self.revisions.values() if not ran and image in images)
        return [f"no revision with {image} is recorded to have run" for image in had]

    def in_force(self, spec: Spec) -> Spec:
        """Perhaps with the template of the stable revision, because its own was aborted and goes back."""
        aborted, stable = spec.record.get("abortedRevision"), spec.record.get("stableRevision")
        if spec.action != "RollBack" or not aborted or self.hashes.get(aborted) != spec.image:
            return spec
        again = any(str(spec.notes.get(note, "")).startswith(aborted) for note in AGAIN)
        return spec if again or stable not in self.hashes else replace(spec, image=self.hashes[stable])

    def _is_stored(self, image: str, known: dict[str, int]) -> bool | None:
        """Whether a revision with that image is there. None: it came or went, and the controller was not told."""
        unheard = self._entries_after({REVISIONS.resource: known.get(REVISIONS.resource, 0)}, REVISIONS)
        if any(image in (*(one.before or ()), *(one.after or ())) for one in unheard):
            return None
        return any(one == image for _, one, _ in self.revisions.values())

    def _pods_at(self, version: int, own: int) -> dict[str, Pod]:
        """As the server had them at `version`, and as the controller has left them since, until `own`.

        Without those that it does not know of: the answer was lost, and no watch has told of the pod yet.
        """
        pods = dict(self.pods)
        later = list(self._entries_after({PODS.resource: version}, PODS))
        for entry in later:
            if entry.before is None:
                pods.pop(entry.after.uid, None)
            else:
                pods[entry.before.uid] = entry.before
        for entry in reversed(later):
            sure = UNANSWERED_COUNTS or entry.version in self.answered or entry.version > self.decision.version
            if not entry.ours or entry.version > own or not sure:
                continue
            if entry.before is None:
                pods[entry.after.uid] = entry.after
            elif entry.after is None:
                pods.pop(entry.before.uid, None)
            elif entry.before.uid in pods and entry.after.terminating:
                pods[entry.before.uid] = replace(pods[entry.before.uid], terminating=True)
            elif entry.before.uid in pods:
                known = pods[entry.before.uid]
                ready = known.ready and not (entry.before.ready and not entry.after.ready)
                pods[known.uid] = replace(
                    known, held=entry.after.held, drained=entry.after.drained, ready=ready, image=entry.after.image
                )
        return pods

    def _entries_after(self, known: dict[str, int], *kinds: Kind) -> list[Entry]:
        """Newest first."""
        found = []
        least = min((known.get(kind.resource, 0) for kind in kinds or KINDS), default=0)
        for entry in reversed(self._entries):
            if entry.version <= least:
                break
            if entry.version > known.get(entry.kind.resource, 0) and (not kinds or entry.kind in kinds):
                found.append(entry)
        return found

    def _gone(self, known: dict[str, int], nodes: dict[str, Node]) -> dict[str, Gone]:
        found: dict[str, Gone] = {}
        for one in self._departures:
            node = nodes.get(one.pod.node)
            if one.version <= known.get(PODS.resource, 0) and node is not None:
                remembered = one.pod.uid in self._seen and node.uid == one.node_uid
                before = found.get(node.name)
                earlier = before.earlier | {before.image} if before is not None else frozenset[str]()
                found[node.name] = Gone(one.pod.image, remembered, earlier)
        return found

    def _happened(self, change: HistoryEntry) -> None:
        kind, now = change.after.kind, self.cluster.clock()
        writing = WRITING.get()
        ours = writing is not None and writing[0] is self
        if kind is PODS and not is_ours(change.after.object):
            return
        if ours and kind is not REVISIONS:
            self.on_write(change, self)
        before, after = self._apply(kind, change.after.object, now, gone=change.type == "DELETED")
        self.unstored |= writing is not None and kind is PODS and not self.revisions
        others = writing is not None and not ours
        self._entries.append(Entry(change.version, kind, ours, others, now, before, after))
        if writing is not None and ours:
            writing[1].append(change.version)
        if kind is PODS and before is not None and now > self.hindered_until:
            self.wear.changed(before, after, now, ours=ours)
        if kind is PODS and after is None:
            node = self.nodes.get(before.node)
            self._departures.append(Departure(change.version, before, node.uid if node else ""))

    def _apply(self, kind: Kind, found: Object, now: float, *, gone: bool) -> tuple[Any, Any]:
        """Returns the facts before and after."""
        if kind is DAEMONSETS:
            last, self.spec = self.spec, spec_of(found)
            return last, self.spec
        uid, after = found["metadata"]["uid"], None
        if kind is REVISIONS:
            image = found["data"]["spec"]["template"]["spec"]["containers"][0]["image"]
            self.hashes[(found["metadata"].get("labels") or {}).get(HASH_LABEL, "")] = image
            ran = NEVER_RAN_ANNOTATION not in (found["metadata"].get("annotations") or {})
            return _put(self.revisions, uid, None if gone else (found["revision"], image, ran))
        if kind is NODES:
            return _put(self.nodes, found["metadata"]["name"], None if gone else node_from(found))
        after = None if gone else pod_of(found, self.pods.get(uid), now)
        return _put(self.pods, uid, after)


def _put(table: dict[str, Any], key: str, after: Any) -> tuple[Any, Any]:
    before = table.pop(key, None)
    if after is not None:
        table[key] = after
    return before, after


class _Meta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str = "0"
    annotations: dict[str, str] = {}
    continue_: str = msgspec.field(default="", name="continue")


class _Named(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


class _Line(msgspec.Struct, frozen=True):
    type: str
    object: _Named


_decoder = msgspec.json.Decoder(_Line)


class Ear:
    """The controller's `Transport`: marks its writes, and notes what it receives."""

    def __init__(self, inner: Transport, chronicle: Chronicle) -> None:
        self._inner, self._chronicle = inner, chronicle
        self.unguarded: list[str] = []
        """Writes without a precondition."""

    async def exchange(self, request: Request) -> Response:
        where = route(request)
        guards = (b"/metadata/uid", b"/metadata/resourceVersion", b'"preconditions"')
        changes = where.verb in ("patch", "update", "delete") and where.resource != "events"
        if changes and not any(guard in request.body for guard in guards):
            self.unguarded.append(f"{where.verb} {where.resource} {where.name}: {request.body.decode()}")
        written: list[int] = []
        token = WRITING.set((self._chronicle, written))
        try:
            response = await self._inner.exchange(request)
            if 200 <= response.status < 300:
                self._chronicle.answered.update(written[:1])  # a deletion is known once the pod is seen to end
                if where.verb == "list":
                    self._note_page(read(request), response.body)
            return response
        finally:
            WRITING.reset(token)

    def _note_page(self, resource: str, body: bytes) -> None:
        """A list is complete when its last page has come."""
        metadata = msgspec.json.decode(body, type=_Named).metadata
        if not metadata.continue_:
            self._chronicle.has_listed(resource, int(metadata.resource_version))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with self._inner.stream(request) as stream:
            if stream.status != 200:
                yield stream
            else:
                query = dict(request.query)
                filling, version = query.get("sendInitialEvents") == "true", query.get("resourceVersion", "")
                is_lost = version.isdigit() and int(version) > self._chronicle.cluster.store.version
                yield _Listened(stream, read(request), self._chronicle, filling=filling, is_lost=is_lost)


def read(request: Request) -> str:
    """The resource; of pods, those of jobs are another list than all."""
    part = any(name == "labelSelector" for name, _ in request.query)
    return f"some {route(request).resource}" if part else route(request).resource


class _Listened:
    """A watch that keeps account of the versions that went through it."""

    retry_after: float | None = None

    def __init__(self, inner: Stream, resource: str, chronicle: Chronicle, *, filling: bool, is_lost: bool) -> None:
        """`is_lost`: it goes on from a version that the restored server does not have, and tells nothing."""
        self.status, self.date, self._inner = inner.status, inner.date, inner
        self._resource, self._chronicle, self._filling = resource, chronicle, filling
        self._restores = -1 if is_lost else chronicle.restores

    async def chunks(self) -> AsyncIterator[bytes]:
        chunks: Any = self._inner.chunks()
        try:
            async for chunk in chunks:
                for line in chunk.splitlines():
                    self._note(line)
                yield chunk
        finally:
            await chunks.aclose()

    def _note(self, line: bytes) -> None:
        try:
            event = _decoder.decode(line)
        except msgspec.DecodeError:  # cut in the middle
            return
        metadata = event.object.metadata
        if event.type == "BOOKMARK" and metadata.annotations.get("k8s.io/initial-events-end"):
            self._filling = False
            if self._restores == self._chronicle.restores:
                self._chronicle.has_listed(self._resource, int(metadata.resource_version))
        if not self._filling and event.type != "ERROR" and self._restores == self._chronicle.restores:
            self._chronicle.heard[self._resource] = int(metadata.resource_version)
