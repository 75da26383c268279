"""The metrics of one process, and their text for scrapers.

Metrics shared with other controllers have their usual names (`workqueue_*`, `controller_runtime_*`, `rest_client_*`);
others start with `kruise_ds_`. No label value is a node, pod or image name. Series known in advance start at 0.
"""

from __future__ import annotations

import asyncio
import platform
from collections import Counter as Count
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Generic, NoReturn, TypeAlias, TypeVar, get_args

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
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from controller.api.daemonset import DaemonSet
from controller.api.names import LEASE_NAME
from controller.api.node import Node
from controller.api.objects import Key
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.kube.sender import Exchange
from controller.observe.daemonset_counters import NODES, ROLLOUT_RESULTS, ROLLOUTS, UPDATE_METHODS, DaemonSetCounters
from controller.observe.daemonset_gauges import DaemonSetCollector, DaemonSetSample
from controller.runtime.store import Store
from controller.runtime.watch import RestartReason
from controller.runtime.workqueue import WorkQueue

CONTROLLER = "daemonset"
"""The controller of DaemonSets. Metrics of passes name each controller after its queue."""
JOB_QUEUE = "imagepulljob"
IMAGE_QUEUE = "daemonset-images"

PASS_RESULTS = ("success", "error", "requeue", "requeue_after")
"""As in controller-runtime. `requeue` does not occur: every key comes back with a delay."""
METHODS = dict.fromkeys(("get", "list", "watch"), "GET")
METHODS |= {"create": "POST", "patch": "PATCH", "delete": "DELETE"}
"""HTTP methods by verb, for the label that client-go uses."""
COMMON_RESPONSES = (("200", "GET"), ("201", "POST"), ("200", "PATCH"), ("200", "DELETE"))
"""Status codes and methods whose series exist from the start."""
RESOURCES = ("daemonsets", "pods", "nodes", "controllerrevisions")
"""Always watched."""

QUEUE_SECONDS = (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000)
PASS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LAG_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)
REQUEST_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30)
"""Histogram buckets in seconds."""


T = TypeVar("T")
M = TypeVar("M", Counter, Gauge, Histogram)

Row: TypeAlias = tuple[str, str, Callable[[T], float]]
"""Name, meaning, and function that reads the value."""
Cache: TypeAlias = Store[DaemonSet] | Store[Pod] | Store[Node] | Store[Revision]

QUEUES: tuple[Row[WorkQueue[Key]], ...] = (
    ("workqueue_depth", "Keys that are ready and not being processed", lambda queue: queue.depth),
    (
        "workqueue_unfinished_work_seconds",
        "Seconds for which keys have been processed so far, summed over those in progress",
        lambda queue: sum(queue.processing_seconds()),
    ),
    (
        "workqueue_longest_running_processor_seconds",
        "Seconds for which the key that has been in progress longest has been processed",
        lambda queue: max(queue.processing_seconds(), default=0.0),
    ),
    ("workqueue_adds_total", "Keys added to the queue", lambda queue: queue.adds),
    ("workqueue_retries_total", "Keys that failed and come again", lambda queue: queue.retries),
)
CACHES: tuple[Row[Cache], ...] = (
    ("kruise_ds_informer_synced", "1 after the first list", lambda cache: float(cache.filled)),
    ("kruise_ds_informer_objects", "Size of the cache", len),
    (
        "kruise_ds_informer_unreadable_objects",
        "Objects whose latest state cannot be decoded; the last good state is used",
        lambda cache: len(cache.malformed),
    ),
)
LAST_RECEIVED: Row[Mapping[str, float]] = (
    "kruise_ds_informer_last_contact_timestamp_seconds",
    "When the last event or bookmark came, 0 if none has",
    lambda watches: min(watches.values(), default=0.0),  # of several, the one that has been silent for longest
)
TASKS: Row[int] = ("kruise_ds_tasks", "Live asyncio tasks by purpose", float)
KINDS = ("worker", "pass", "reflector", "events", "heartbeat", "lease", "other")
"""The kinds of tasks: the beginnings of their names."""


