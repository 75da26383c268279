"""The parts of one controller, made and introduced to each other. Nothing here runs yet; see `app.run`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.metadata import version

import msgspec

from controller.api.daemonset import DaemonSet
from controller.api.image_pull_job import JOB_KIND, ImagePullJob
from controller.api.meta import Key
from controller.daemonset.compiled import Compilations
from controller.daemonset.discretion import discreet_error
from controller.daemonset.gather import NOTHING
from controller.daemonset.hands import Hands, Say
from controller.daemonset.memory import Memories
from controller.daemonset.reconcile import Reconciler, Watchers
from controller.daemonset.recorder import Recorder
from controller.daemonset.show import show
from controller.daemonset.statuses import StatusWatchers
from controller.daemonset.triggers import Enqueue, Listeners, Triggers
from controller.fence import Fence
from controller.imagepull.parts import ImagePulls
from controller.imagepull.reconcile import Watchers as PullWatchers
from controller.informers import Informers
from controller.kube.client import Client
from controller.kube.kinds import IMAGE_PULL_JOBS
from controller.kube.request import Transport
from controller.kube.reviews import Reviews
from controller.kube.sender import Sender
from controller.kube.throttle import Throttle
from controller.planner.actions import Note
from controller.report import Report
from controller.runtime.backoff import failed_pod_backoff
from controller.runtime.clock import Clock
from controller.runtime.freshness import Ledger, Stale
from controller.runtime.pacing import Pacer, Urgency
from controller.runtime.workers import Handle
from controller.runtime.workqueue import WorkQueue
from controller.serve.guard import BearerGuard
from controller.settings import Settings
from controller.telemetry.metrics import RESOURCES, Metrics

REVIEWS_QPS = 10
"""Requests per second: whoever knocks with tokens of their own making shall not drown the API server."""
REVIEW_SECONDS = 5.0
"""For one of them, with the wait for its turn. Prometheus gives up after 10 s."""


class Parts(msgspec.Struct, frozen=True):
    """What `app.run` opens scopes for."""

    metrics: Metrics
    report: Report
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
    pulls: ImagePulls | None
    """None where ImagePullJobs are not carried out."""


def assemble(
    settings: Settings,
    transport: Transport,
    *,
    server: str,
    identity: str,
    refresh: Callable[[], Awaitable[None]] | None,
    clock: Clock,
) -> Parts:
    """Call inside a running event loop."""
    metrics = Metrics(
        version=version("kruise-ds"),
        revision=settings.revision,
        workers=settings.workers,
        host=server,
        resources=(*RESOURCES, IMAGE_PULL_JOBS.plural) if settings.gates.pre_download else RESOURCES,
    )
    report = Report(metrics)
    fence = Fence(transport)
    throttle = Throttle(qps=settings.qps, burst=settings.burst)
    sender = Sender(fence, throttle=throttle, on_response=report.answered, refresh=refresh)
    client = Client(sender).retelling(discreet_error)
    informers = Informers(settings.namespaces)
    memories, compilations, ledger = Memories(), Compilations(settings.gates), Ledger()
    queue, pacer = WorkQueue[Key](), Pacer[Key]()
    recorder = Recorder(client.apart(), clock, identity, report.event_dropped)

    def enqueue(key: Key, urgency: Urgency, reason: str) -> None:
        queue.add_after(key, pacer.delay(key, urgency, asyncio.get_running_loop().time()), reason)

    def say(daemonset: DaemonSet, note: Note) -> None:
        report.noted(daemonset, note)
        recorder(daemonset, note)

    reconciler = Reconciler(
        hands=Hands(
            client,
            ledger,
            failed_pod_backoff(),
            say,
            clock,
            partial(report.acted, caches=informers.caches, clock=clock),
        ),
        caches=informers.caches,
        memories=memories,
        compilations=compilations,
        pacer=pacer,
        watchers=Watchers(
            on_plan=report.planned,
            on_stale=report.stale,
            on_overdue=report.overdue,
            on_foreign=metrics.tally.foreign,
        ),
        statuses=StatusWatchers(
            on_status=report.status_written,
            on_written=partial(report.status_changed, caches=informers.caches),
        ),
        relist=informers.relist,
        leads=lambda: fence.is_open,
        unpulled=lambda daemonset: NOTHING if pulls is None else pulls.unpulled(daemonset),
    )

    def daemonset_gone(uid: str) -> None:
        for keeper in (reconciler, recorder, metrics.tally):
            keeper.forget(uid)

    def node_gone(name: str) -> None:
        reconciler.node_gone(name)
        metrics.tally.updates.forget_node(name)

    pulls = (
        _image_pulls(informers, client, clock, report, recorder, metrics, say, enqueue)
        if settings.gates.pre_download
        else None
    )
    metrics.watch_queue(queue)
    metrics.watch_caches(dict(informers.stores))
    metrics.watch_daemonsets(
        lambda: show(informers.caches, memories, clock()) if fence.is_open else (), zones=settings.zone_metrics
    )
    metrics.tally.show(lambda: informers.caches.daemonsets.values() if fence.is_open else (), clock)
    return Parts(
        metrics=metrics,
        report=report,
        fence=fence,
        client=client,
        informers=informers,
        triggers=Triggers(
            informers.caches,
            memories,
            compilations,
            enqueue,
            Listeners(
                daemonset_gone=daemonset_gone,
                node_gone=node_gone,
                pod_gone=reconciler.pod_gone,
                pod_seen=lambda owner, pod: report.saw(owner, pod, clock()),
                foreign_status=reconciler.foreign_status,
                malformed=report.malformed,
                say=say,
            ),
        ),
        queue=queue,
        recorder=recorder,
        guard=BearerGuard(_reviews(transport, refresh), _reviews(transport, refresh), report.unreviewed),
        handle=partial(report.in_context, reconciler),
        pulls=pulls,
    )


def _image_pulls(
    informers: Informers,
    client: Client,
    clock: Clock,
    report: Report,
    recorder: Recorder,
    metrics: Metrics,
    say: Say,
    enqueue: Enqueue,
) -> ImagePulls:
    def say_of_job(job: ImagePullJob, note: Note) -> None:
        report.job_noted(job, note)
        recorder(job, note, kind=JOB_KIND)

    def overdue(key: Key, stale: Stale) -> None:
        report.overdue(key, stale)
        informers.relist_pulls()

    def running() -> int:
        return sum(job.status is None or job.status.completion_time is None for job in pulls.caches.jobs.values())

    counted = metrics.count_image_pulls(running, lambda: len(pulls.caches.pullers))
    pulls = ImagePulls(
        client,
        informers.namespaces,
        informers.caches,
        clock,
        PullWatchers(say=say_of_job, on_result=counted.ended, on_stale=report.job_stale, on_overdue=overdue),
        say=say,
        wake=lambda daemonset: enqueue(daemonset.key, "soon", "images"),
        job_gone=recorder.forget,
        on_pass=report.job_passed,
    )
    return pulls


def _reviews(transport: Transport, refresh: Callable[[], Awaitable[None]] | None) -> Reviews:
    """A way to ask with a rate of its own: who comes on another one never waits behind these."""
    throttle = Throttle(qps=REVIEWS_QPS, burst=REVIEWS_QPS)
    return Reviews(Sender(transport, throttle=throttle, refresh=refresh, call_seconds=REVIEW_SECONDS))
