"""The controller's metrics, where a test asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from controller.settings import Settings
from tests.beds.controller.bed import Bed
from tests.beds.controller.running import Controller


def elected(bed: Bed) -> Settings:
    """The bed's settings, with a Lease in its namespace."""
    return msgspec.structs.replace(bed.controller.settings, leader_elect=True, lease_namespace=bed.api.namespace)


def metric(controller: Controller, name: str, **labels: str) -> float:
    """The sum over all series of that name that have these labels; 0 when there is none."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    lines = controller.scrape().splitlines()
    series = (line.rpartition(" ") for line in lines if line.split("{")[0].split(" ")[0] == name)
    return sum(float(value) for head, _, value in series if all(label in head for label in wanted))


Numbers: TypeAlias = float | Mapping[str, float]
"""Of a metric without further labels its value; else the series that are not 0, by the values of those labels in the
order of their names, as in `old/zone-a`."""


def state(controller: Controller, name: str = "agent") -> dict[str, Numbers]:
    """What is reported of one DaemonSet, without `kruise_daemonset_`; empty where nothing is."""
    found: dict[str, Numbers] = {}
    for family in text_string_to_metric_families(controller.scrape()):
        if family.type != "gauge":
            continue
        for sample in family.samples:
            labels = dict(sample.labels)
            if labels.pop("daemonset", "") != name:
                continue
            del labels["namespace"]
            metric_name = sample.name.removeprefix("kruise_daemonset_")
            if not labels:
                found[metric_name] = sample.value
                continue
            series = found.setdefault(metric_name, {})
            assert isinstance(series, dict), f"{metric_name} has series with and without labels"
            if sample.value:
                series["/".join(labels.values())] = sample.value
    return found


async def tells(bed: Bed, controller: Controller | None = None, **wanted: Numbers) -> dict[str, Numbers]:
    """Scrape the bed's controller, or another, until these metrics read like this, and return all of that scrape."""
    found: dict[str, Numbers] = {}

    def missing() -> str:
        nonlocal found
        found = state(controller or bed.controller)
        there = {metric_name: found.get(metric_name) for metric_name in wanted}
        return "" if there == wanted else f"wanted {wanted}, there is {there}"

    await scraped(bed, missing)
    return found


async def scraped(bed: Bed, missing: Callable[[], str]) -> None:
    """Ask until nothing is missing: nothing tells when a number has changed. The controller may just be starting."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + bed.patience
    words = "nobody listens"
    while words:
        with suppress(ConnectionError):
            words = missing()
        assert not words or loop.time() < deadline, f"{words}\n{bed.journal}"
        await asyncio.sleep(0.25 if words else 0)


async def filled(bed: Bed, controller: Controller) -> None:
    """Wait until its caches are."""

    def missing() -> str:
        there = metric(controller, "kruise_ds_informer_synced")
        return "" if there == 4 else f"{there} of 4 caches are full"

    await scraped(bed, missing)
