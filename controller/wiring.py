"""Keeps the four caches up to date while its scope is open; and those of ImagePullJobs, if these are enabled.

The fence: the last check, before a write leaves the process, that this process still leads.

A process that was frozen may wake up in the middle of a plan, or with a connection half open. So the deadline of its
Lease is checked for every write, before a connection is opened and again just before the bytes are sent.

Makes and connects the parts of one controller. Nothing runs yet; see `app.run`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import NoReturn, Protocol, TypeVar

import msgspec

from controller.api.daemonset import DaemonSet
from controller.api.names import LEASE_NAME
from controller.api.node import Node
from controller.api.objects import Key
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.imagepull.wiring import ImagePullParts
from controller.kube.client import Client
from controller.kube.decode import Malformed
from controller.kube.requests import (
    DAEMONSETS,
    IMAGE_PULL_JOBS,
    NODES,
    NODES_WITH_IMAGES,
    PODS,
    PULLERS,
    REVISIONS,
    Refresh,
    Resource,
    Transport,
    W,
)
from controller.kube.sender import Sender, Throttle
from controller.kube.typed import Reviews
from controller.observe.daemonset_gauges import sample_daemonsets
from controller.observe.http import DelegatedAuth
from controller.observe.instrumentation import Instrumentation
from controller.observe.metrics import CONTROLLER, IMAGE_QUEUE, JOB_QUEUE, RESOURCES, Metrics
from controller.planner.actions import Note
from controller.reconcile.caches import Caches
from controller.reconcile.dependencies import Dependencies
from controller.reconcile.events import Recorder
from controller.reconcile.inputs import NOTHING
from controller.reconcile.reconcile import Reconciler
from controller.reconcile.state import DaemonSetStates
from controller.reconcile.status_writer import foreign_note
from controller.reconcile.triggers import Listeners, Triggers
from controller.runtime.clock import Clock, system_clock
from controller.runtime.expectations import Expectations, Stale
from controller.runtime.lease import LeadershipLost, ServerLease
from controller.runtime.pacing import PacedQueue
from controller.runtime.reflector import Reflector
from controller.runtime.store import Change, Record, ScopedStore, open_scoped_store
from controller.runtime.watch import Connectivity
from controller.settings import Settings

T = TypeVar("T", bound=Record)


class Running(Protocol):
    """A reflector, whatever its resource."""

    async def run(self) -> NoReturn: ...
    async def synced(self) -> None: ...
    def relist(self) -> None: ...


class _Watching(msgspec.Struct, frozen=True):
    """Makes reflectors whose callbacks also receive the name of the watched resource."""

    client: Client
    instrumentation: Instrumentation
    on_malformed: Callable[[str, Malformed], None]
    met: Callable[[str, Connectivity], None]

    def all(
        self, what: Resource[W, T], stored: ScopedStore[T], on_change: Callable[[Change[T]], None]
    ) -> Iterator[Reflector[W, T]]:
        """One reflector for each namespace."""
        for namespace, writer in stored.writers.items():
            name = f"{what.name} with {what.only}" if what.only else what.name
            name = f"{name} in {namespace}" if namespace else name
            yield Reflector(
                self.client.with_reserved_permit(),
                what,
                writer,
                namespace=namespace,
                on_change=on_change,
                on_malformed=partial(self.on_malformed, what.plural),
                on_contact=partial(self.met, name),
                on_heard=partial(self.instrumentation.received, what.plural, name),
                on_restart=partial(self.instrumentation.watch_restarted, what.plural),
            )


def _each(listeners: Iterable[Callable[[Change[T]], None]]) -> Callable[[Change[T]], None]:
    several = tuple(listeners)

    def tell(change: Change[T]) -> None:
        for listener in several:
            listener(change)

    return tell


class Informers:
    """All caches. They are empty at first; `filling` fills them and keeps them up to date."""

    def __init__(self, namespaces: tuple[str, ...]) -> None:
        self.namespaces = namespaces or ("",)
        self.daemonsets = open_scoped_store(DaemonSet, self.namespaces)
        self.pods = open_scoped_store(Pod, self.namespaces)
        self.nodes = open_scoped_store(Node, ("",))
        self.revisions = open_scoped_store(Revision, self.namespaces)
        self.caches = Caches(self.daemonsets.store, self.pods.store, self.nodes.store, self.revisions.store)
        self._reflectors: list[tuple[str, Running]] = []
        self._pulls: list[Running] = []
        self.is_synced = False
        self.running = 0
        """How many watches should be alive now."""

    def relist(self, resource: str) -> None:
        """List `resource` (a `Resource.name`) again in every namespace, because its cache may be wrong."""
        for name, reflector in self._reflectors:
            if name == resource:
                reflector.relist()

    async def caught_up(self) -> None:
        """List again whatever a controller writes, and wait until all lists are complete, for ever if need be.

        For a new leader: its watches may lie behind its predecessor's last writes, and nothing may be planned from a
        cache that has not seen them.
        """
        written = [one for name, one in self._reflectors if name != NODES.name]
        for reflector in written:
            reflector.relist()
        for reflector in written:
            await reflector.synced()

    async def pulls_caught_up(self) -> None:
        """List again what ImagePullJobs need, and wait until all lists are complete, for ever if need be: their CRD
        may be missing, or we may not be allowed to read them."""
        self.relist_pulls()
        for reflector in self._pulls:
            await reflector.synced()

    def relist_pulls(self) -> None:
        for reflector in self._pulls:
            reflector.relist()

    @asynccontextmanager
    async def filling(
        self,
        client: Client,
        triggers: Triggers,
        instrumentation: Instrumentation,
        pulls: ImagePullParts | None,
    ) -> AsyncIterator[None]:
        """Keep the caches up to date while the block runs. Entering waits until every first list is complete, for
        ever if need be; it does not wait for the lists of `pulls`."""
        both = (triggers,) if pulls is None else (triggers, pulls)

        def met(name: str, contact: Connectivity) -> None:
            instrumentation.connectivity(name, contact)
            if self.is_synced and contact.state == "reachable":
                for one in both:
                    one.on_server_back()

        watching = _Watching(client, instrumentation, triggers.on_malformed, met)
        nodes: Iterable[Running] = (
            watching.all(NODES, self.nodes, triggers.on_node)
            if pulls is None
            else watching.all(NODES_WITH_IMAGES, self.nodes, _each(one.on_node for one in both))
        )
        needed: dict[str, Iterable[Running]] = {
            NODES.name: nodes,
            DAEMONSETS.name: watching.all(DAEMONSETS, self.daemonsets, _each(one.on_daemonset for one in both)),
            REVISIONS.name: watching.all(REVISIONS, self.revisions, _each(one.on_revision for one in both)),
            PODS.name: watching.all(PODS, self.pods, triggers.on_pod),
        }
        self._reflectors = [(name, one) for name, several in needed.items() for one in several]
        if pulls is not None:
            self._pulls = [
                *watching.all(IMAGE_PULL_JOBS, pulls.jobs, pulls.on_job),
                *watching.all(PULLERS, pulls.pullers, pulls.on_puller),
            ]
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(reflector.run(), name="reflector") for _, reflector in self._reflectors]
            running += [group.create_task(reflector.run(), name="reflector") for reflector in self._pulls]
            self.running = len(running)
            for _, reflector in self._reflectors:
                await reflector.synced()
            self.is_synced = True
            yield
            self.running = 0
            for task in running:
                task.cancel()


class Fence:
    """No write passes until `open` was called. A sender asks before each of them."""

    def __init__(self) -> None:
        self._guard: Callable[[], None] | None = None

    def open(self, guard: Callable[[], None]) -> None:
        """Let writes pass if `guard` does not raise."""
        self._guard = guard

    def permit(self) -> None:
        """Raises LeadershipLost before `open`, and whatever the guard raises."""
        if self._guard is None:
            raise LeadershipLost("this process does not lead; nothing is written")
        self._guard()

    @property
    def is_open(self) -> bool:
        """Whether a write would pass now, that is, whether this process leads."""
        try:
            self.permit()
        except LeadershipLost:
            return False
        return True


REVIEWS_QPS = 10
"""Reviews of tokens per second, so that a flood of made-up tokens does not overload the API server."""
REVIEW_SECONDS = 5.0
"""Seconds for one review, including the wait for its turn; Prometheus gives up after 10 s."""


class Parts:
    """The parts that run in the scopes of `app.run`."""

    def __init__(
        self,
        settings: Settings,
        transport: Transport,
        *,
        server: str = "",
        refresh: Refresh | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """Make them over any transport. Call it inside a running event loop."""
        self.clock = clock
        process = secrets.token_hex(4)
        self.identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{process}"
        """The identity of this process, as the Lease names its holder."""
        self.metrics = Metrics(
            version=version("kruise-ds"),
            revision=settings.revision,
            workers=settings.workers,
            host=server,
            resources=(*RESOURCES, IMAGE_PULL_JOBS.plural) if settings.gates.pre_download else RESOURCES,
        )
        self.informers = Informers(settings.namespaces)
        self.instrumentation = Instrumentation(self.metrics, self.informers.caches, clock, process)
        self.fence = Fence()
        throttle = Throttle(qps=settings.qps, burst=settings.burst)
        on_response = self.instrumentation.answered
        sender = Sender(
            transport, throttle=throttle, on_response=on_response, refresh=refresh, permission=self.fence.permit
        )
        self.client = Client(sender)
        dropped = self.metrics.dropped_events.inc
        self.recorder = Recorder(self.client.with_reserved_permit(), clock, self.identity, dropped)
        self.queue = PacedQueue[Key]()
        self._states = DaemonSetStates(settings.gates)
        self.pulls = self._image_pulls() if settings.gates.pre_download else None
        """None: ImagePullJobs are not enabled."""
        self.reconciler = self._reconciler()
        listeners = self._listeners(self.reconciler)
        self.triggers = Triggers(self.informers.caches, self._states, self.queue.enqueue, listeners)
        self.metrics_auth = DelegatedAuth(
            _reviews(transport, refresh), _reviews(transport, refresh), self.instrumentation.review_failed
        )
        """Used if `Settings.metrics_auth` is set."""
        self.lease = ServerLease(transport, settings.lease_namespace, LEASE_NAME, refresh=refresh)
        """The Lease, with a client of its own."""
        self._measure(zones=settings.zone_metrics)

    def _say(self, daemonset: DaemonSet, note: Note) -> None:
        self.instrumentation.event_recorded(daemonset, note)
        self.recorder(daemonset, note)

    def _reconciler(self) -> Reconciler:
        instrumentation = self.instrumentation

        def overdue(key: Key, stale: Stale) -> None:
            instrumentation.overdue(key, stale)
            self.informers.relist(stale.resource)

        dependencies = Dependencies(
            client=self.client,
            expectations=Expectations(),
            say=self._say,
            clock=self.clock,
            did=instrumentation.action_done,
            on_plan=self.metrics.decision_seconds.observe,
            on_stale=instrumentation.stale,
            on_overdue=overdue,
            on_status_answer=lambda result: self.metrics.status_writes.labels(result).inc(),
            on_status=instrumentation.status_written,
        )
        return Reconciler(
            dependencies=dependencies,
            caches=self.informers.caches,
            states=self._states,
            pacer=self.queue.pacer,
            unpulled=(lambda daemonset, cached: NOTHING) if self.pulls is None else self.pulls.unpulled,
            moved=(lambda daemonset: frozenset()) if self.pulls is None else self.pulls.moved,
        )

    def _listeners(self, reconciler: Reconciler) -> Listeners:
        instrumentation, tally = self.instrumentation, self.metrics.daemonset_counters

        def daemonset_gone(uid: str) -> None:
            for keeper in (reconciler, self.recorder, tally):
                keeper.forget(uid)

        def foreign_status(daemonset: DaemonSet, manager: str) -> None:
            if self.fence.is_open:
                self.metrics.foreign_status_writes.inc()
                self._say(daemonset, foreign_note(manager))

        return Listeners(
            daemonset_gone=daemonset_gone,
            node_gone=tally.updates.forget_node,
            pod_seen=lambda owner, pod: instrumentation.pod_seen(owner, pod, self.clock()),
            foreign_status=foreign_status,
            malformed=instrumentation.malformed,
            say=self._say,
        )

    def _measure(self, *, zones: bool) -> None:
        """Register what is shown in metrics; a standby shows no DaemonSets."""
        metrics, informers, fence, pulls = self.metrics, self.informers, self.fence, self.pulls
        of_images = {} if pulls is None else {JOB_QUEUE: pulls.queue, IMAGE_QUEUE: pulls.rollout_queue}
        metrics.watch_queues({CONTROLLER: self.queue, **of_images})
        metrics.watch_caches(informers.caches.stores)
        metrics.watch_daemonsets(
            lambda: sample_daemonsets(informers.caches, self._states, self.clock()) if fence.is_open else (),
            zones=zones,
        )
        metrics.daemonset_counters.show(
            lambda: informers.caches.daemonsets.values() if fence.is_open else (), self.clock
        )

    def _image_pulls(self) -> ImagePullParts:
        informers = self.informers
        return ImagePullParts(
            self.client,
            informers.namespaces,
            informers.caches,
            self.clock,
            self.metrics,
            self.instrumentation,
            self.recorder,
            say=self._say,
            wake=lambda daemonset: self.queue.enqueue(daemonset.key, "soon", "images"),
            rules_of=lambda daemonset: self._states.of(daemonset.uid).compiled_for(daemonset).rules,
            relist=informers.relist_pulls,
        )


def _reviews(transport: Transport, refresh: Refresh | None) -> Reviews:
    """Reviews with a rate of their own, so that nothing else waits behind them."""
    throttle = Throttle(qps=REVIEWS_QPS, burst=REVIEWS_QPS)
    return Reviews(Sender(transport, throttle=throttle, refresh=refresh, call_seconds=REVIEW_SECONDS))
