"""The parts of one controller, made and introduced to each other. Nothing here runs yet; see `app.run`."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from functools import partial
from importlib.metadata import version

import msgspec

from controller.api.daemonset import DaemonSet
from controller.api.image_pull_job import JOB_KIND, ImagePullJob
from controller.api.meta import Key
from controller.api.wellknown import LEASE_NAME
from controller.daemonset.compiled import Compilations
from controller.daemonset.dependencies import Dependencies
from controller.daemonset.gather import NOTHING
from controller.daemonset.reconcile import Reconciler, Watchers
from controller.daemonset.recorder import Recorder
from controller.daemonset.redaction import redacted_error
from controller.daemonset.state import DaemonSetStates
from controller.daemonset.statuses import StatusWatchers
from controller.daemonset.triggers import Listeners, Triggers
from controller.fence import Fence
from controller.imagepull.assembly import ImagePullParts
from controller.imagepull.reconcile import JobWatchers
from controller.informers import Informers
from controller.instrumentation import Instrumentation
from controller.kube.client import Client
from controller.kube.kinds import IMAGE_PULL_JOBS
from controller.kube.request import Refresh, Transport
from controller.kube.reviews import Reviews
from controller.kube.sender import Sender
from controller.kube.throttle import Throttle
from controller.planner.actions import Note
from controller.runtime.backoff import failed_pod_backoff
from controller.runtime.clock import Clock, system_clock
from controller.runtime.freshness import Ledger, Stale
from controller.runtime.lease import ServerLease
from controller.runtime.pacing import Pacer, Urgency
from controller.runtime.workers import Handle
from controller.runtime.workqueue import WorkQueue
from controller.serve.guard import BearerGuard
from controller.settings import Settings
from controller.telemetry.daemonsets import measured
from controller.telemetry.metrics import CONTROLLER, IMAGE_QUEUE, JOB_QUEUE, RESOURCES, Metrics

REVIEWS_QPS = 10
"""Requests per second: whoever knocks with tokens of their own making shall not drown the API server."""
REVIEW_SECONDS = 5.0
"""For one of them, with the wait for its turn. Prometheus gives up after 10 s."""


class Parts(msgspec.Struct, frozen=True):
    """What `app.run` opens scopes for."""

    metrics: Metrics
    instrumentation: Instrumentation
    fence: Fence
    client: Client
    informers: Informers
    triggers: Triggers
    queue: WorkQueue[Key]
    recorder: Recorder
    guard: BearerGuard
    """Of /metrics, where it is asked for."""
    handle: Handle[Key]
    """One pass over the DaemonSet of a key."""
    pulls: ImagePullParts | None
    """None where ImagePullJobs are not carried out."""
    lease: ServerLease
    """It has a way to the server of its own."""
    identity: str
    """Of this process, as the lease names its holder."""
    clock: Clock


class _Shared(msgspec.Struct, frozen=True):
    """What the parts have in common."""

    metrics: Metrics
    instrumentation: Instrumentation
    fence: Fence
    client: Client
    informers: Informers
    recorder: Recorder
    clock: Clock
    states: DaemonSetStates
    compilations: Compilations
    queue: WorkQueue[Key]
    pacer: Pacer[Key]

    def enqueue(self, key: Key, urgency: Urgency, reason: str) -> None:
        self.queue.add_after(key, self.pacer.delay(key, urgency, asyncio.get_running_loop().time()), reason)

    def say(self, daemonset: DaemonSet, note: Note) -> None:
        self.instrumentation.noted(daemonset, note)
        self.recorder(daemonset, note)


def assemble(
    settings: Settings,
    transport: Transport,
    *,
    server: str = "",
    refresh: Refresh | None = None,
    clock: Clock = system_clock,
) -> Parts:
    """The controller over any transport. Call inside a running event loop."""
    identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{secrets.token_hex(4)}"
    shared = _shared(settings, transport, server, identity, refresh, clock)
    pulls = _image_pulls(shared) if settings.gates.pre_download else None
    reconciler = _reconciler(shared, pulls)
    _measure(shared, pulls, zones=settings.zone_metrics)
    instrumentation = shared.instrumentation
    return Parts(
        metrics=shared.metrics,
        instrumentation=instrumentation,
        fence=shared.fence,
        client=shared.client,
        informers=shared.informers,
        triggers=Triggers(
            shared.informers.caches,
            shared.states,
            shared.compilations,
            shared.enqueue,
            _listeners(shared, reconciler),
        ),
        queue=shared.queue,
        recorder=shared.recorder,
        guard=BearerGuard(_reviews(transport, refresh), _reviews(transport, refresh), instrumentation.unreviewed),
        handle=partial(instrumentation.passes.in_context, reconciler),
        pulls=pulls,
        lease=ServerLease(transport, settings.lease_namespace, LEASE_NAME, refresh=refresh),
        identity=identity,
        clock=clock,
    )


def _shared(
    settings: Settings, transport: Transport, server: str, identity: str, refresh: Refresh | None, clock: Clock
) -> _Shared:
    metrics = Metrics(
        version=version("kruise-ds"),
        revision=settings.revision,
        workers=settings.workers,
        host=server,
        resources=(*RESOURCES, IMAGE_PULL_JOBS.plural) if settings.gates.pre_download else RESOURCES,
    )
    instrumentation = Instrumentation(metrics)
    fence = Fence(transport)
    throttle = Throttle(qps=settings.qps, burst=settings.burst)
    sender = Sender(fence, throttle=throttle, on_response=instrumentation.answered, refresh=refresh)
    client = Client(sender).retelling(redacted_error)
    return _Shared(
        metrics=metrics,
        instrumentation=instrumentation,
        fence=fence,
        client=client,
        informers=Informers(settings.namespaces),
        recorder=Recorder(client.apart(), clock, identity, metrics.dropped_events.inc),
        clock=clock,
        states=DaemonSetStates(),
        compilations=Compilations(settings.gates),
        queue=WorkQueue[Key](),
        pacer=Pacer[Key](),
    )


def _reconciler(shared: _Shared, pulls: ImagePullParts | None) -> Reconciler:
    instrumentation, metrics, caches = shared.instrumentation, shared.metrics, shared.informers.caches
    acted = partial(instrumentation.acted, caches=caches, clock=shared.clock)
    return Reconciler(
        dependencies=Dependencies(shared.client, Ledger(), failed_pod_backoff(), shared.say, shared.clock, acted),
        caches=caches,
        states=shared.states,
        compilations=shared.compilations,
        pacer=shared.pacer,
        watchers=Watchers(
            on_plan=instrumentation.planned,
            on_stale=instrumentation.stale,
            on_overdue=instrumentation.overdue,
            on_foreign=metrics.foreign_status_writes.inc,
        ),
        statuses=StatusWatchers(
            on_status=instrumentation.status_written,
            on_written=partial(instrumentation.status_changed, caches=caches),
        ),
        relist=shared.informers.relist,
        leads=lambda: shared.fence.is_open,
        unpulled=(lambda daemonset: NOTHING) if pulls is None else pulls.unpulled,
    )


def _listeners(shared: _Shared, reconciler: Reconciler) -> Listeners:
    instrumentation, tally = shared.instrumentation, shared.metrics.tally

    def daemonset_gone(uid: str) -> None:
        for keeper in (reconciler, shared.recorder, tally):
            keeper.forget(uid)

    def node_gone(name: str) -> None:
        reconciler.node_gone(name)
        tally.updates.forget_node(name)

    return Listeners(
        daemonset_gone=daemonset_gone,
        node_gone=node_gone,
        pod_gone=reconciler.pod_gone,
        pod_seen=lambda owner, pod: instrumentation.saw(owner, pod, shared.clock()),
        foreign_status=reconciler.foreign_status,
        malformed=instrumentation.malformed,
        say=shared.say,
    )


def _measure(shared: _Shared, pulls: ImagePullParts | None, *, zones: bool) -> None:
    """What is looked at when somebody asks for metrics; on a standby there is nothing to show."""
    metrics, informers, fence = shared.metrics, shared.informers, shared.fence
    of_images = {} if pulls is None else {JOB_QUEUE: pulls.queue, IMAGE_QUEUE: pulls.rollouts}
    metrics.watch_queues({CONTROLLER: shared.queue, **of_images})
    metrics.watch_caches(informers.stores)
    metrics.watch_daemonsets(
        lambda: measured(informers.caches, shared.states, shared.clock()) if fence.is_open else (), zones=zones
    )
    metrics.tally.show(lambda: informers.caches.daemonsets.values() if fence.is_open else (), shared.clock)


def _image_pulls(shared: _Shared) -> ImagePullParts:
    instrumentation, informers = shared.instrumentation, shared.informers

    def say_of_job(job: ImagePullJob, note: Note) -> None:
        instrumentation.job_noted(job, note)
        shared.recorder(job, note, kind=JOB_KIND)

    def overdue(key: Key, stale: Stale) -> None:
        instrumentation.overdue(key, stale)
        informers.relist_pulls()

    def running() -> int:
        return sum(job.status is None or job.status.completion_time is None for job in pulls.caches.jobs.values())

    attempts = shared.metrics.count_image_pulls(running, lambda: len(pulls.caches.pullers))
    pulls = ImagePullParts(
        shared.client,
        informers.namespaces,
        informers.caches,
        shared.clock,
        JobWatchers(
            say=say_of_job,
            on_result=lambda result: attempts.labels(result).inc(),
            on_write=instrumentation.job_passes.did,
            on_stale=instrumentation.job_stale,
            on_overdue=overdue,
        ),
        say=shared.say,
        wake=lambda daemonset: shared.enqueue(daemonset.key, "soon", "images"),
        job_gone=shared.recorder.forget,
        job_passes=instrumentation.job_passes,
        image_passes=instrumentation.image_passes,
    )
    return pulls


def _reviews(transport: Transport, refresh: Refresh | None) -> Reviews:
    """A way to ask with a rate of its own: who comes on another one never waits behind these."""
    throttle = Throttle(qps=REVIEWS_QPS, burst=REVIEWS_QPS)
    return Reviews(Sender(transport, throttle=throttle, refresh=refresh, call_seconds=REVIEW_SECONDS))
