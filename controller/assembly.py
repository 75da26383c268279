"""The parts of one controller, made and introduced to each other. Nothing here runs yet; see `app.run`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.metadata import version

import msgspec

from controller.api.daemonset import DaemonSet
from controller.api.meta import Key
from controller.api.pod import Pod
from controller.api.wellknown import MALFORMED_OBJECT
from controller.daemonset.caches import Caches
from controller.daemonset.discretion import discreet_error
from controller.daemonset.hands import Hands
from controller.daemonset.memory import Memories
from controller.daemonset.reconcile import Reconciler, Watchers
from controller.daemonset.recorder import Recorder
from controller.daemonset.show import show
from controller.daemonset.triggers import Triggers
from controller.fence import Fence
from controller.informers import Informers
from controller.kube.client import Client
from controller.kube.decode import Malformed
from controller.kube.kinds import PODS
from controller.kube.request import Transport
from controller.kube.reviews import Reviews
from controller.kube.sender import Sender
from controller.kube.throttle import Throttle
from controller.planner.actions import Note
from controller.report import Report
from controller.runtime.backoff import failed_pod_backoff
from controller.runtime.clock import Clock, elapsed
from controller.runtime.freshness import Ledger, Stale
from controller.runtime.pacing import Pacer, Urgency
from controller.runtime.workers import Handle
from controller.runtime.workqueue import WorkQueue
from controller.serve.guard import BearerGuard
from controller.settings import Settings
from controller.telemetry.metrics import Metrics

REVIEWS_QPS = 10
"""Requests per second: whoever knocks with tokens of their own making shall not drown the API server."""
REVIEW_SECONDS = 5.0
"""For one of them, with the wait for its turn. Prometheus gives up after 10 s."""
FOREIGN_STATUS = "ForeignStatusWrite"
FOREIGN_WORDS = (
    "{manager!r} wrote this status too. This DaemonSet is left to that controller until it has not written for a "
    "minute, later for up to 15. Stop one of the two, for example OpenKruise's kruise-controller-manager"
)


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
    on_malformed: Callable[[str, Malformed], None]


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
    metrics = Metrics(version=version("kruise-ds"), revision=settings.revision, workers=settings.workers, host=server)
    report = Report(metrics)
    fence = Fence(transport)
    throttle = Throttle(qps=settings.qps, burst=settings.burst)
    sender = Sender(fence, throttle=throttle, on_response=report.answered, refresh=refresh)
    client = Client(sender).retelling(discreet_error)
    informers = Informers(settings.namespaces)
    memories, ledger = Memories(), Ledger()
    queue, pacer = WorkQueue[Key](), Pacer[Key]()
    recorder = Recorder(client.apart(), clock, identity, report.event_dropped)

    def enqueue(key: Key, urgency: Urgency, reason: str) -> None:
        queue.add_after(key, pacer.delay(key, urgency, asyncio.get_running_loop().time()), reason)

    def say(daemonset: DaemonSet, note: Note) -> None:
        report.noted(daemonset, note)
        recorder(daemonset, note)

    def overdue(key: Key, stale: Stale) -> None:
        report.overdue(key, stale)
        informers.relist(stale.resource)

    def on_malformed(plural: str, malformed: Malformed) -> None:
        report.malformed(plural, malformed)
        for daemonset in suspects(informers.caches, plural, malformed.key):
            text = f"{plural} {malformed.key} cannot be read: {malformed.reason}"
            say(daemonset, Note(warning=True, reason=MALFORMED_OBJECT, message=text))
            enqueue(daemonset.key, "urgent", "malformed object")

    def see(pod: Pod) -> None:
        owner = informers.caches.daemonset_of(pod.owner_uid)
        if owner is not None:
            report.saw(owner, pod, clock())

    def foreign(daemonset: DaemonSet, manager: str) -> None:
        memories.of(daemonset.uid).stand_back(elapsed())
        if fence.is_open:
            metrics.tally.foreign()
            say(daemonset, Note(warning=True, reason=FOREIGN_STATUS, message=FOREIGN_WORDS.format(manager=manager)))

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
        pacer=pacer,
        watchers=Watchers(
            on_plan=report.planned,
            on_stale=report.stale,
            on_overdue=overdue,
            on_status=report.status_written,
            on_written=partial(report.status_changed, caches=informers.caches),
        ),
    )

    def forget(uid: str) -> None:
        for keeper in (memories, ledger, recorder, reconciler, metrics.tally):
            keeper.forget(uid)

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
            informers.caches, memories, enqueue, forget, metrics.tally.updates.forget_node, see, foreign
        ),
        queue=queue,
        recorder=recorder,
        guard=BearerGuard(_reviews(transport, refresh), _reviews(transport, refresh), report.unreviewed),
        handle=partial(report.in_context, reconciler),
        on_malformed=on_malformed,
    )


def _reviews(transport: Transport, refresh: Callable[[], Awaitable[None]] | None) -> Reviews:
    """A way to ask with a rate of its own: who comes on another one never waits behind these."""
    throttle = Throttle(qps=REVIEWS_QPS, burst=REVIEWS_QPS)
    return Reviews(Sender(transport, throttle=throttle, refresh=refresh, call_seconds=REVIEW_SECONDS))


def suspects(caches: Caches, plural: str, key: Key) -> list[DaemonSet]:
    """The DaemonSets that an unreadable object probably belongs to: by its last good state, else by its name."""
    pod = caches.pods.get(key) if plural == PODS.plural else None
    owner = caches.daemonset_of(pod.owner_uid) if pod is not None else None
    if owner is not None:
        return [owner]
    name = key.name if plural == "daemonsets" else key.name.rpartition("-")[0]
    found = caches.daemonsets.get(Key(key.namespace, name))
    return [] if found is None else [found]
