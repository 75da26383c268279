"""Creates and connects the parts of one controller; `app.run` runs them."""

from __future__ import annotations

import os
import secrets
import socket
from importlib.metadata import version

from controller.api.names import LEASE_NAME
from controller.api.objects import Key
from controller.imagepull.parts import ImagePullParts
from controller.informers import Informers
from controller.kube.client import Client
from controller.kube.prometheus import Prometheus
from controller.kube.requests import IMAGE_PULL_JOBS, Refresh, Transport
from controller.kube.sender import Exchange, Sender, Throttle
from controller.kube.typed import Reviews
from controller.observe.daemonset_gauges import sample_daemonsets
from controller.observe.http import DelegatedAuth
from controller.observe.instrumentation import Instrumentation
from controller.observe.metrics import CONTROLLER, IMAGE_QUEUE, JOB_QUEUE, RESOURCES, Metrics
from controller.reconcile.check_evaluation import Checks
from controller.reconcile.dependencies import Dependencies
from controller.reconcile.events import Recorder
from controller.reconcile.reconcile import ImagePulls, Reconciler
from controller.reconcile.state import DaemonSetStates
from controller.reconcile.triggers import Triggers
from controller.runtime.clock import Clock, ServerClock, system_clock
from controller.runtime.expectations import Expectations
from controller.runtime.leader_election import Leadership, LeaseLock
from controller.runtime.pacing import PacedQueue
from controller.settings import Settings

REVIEWS_QPS = 10
"""Token reviews per second, so that a flood of invalid tokens does not overload the API server."""
REVIEW_SECONDS = 5.0
"""Timeout of one review in seconds, including its wait for the throttle; Prometheus gives up after 10 s."""


class Parts:
    def __init__(
        self,
        settings: Settings,
        transport: Transport,
        *,
        server: str = "",
        refresh: Refresh | None = None,
        clock: Clock = system_clock,
        prometheus: Prometheus | None = None,
    ) -> None:
        """Must be called inside a running event loop. `prometheus` answers the checks; None: not configured."""
        self.clock = clock
        process = secrets.token_hex(4)
        self.identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{process}"
        self.metrics = _metrics(settings, server)
        self.informers = Informers(settings.namespaces)
        self.server_clock = ServerClock()
        self.leadership = Leadership()
        """The fence: checked before each write."""
        self.client = Client(self._sender(settings, transport, refresh))
        dropped = self.metrics.dropped_events.inc
        self.recorder = Recorder(self.client.with_reserved_permit(), clock, self.identity, dropped)
        self.instrumentation = Instrumentation(
            self.metrics,
            self.informers.caches,
            self.recorder,
            self.leadership,
            clock,
            relist=self.informers.relist,
            process=process,
        )
        self.queue = PacedQueue[Key]()
        self._states = DaemonSetStates(settings.gates)
        dependencies = Dependencies(self.client, Expectations(), clock, self.instrumentation, self.server_clock)
        caches, instrumentation = self.informers.caches, self.instrumentation
        self.pulls = (
            ImagePullParts(dependencies, caches, self.metrics, instrumentation, states=self._states, queue=self.queue)
            if settings.gates.pre_download
            else None
        )
        """None if ImagePullJobs are not enabled."""
        self.checks = Checks(prometheus, caches, self.queue, instrumentation)
        self.reconciler = self._reconciler(dependencies)
        self.triggers = Triggers(caches, self._states, self.queue, dependencies)
        self.metrics_auth = DelegatedAuth(
            _reviews(transport, refresh), _reviews(transport, refresh), self.instrumentation.review_failed
        )
        """Used if `Settings.metrics_auth` is set."""
        self.lease = LeaseLock(transport, settings.lease_namespace, LEASE_NAME, refresh=refresh)
        self._measure(zones=settings.zone_metrics)

    def _sender(self, settings: Settings, transport: Transport, refresh: Refresh | None) -> Sender:
        return Sender(
            transport,
            throttle=Throttle(qps=settings.qps, burst=settings.burst),
            on_response=self._answered,
            refresh=refresh,
            permission=self.leadership.check,
        )

    def _answered(self, exchange: Exchange) -> None:
        self.server_clock.learn(exchange.date)
        self.metrics.request_answered(exchange)

    def _reconciler(self, dependencies: Dependencies) -> Reconciler:
        return Reconciler(
            dependencies=dependencies,
            caches=self.informers.caches,
            states=self._states,
            pacer=self.queue.pacer,
            image_pulls=ImagePulls() if self.pulls is None else self.pulls,
            checks=self.checks,
        )

    def _measure(self, *, zones: bool) -> None:
        """Registers what the metrics show; a standby shows no DaemonSets."""
        metrics, informers, leadership, pulls = self.metrics, self.informers, self.leadership, self.pulls
        of_images = {} if pulls is None else {JOB_QUEUE: pulls.queue, IMAGE_QUEUE: pulls.rollout_queue}
        metrics.watch_queues({CONTROLLER: self.queue, **of_images})
        metrics.watch_caches(informers.caches.stores)
        metrics.watch_daemonsets(
            lambda: sample_daemonsets(informers.caches, self._states, self.clock()) if leadership.is_valid() else (),
            zones=zones,
        )
        metrics.daemonset_counters.show(
            lambda: informers.caches.daemonsets.values() if leadership.is_valid() else (), self.clock
        )


def _metrics(settings: Settings, server: str) -> Metrics:
    return Metrics(
        version=version("kruise-ds"),
        revision=settings.revision,
        workers=settings.workers,
        host=server,
        resources=(*RESOURCES, IMAGE_PULL_JOBS.plural) if settings.gates.pre_download else RESOURCES,
    )


def _reviews(transport: Transport, refresh: Refresh | None) -> Reviews:
    """Reviews with a throttle of their own, so that nothing else waits behind them."""
    throttle = Throttle(qps=REVIEWS_QPS, burst=REVIEWS_QPS)
    return Reviews(Sender(transport, throttle=throttle, refresh=refresh, call_seconds=REVIEW_SECONDS))
