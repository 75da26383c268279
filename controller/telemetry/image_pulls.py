"""ImagePullJobs: attempts, and how many jobs and pullers there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge


class ImagePullMetrics:
    def __init__(self, registry: CollectorRegistry, jobs: Callable[[], int], pullers: Callable[[], int]) -> None:
        """`jobs`: those that are not over; `pullers`: the pods that there are now."""
        attempts = Counter(
            "kruise_ds_image_pulls_total",
            "Attempts of ImagePullJobs to get an image onto a node, by result",
            ("result",),
            registry=registry,
        )
        self._attempts = {result: attempts.labels(result) for result in ("pulled", "failed")}
        Gauge("kruise_ds_image_pull_jobs", "ImagePullJobs that are not over", registry=registry).set_function(jobs)
        Gauge("kruise_ds_image_pull_pods", "Puller pods now", registry=registry).set_function(pullers)

    def ended(self, result: Literal["pulled", "failed"]) -> None:
        self._attempts[result].inc()