class Scraped(Collector, Generic[T]):
    """Metrics of several things, whose names are the values of `label`."""

    def __init__(self, label: str, things: Callable[[], Mapping[str, T]], *rows: Row[T]) -> None:
        self._label, self._things, self._rows = label, things, rows

    def collect(self) -> Iterator[Metric]:
        things = self._things()
        for name, meaning, read in self._rows:
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(name, meaning, labels=(self._label,))
            for value, thing in things.items():
                family.add_metric([value], read(thing))
            yield family


class Registry(CollectorRegistry):
    """Makes metrics. `labels` are given with the values whose series exist from the start, as 0."""

    def counter(self, name: str, meaning: str, /, **labels: Iterable[str]) -> Counter:
        return _from_zero(Counter(name, meaning, tuple(labels), registry=self), labels)

    def gauge(self, name: str, meaning: str, /, **labels: Iterable[str]) -> Gauge:
        return _from_zero(Gauge(name, meaning, tuple(labels), registry=self), labels)

    def histogram(self, name: str, meaning: str, buckets: tuple[float, ...], /, **labels: Iterable[str]) -> Histogram:
        return _from_zero(Histogram(name, meaning, tuple(labels), buckets=buckets, registry=self), labels)


def _from_zero(metric: M, labels: Mapping[str, Iterable[str]]) -> M:
    for values in product(*labels.values()) if labels else ():
        metric.labels(*values)
    return metric


def task_counts() -> Mapping[str, int]:
    """Unfinished tasks of the running loop by kind; all 0 outside of a loop."""
    found = Count(dict.fromkeys(KINDS, 0))
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return found
    for task in tasks:
        kind = task.get_name().partition("-")[0]
        found[kind if kind in found else "other"] += not task.done()
    return found


