"""Makes and connects the parts of one controller. Nothing runs yet; see `app.run`."""

from __future__ import annotations

import os
import secrets
import socket
from importlib.metadata import version

from controller.api.daemonset import DaemonSet
from controller.api.meta import Key
from controller.api.wellknown import LEASE_NAME
from controller.daemonset.dependencies import Dependencies
from controller.daemonset.reconcile import Reconciler
from controller.daemonset.recorder import Recorder
from controller.daemonset.state import DaemonSetStates
from controller.daemonset.status_conflict import foreign_note
from controller.daemonset.triggers import Listeners, Triggers
from controller.daemonset.world_of import NOTHING
from controller.fence import Fence
from controller.imagepull.assembly import ImagePullParts
from controller.informers import Informers
from controller.instrumentation import Instrumentation
from controller.kube.client import Client
from controller.kube.kinds import IMAGE_PULL_JOBS
from controller.kube.request import Refresh, Transport
from controller.kube.reviews import Reviews
from controller.kube.sender import Sender
from controller.kube.throttle import Throttle
from controller.planner.step import Note
from controller.runtime.clock import Clock, system_clock
from controller.runtime.freshness import Ledger, Stale
from controller.runtime.lease import ServerLease
from controller.runtime.pacing import PacedQueue
from controller.serve.guard import BearerGuard
from controller.settings import Settings
from controller.telemetry.daemonset_gauges import measured
from controller.telemetry.metrics import CONTROLLER, IMAGE_QUEUE, JOB_QUEUE, RESOURCES, Metrics

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
        self.recorder = Recorder(self.client.apart(), clock, self.identity, dropped)
        self.queue = PacedQueue[Key]()
        self._states = DaemonSetStates(settings.gates)
        self.pulls = self._image_pulls() if settings.gates.pre_download else None
        """None: ImagePullJobs are not enabled."""
        self.reconciler = self._reconciler()
        listeners = self._listeners(self.reconciler)
        self.triggers = Triggers(self.informers.caches, self._states, self.queue.enqueue, listeners)
        self.guard = BearerGuard(
            _reviews(transport, refresh), _reviews(transport, refresh), self.instrumentation.unreviewed
        )
        """The guard of /metrics, used if it is asked for."""
        self.lease = ServerLease(transport, settings.lease_namespace, LEASE_NAME, refresh=refresh)
        """The Lease, with a client of its own."""
        self._measure(zones=settings.zone_metrics)

    def _say(self, daemonset: DaemonSet, note: Note) -> None:
        self.instrumentation.noted(daemonset, note)
        self.recorder(daemonset, note)

    def _reconciler(self) -> Reconciler:
        instrumentation = self.instrumentation

        def overdue(key: Key, stale: Stale) -> None:
            instrumentation.overdue(key, stale)
            self.informers.relist(stale.resource)

        dependencies = Dependencies(
            client=self.client,
            ledger=Ledger(),
            say=self._say,
            clock=self.clock,
            did=instrumentation.acted,
            on_plan=self.metrics.decision_seconds.observe,
            on_stale=instrumentation.stale,
            on_overdue=overdue,
            on_status_answer=lambda result: self.metrics.status_writes.labels(result).inc(),
            on_status=instrumentation.status_changed,
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
        instrumentation, tally = self.instrumentation, self.metrics.tally

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
            pod_seen=lambda owner, pod: instrumentation.saw(owner, pod, self.clock()),
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
            lambda: measured(informers.caches, self._states, self.clock()) if fence.is_open else (), zones=zones
        )
        metrics.tally.show(lambda: informers.caches.daemonsets.values() if fence.is_open else (), self.clock)

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
