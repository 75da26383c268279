"""The controller's metrics, where a test asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from controller.settings import Settings
from tests.beds.control_plane.ports import free_port
from tests.beds.control_plane.probe import get
from tests.beds.controller.bed import Bed


def with_metrics(bed: Bed, port: int) -> Settings:
    """The bed's settings, with the metrics served on loopback."""
    return msgspec.structs.replace(bed.controller.settings, metrics_address=f"127.0.0.1:{port}")


def elected(bed: Bed, port: int) -> Settings:
    """The same with a Lease in the bed's namespace."""
    settings = with_metrics(bed, port)
    return msgspec.structs.replace(settings, leader_elect=True, lease_namespace=bed.api.namespace)


async def scrape(port: int) -> str:
    """Raises ConnectionError where nobody listens."""
    status, text = await get(f"http://127.0.0.1:{port}/metrics")
    if not status:
        raise ConnectionError(text)
    assert status == 200, text
    return text


async def metric(port: int, name: str, **labels: str) -> float:
    """The sum over all series of that name that have these labels; 0 when there is none."""
    text = await scrape(port)
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    series = (line.rpartition(" ") for line in text.splitlines() if line.split("{")[0].split(" ")[0] == name)
    return sum(float(value) for head, _, value in series if all(label in head for label in wanted))


Numbers: TypeAlias = float | Mapping[str, float]
"""Of a metric without further labels its value; else the series that are not 0, by the values of those labels in the
order of their names, as in `old/zone-a`."""


async def state(port: int, name: str = "agent") -> dict[str, Numbers]:
    """What is told of one DaemonSet, without `kruise_daemonset_`; empty where nothing is."""
    text = await scrape(port)
    found: dict[str, Numbers] = {}
    for family in text_string_to_metric_families(text):
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


async def tells(bed: Bed, port: int, *, name: str = "agent", **wanted: Numbers) -> dict[str, Numbers]:
    """Scrape until these metrics read like this, and return all of that scrape."""
    found: dict[str, Numbers] = {}

    async def missing() -> str:
        nonlocal found
        found = await state(port, name)
        there = {metric_name: found.get(metric_name) for metric_name in wanted}
        return "" if there == wanted else f"wanted {wanted}, there is {there}"

    await scraped(bed, missing)
    return found


async def scraped(bed: Bed, missing: Callable[[], Awaitable[str]]) -> None:
    """Ask until nothing is missing: nothing tells when a number has changed. The controller may just be starting."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + bed.patience
    words = "nobody listens"
    while words:
        with suppress(ConnectionError):
            words = await missing()
        assert not words or loop.time() < deadline, f"{words}\n{bed.journal}"
        await asyncio.sleep(0.05 if words else 0)


async def measured(bed: Bed) -> int:
    """The bed's controller begins anew, with metrics: the port that they are at."""
    port = free_port()
    await bed.controller.stop()
    bed.controller.start(with_metrics(bed, port))
    return port


async def filled(bed: Bed, port: int) -> None:
    """Wait until the caches of that controller are."""

    async def missing() -> str:
        there = await metric(port, "kruise_ds_informer_synced")
        return "" if there == 4 else f"{there} of 4 caches are full"

    await scraped(bed, missing)