class Metrics:
    def __init__(
        self,
        *,
        version: str,
        revision: str = "",
        workers: int = 0,
        host: str = "",
        resources: Iterable[str] = RESOURCES,
    ) -> None:
        """`host` is the API server's, a label of request metrics; `resources` are the watched ones."""
        disable_created_metrics()  # type: ignore[no-untyped-call]  # has no annotations
        registry = self.registry = Registry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        registry.register(Scraped("kind", task_counts, TASKS))
        self.daemonset_counters = DaemonSetCounters(
            registry.histogram(
                "kruise_ds_rollout_duration_seconds",
                "Start to end, pauses included",
                ROLLOUTS,
                result=ROLLOUT_RESULTS,
            ),
            registry.histogram(
                "kruise_ds_rollout_paused_duration_seconds",
                "Of these, paused or held",
                ROLLOUTS,
                result=ROLLOUT_RESULTS,
            ),
            registry.histogram(
                "kruise_ds_node_update_duration_seconds",
                "One node: from the decision until its pod of the new revision is available",
                NODES,
                method=UPDATE_METHODS,
            ),
        )
        self.dry_runs = registry.counter(
            "kruise_ds_template_dry_runs_total",
            "Dry runs of a new template before a rollout, by result",
            result=("accepted", "refused", "error"),
        )
        self.foreign_status_writes = registry.counter(
            "kruise_ds_foreign_status_writes_total",
            "Status writes by another controller after our own: two act on one DaemonSet",
        )
        registry.register(self.daemonset_counters)
        self._add_passes(workers)
        self._add_requests(host)
        self._add_watches(tuple(resources))
        self._add_others(version, revision)

    def _add_passes(self, workers: int) -> None:
        registry, ours = self.registry, (CONTROLLER,)
        self.passes = registry.counter(
            "controller_runtime_reconcile_total", "Passes by result", controller=ours, result=PASS_RESULTS
        )
        self.errors = registry.counter("controller_runtime_reconcile_errors", "Passes that failed", controller=ours)
        self.panics = registry.counter(
            "controller_runtime_reconcile_panics", "Passes that ended in an unexpected exception", controller=ours
        )
        self.pass_seconds = registry.histogram(
            "controller_runtime_reconcile_time_seconds",
            "Length of a pass, writes included",
            PASS_SECONDS,
            controller=ours,
        )
        self._active = registry.gauge(
            "controller_runtime_active_workers",
            "Passes now; one that waits for the API server takes no worker",
            controller=ours,
        ).labels(CONTROLLER)
        limit = registry.gauge("controller_runtime_max_concurrent_reconciles", "Workers", controller=ours)
        limit.labels(CONTROLLER).set(workers)
        self.queued_seconds = registry.histogram(
            "workqueue_queue_duration_seconds",
            "How long a key was ready before it was taken",
            QUEUE_SECONDS,
            name=ours,
        )
        self.work_seconds = registry.histogram(
            "workqueue_work_duration_seconds", "How long a key was processed", QUEUE_SECONDS, name=ours
        )
        self.decision_seconds = registry.histogram(
            "kruise_ds_decision_duration_seconds", "Deciding what to do, without doing it", PASS_SECONDS
        )

    def _add_requests(self, host: str) -> None:
        requests = self.registry.counter(
            "rest_client_requests_total",
            "Requests by code (<error>: no answer) and method",
            code=(),
            method=(),
            host=(),
        )
        for code, method in COMMON_RESPONSES:
            requests.labels(code, method, host)
        seconds = self.registry.histogram(
            "rest_client_request_duration_seconds",
            "Until the answer; for a watch, until it is open",
            REQUEST_SECONDS,
            verb=METHODS,
            host=(host,),
        )

        @cache
        def series(verb: str, status: int) -> tuple[Counter, Histogram]:
            code = str(status) if status else "<error>"
            return requests.labels(code, METHODS[verb], host), seconds.labels(verb, host)

        self._of_request = series

    def _add_watches(self, resources: tuple[str, ...]) -> None:
        self.malformed = self.registry.counter(
            "kruise_ds_malformed_objects_total",
            "Objects that could not be read; the last good state of each is kept",
            resource=resources,
        )
        self.watch_restarts = self.registry.counter(
            "kruise_ds_watch_restarts_total",
            "Watches that ended and were opened again: closed by the server, gone (410), error, timeout",
            resource=resources,
            reason=get_args(RestartReason),
        )
        self.last_received: dict[str, dict[str, float]] = {resource: {} for resource in resources}
        """When anything was last received (seconds since 1970), by resource and watch."""
        self.registry.register(Scraped("resource", lambda: self.last_received, LAST_RECEIVED))

    def _add_others(self, version: str, revision: str) -> None:
        registry = self.registry
        build = registry.gauge("kruise_ds_build_info", "Always 1", version=(), revision=(), python_version=())
        build.labels(version, revision, platform.python_version()).set(1)
        self.stale = registry.counter("kruise_ds_stale_passes", "Passes that waited for their own writes to be seen")
        self.overdue = registry.counter(
            "kruise_ds_expectations_timeouts", "Own writes that the cache did not show in 30 s"
        )
        self.status_writes = registry.counter(
            "kruise_ds_status_updates_total", "Status writes by result", result=("success", "conflict", "error")
        )
        self.dropped_events = registry.counter(
            "kruise_ds_events_dropped", "Events that were never sent because too many waited"
        )
        self.loop_lag = registry.histogram("kruise_ds_event_loop_lag_seconds", "How late a timer fires", LAG_SECONDS)
        leads = registry.gauge("leader_election_master_status", "1 while this process leads", name=(LEASE_NAME,))
        self.leads = leads.labels(LEASE_NAME)

    def request_answered(self, answer: Exchange) -> None:
        count, seconds = self._of_request(answer.call.verb, answer.status)
        count.inc()
        seconds.observe(answer.seconds)

    def watch_queues(self, queues: Mapping[str, WorkQueue[Key]]) -> None:
        """Shows these queues, by name, and the passes over their keys. `CONTROLLER` must be one of them."""
        self._active.set_function(lambda: len(queues[CONTROLLER].processing_seconds()))
        for name, result in product(queues, PASS_RESULTS):
            self.passes.labels(name, result)
        times = (self.pass_seconds, self.queued_seconds, self.work_seconds)
        for name, metric in product(queues, (self.errors, self.panics, *times)):
            metric.labels(name)
        self.registry.register(Scraped("name", lambda: queues, *QUEUES))

    def watch_caches(self, caches: Mapping[str, Cache]) -> None:
        self.registry.register(Scraped("resource", lambda: caches, *CACHES))

    def watch_daemonsets(self, current: Callable[[], Iterable[DaemonSetSample]], *, zones: bool = True) -> None:
        self.registry.register(DaemonSetCollector(current, zones=zones))

    def count_image_pulls(self, jobs: Callable[[], int], pullers: Callable[[], int]) -> Callable[[str, int], None]:
        """Registers the metrics of unfinished `jobs` and existing `pullers`. Returns what counts pulls by result."""
        attempts = self.registry.counter(
            "kruise_ds_image_pulls_total",
            "Attempts of ImagePullJobs to get an image onto a node, by result",
            result=("pulled", "failed"),
        )
        gauge = self.registry.gauge
        gauge("kruise_ds_image_pull_jobs", "ImagePullJobs that are not over").set_function(jobs)
        gauge("kruise_ds_image_pull_pods", "Puller pods now").set_function(pullers)
        return lambda result, number: attempts.labels(result).inc(number)

    def families(self) -> Iterator[Metric]:
        """All metrics, each read when it is yielded."""
        self.daemonset_counters.end_finished()
        yield from self.registry.collect()


