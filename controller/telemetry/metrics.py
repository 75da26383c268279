"""Every metric that is counted when something happens: name, labels, meaning.

Those that are read off at a scrape are in `collectors` (queue, caches) and `daemonsets`.

What the controllers of other projects have too carries the names that dashboards know (`workqueue_*`,
`controller_runtime_*`, `rest_client_*`); what is ours alone starts with `kruise_ds_`. No label ever holds a node, a
pod or an image. Children that are used often are bound once, and everything known in advance starts at zero.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import Metric

from controller.api.wellknown import LEASE_NAME
from controller.telemetry.collectors import Cache, CacheCollector, Queue, QueueCollector
from controller.telemetry.daemonsets import DaemonSetCollector
from controller.telemetry.image_pulls import ImagePullMetrics
from controller.telemetry.measured import MeasuredDaemonSet
from controller.telemetry.tally import Tally
from controller.telemetry.tasks import TaskCollector
from controller.telemetry.watches import Watches

CONTROLLER = "daemonset"
"""The name of the queue of DaemonSets too."""
JOB_QUEUE = "imagepulljob"
IMAGE_QUEUE = "daemonset-images"
"""DaemonSets again, for the ImagePullJobs that their rollouts want."""

PassResult = Literal["success", "error", "requeue", "requeue_after"]
RESULTS: tuple[PassResult, ...] = ("success", "error", "requeue", "requeue_after")
"""`requeue` is of other projects; here nothing comes back without a delay."""
METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}
"""Kubernetes' verbs to HTTP methods, for the label that client-go uses."""

RESOURCES = ("daemonsets", "pods", "nodes", "controllerrevisions")
"""What is watched in any case."""

DECADES = (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000)
PASSES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LAGS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)
REQUESTS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30)


