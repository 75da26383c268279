"""Watches: how often they began anew and why, when something came last, and what could not be read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

REASONS = ("closed", "gone", "error", "timeout")


class Watches(Collector):
    def __init__(self, registry: CollectorRegistry, resources: tuple[str, ...]) -> None:
        malformed = Counter(
            "kruise_ds_malformed_objects_total",
            "Objects that could not be read; the last good state of each is kept",
            ("resource",),
            registry=registry,
        )
        restarts = Counter(
            "kruise_ds_watch_restarts_total",
            "Watches that ended and were opened again: closed by the server, gone (410), error, timeout",
            ("resource", "reason"),
            registry=registry,
        )
        self._malformed = {resource: malformed.labels(resource) for resource in resources}
        self._restarts = {
            (resource, reason): restarts.labels(resource, reason) for resource in resources for reason in REASONS
        }
        self._heard: dict[str, dict[str, float]] = {resource: {} for resource in resources}
        registry.register(self)

    def malformed(self, resource: str) -> None:
        self._malformed[resource].inc()

    def restarted(self, resource: str, reason: str) -> None:
        self._restarts[resource, reason].inc()

    def heard(self, resource: str, watch: str) -> None:
        self._heard[resource][watch] = time.time()

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        """Of several watches of one resource the one that has been silent for longest counts."""
        last = GaugeMetricFamily(
            "kruise_ds_informer_last_contact_timestamp_seconds",
            "When the last event or bookmark came, 0 if none has",
            labels=("resource",),
        )
        for resource, watches in self._heard.items():
            last.add_metric([resource], min(watches.values(), default=0.0))
        yield last