OPENMETRICS = "application/openmetrics-text"
ENCODE_IN_THREAD_FROM = 1000
"""Samples from which a page is encoded in a thread, not on the event loop."""
Page: TypeAlias = tuple[bytes, str]


class Exposition:
    """Makes pages that show the state after their request: one for all requests before it begins, and at most one per
    second of the loop's clock. Other tasks run between the metrics of a page."""

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families
        self._pages: dict[bool, asyncio.Future[Page]] = {}
        """Requested pages not begun yet, by whether they are in OpenMetrics format."""
        self._requested = asyncio.Event()

    async def __call__(self, accept: str) -> Page:
        modern = OPENMETRICS in accept
        if modern not in self._pages:
            self._pages[modern] = asyncio.get_running_loop().create_future()
            self._requested.set()
        return await asyncio.shield(self._pages[modern])  # others may wait for the same page

    async def make(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._requested.wait()
                self._requested.clear()
                second = int(loop.time())
                pages, self._pages = self._pages, {}
                await self._fill(pages)
                await asyncio.sleep(second + 1 - loop.time())
        finally:
            for page in self._pages.values():
                page.cancel()

    async def _fill(self, pages: Mapping[bool, asyncio.Future[Page]]) -> None:
        try:
            found = []
            for family in self._families():
                found.append(family)
                await asyncio.sleep(0)  # other tasks may run
            large = sum(len(family.samples) for family in found) >= ENCODE_IN_THREAD_FROM
            for modern, page in pages.items():
                page.set_result(await asyncio.to_thread(encoded, found, modern) if large else encoded(found, modern))
        except Exception as error:  # only these pages fail, not the next ones
            for page in pages.values():
                if not page.done():
                    page.set_exception(error)


@asynccontextmanager
async def exposing(families: Callable[[], Iterator[Metric]]) -> AsyncIterator[Exposition]:
    exposition = Exposition(families)
    async with asyncio.TaskGroup() as group:
        making = group.create_task(exposition.make(), name="pages")
        yield exposition
        making.cancel()


def encoded(families: Sequence[Metric], modern: bool = False) -> Page:
    """OpenMetrics if `modern`, else the Prometheus format."""
    encode, content_type = choose_encoder(OPENMETRICS if modern else "")
    return encode(SimpleNamespace(collect=lambda: families)), content_type


HEARTBEAT_SECONDS = 0.1
BLOCKED_SECONDS = 10.0
"""Seconds; a leader blocked for so long has lost its Lease (`leader_election.RENEW_DEADLINE`)."""


class Heartbeat:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time()

    def check(self) -> str:
        """A `HealthCheck` that fails if the loop was blocked for over `BLOCKED_SECONDS` and has not recovered."""
        silence = self._loop.time() - self._at
        return f"the event loop was blocked for {silence:.0f} s" if silence > BLOCKED_SECONDS else ""

    async def run(self, on_lag: Callable[[float], None]) -> NoReturn:
        while True:
            due = self._loop.time() + HEARTBEAT_SECONDS
            await asyncio.sleep(HEARTBEAT_SECONDS)  # waking up late is the lag that is reported
            self._at = self._loop.time()
            on_lag(max(0.0, self._at - due))


@asynccontextmanager
async def heartbeat(on_lag: Callable[[float], None]) -> AsyncIterator[Heartbeat]:
    """Runs every `HEARTBEAT_SECONDS` inside the block and reports how many seconds late each run was."""
    beating = Heartbeat()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(beating.run(on_lag), name="heartbeat")
        yield beating
        task.cancel()