class Metrics:
    """The metrics of one process. Every method is cheap and none raises."""

    def __init__(
        self,
        *,
        version: str,
        revision: str = "",
        workers: int = 0,
        host: str = "",
        resources: Iterable[str] = RESOURCES,
    ) -> None:
        """`host`: the API server's, a label of the request metrics. `resources`: what is watched."""
        disable_created_metrics()  # type: ignore[no-untyped-call]  # has no annotations
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.registry.register(TaskCollector())
        self.tally = Tally(self.registry)
        self._host = host
        self._passes_set_up(workers)
        self._requests_set_up()
        self._watches = Watches(self.registry, tuple(resources))
        self._own_set_up(version, revision)

    # -- passes

    def _passes_set_up(self, workers: int) -> None:
        registry = self.registry
        total = Counter(
            "controller_runtime_reconcile_total",
            "Passes by result",
            ("controller", "result"),
            registry=self.registry,
        )
        self._results = {result: total.labels(CONTROLLER, result) for result in RESULTS}
        self._errors = self._counter("controller_runtime_reconcile_errors", "Passes that failed", CONTROLLER)
        self._panics = self._counter(
            "controller_runtime_reconcile_panics", "Passes that ended in an unexpected exception", CONTROLLER
        )
        self._work = self._histogram(
            "controller_runtime_reconcile_time_seconds", "Length of a pass, writes included", PASSES
        )
        self._active = Gauge(
            "controller_runtime_active_workers",
            "Passes now; one that waits for the API server takes no worker",
            ("controller",),
            registry=self.registry,
        ).labels(CONTROLLER)
        Gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Workers",
            ("controller",),
            registry=self.registry,
        ).labels(CONTROLLER).set(workers)
        self._key_times = tuple(
            Histogram(f"workqueue_{name}_duration_seconds", meaning, ("name",), buckets=DECADES, registry=registry)
            for name, meaning in (
                ("queue", "How long a key was ready before it was taken"),
                ("work", "How long a key was held"),
            )
        )
        self._times_of = {CONTROLLER: self._times(CONTROLLER)}
        self._decided = Histogram(
            "kruise_ds_decision_duration_seconds",
            "Deciding what to do, without doing it",
            buckets=PASSES,
            registry=self.registry,
        )

    def passed(
        self, result: PassResult, *, queued_seconds: float, work_seconds: float, crashed: bool = False
    ) -> None:
        """A pass ended. `crashed`: by an exception that nobody expected."""
        self._results[result].inc()
        if result == "error":
            self._errors.inc()
        if crashed:
            self._panics.inc()
        self._work.observe(work_seconds)
        self.worked(CONTROLLER, queued_seconds=queued_seconds, work_seconds=work_seconds)

    def worked(self, queue: str, *, queued_seconds: float, work_seconds: float) -> None:
        """A key of the queue of that name was given back."""
        queued, worked = self._times_of[queue]
        queued.observe(queued_seconds)
        worked.observe(work_seconds)

    def decided(self, seconds: float) -> None:
        self._decided.observe(seconds)

    def watch_queues(self, queues: Mapping[str, Queue]) -> None:
        """Show them from now on, each under its name; one is that of the DaemonSets. Scrapes must run on their event
        loop."""
        daemonsets = queues[CONTROLLER]
        self._active.set_function(lambda: len(daemonsets.processing_seconds()))
        self._times_of = {name: self._times(name) for name in queues}
        self.registry.register(QueueCollector(queues))

    def _times(self, queue: str) -> tuple[Histogram, ...]:
        return tuple(one.labels(queue) for one in self._key_times)

    # -- requests

    def _requests_set_up(self) -> None:
        self._requests = Counter(
            "rest_client_requests_total",
            "Requests by code (<error>: no answer) and method",
            ("code", "method", "host"),
            registry=self.registry,
        )
        self._latency = Histogram(
            "rest_client_request_duration_seconds",
            "Until the answer; for a watch, until its first line",
            ("verb", "host"),
            buckets=REQUESTS,
            registry=self.registry,
        )
        self._by_code = {
            (verb, code): self._requests.labels(str(code), METHODS[verb], self._host)
            for verb, code in (
                ("get", 200),
                ("list", 200),
                ("watch", 200),
                ("create", 201),
                ("patch", 200),
                ("delete", 200),
            )
        }
        self._by_verb = {verb: self._latency.labels(verb, self._host) for verb in METHODS}

    def answered(self, verb: str, status: int, seconds: float) -> None:
        """One exchange with the API server. `verb` is Kubernetes' (`METHODS`); `status` 0: no answer."""
        counter = self._by_code.get((verb, status))
        if counter is None:
            code = str(status) if status else "<error>"
            counter = self._requests.labels(code, METHODS.get(verb, verb.upper()), self._host)
            self._by_code[verb, status] = counter
        counter.inc()
        if verb in self._by_verb:
            self._by_verb[verb].observe(seconds)

    # -- watches and caches

    def heard(self, resource: str, watch: str) -> None:
        """Something came of a resource; `watch` tells several of one resource apart."""
        self._watches.heard(resource, watch)

    def watch_restarted(self, resource: str, reason: str) -> None:
        self._watches.restarted(resource, reason)

    def malformed(self, resource: str) -> None:
        self._watches.malformed(resource)

    def watch_caches(self, caches: dict[str, Cache]) -> None:
        """Show each resource's cache from now on."""
        self.registry.register(CacheCollector(caches))

    def watch_daemonsets(self, current: Callable[[], Iterable[MeasuredDaemonSet]], *, zones: bool = True) -> None:
        """Show the state of every DaemonSet that `current` yields; a standby yields none."""
        self.registry.register(DaemonSetCollector(current, zones=zones))

    def count_image_pulls(self, jobs: Callable[[], int], pullers: Callable[[], int]) -> ImagePullMetrics:
        """Where ImagePullJobs are carried out; else nothing is said of them."""
        return ImagePullMetrics(self.registry, jobs, pullers)

    # -- our own

    def _own_set_up(self, version: str, revision: str) -> None:
        registry = self.registry
        Gauge(
            "kruise_ds_build_info",
            "Always 1",
            ("version", "revision", "python_version"),
            registry=registry,
        ).labels(version, revision, platform.python_version()).set(1)
        self._stale = Counter(
            "kruise_ds_stale_passes", "Passes that waited for their own writes to be seen", registry=registry
        )
        self._overdue = Counter(
            "kruise_ds_expectations_timeouts",
            "Own writes that the cache did not show in 30 s",
            registry=registry,
        )
        status = Counter("kruise_ds_status_updates_total", "Status writes by result", ("result",), registry=registry)
        self._status = {result: status.labels(result) for result in ("success", "conflict", "error")}
        self._dropped = Counter(
            "kruise_ds_events_dropped", "Events that were never sent because too many waited", registry=registry
        )
        self._lag = Histogram(
            "kruise_ds_event_loop_lag_seconds", "How late a timer fires", buckets=LAGS, registry=registry
        )
        self._master = Gauge(
            "leader_election_master_status",
            "1 while this process leads",
            ("name",),
            registry=registry,
        ).labels(LEASE_NAME)
        self._master.set(0)

    def stale(self) -> None:
        self._stale.inc()

    def overdue(self) -> None:
        self._overdue.inc()

    def status_written(self, result: Literal["success", "conflict", "error"]) -> None:
        self._status[result].inc()

    def event_dropped(self) -> None:
        self._dropped.inc()

    def loop_lag(self, seconds: float) -> None:
        self._lag.observe(seconds)

    def leads(self, leading: bool) -> None:
        self._master.set(1 if leading else 0)

    def families(self) -> Iterator[Metric]:
        """Everything as it is now, each metric read when it is asked for."""
        self.tally.settle()
        yield from self.registry.collect()

    def _counter(self, name: str, meaning: str, controller: str) -> Counter:
        return Counter(name, meaning, ("controller",), registry=self.registry).labels(controller)

    def _histogram(self, name: str, meaning: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, meaning, ("controller",), buckets=buckets, registry=self.registry).labels(CONTROLLER)
