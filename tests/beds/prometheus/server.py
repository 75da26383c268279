"""One Prometheus on loopback, configured as its operator would do from our ServiceMonitor, but every second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import yaml

from tests.beds.control_plane import Process
from tests.beds.control_plane.access import get
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.control_plane.processes import free_port
from tests.beds.manifests import MANIFESTS
from tests.beds.prometheus.binaries import Binaries

RULES = MANIFESTS / "alerts" / "rules.yaml"
MONITOR = MANIFESTS / "components" / "prometheus" / "servicemonitor.yaml"
INSTALLED_IN = "kruise-ds-system"
PATIENCE = 60.0
POLL = 0.1


class Prometheus:
    """A running one, asked by its HTTP API."""

    def __init__(self, start: Callable[[], Process], port: int) -> None:
        self._start, self.process, self.port = start, start(), port

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    async def ready(self) -> None:
        async def is_ready() -> bool:
            return (await get(f"{self.url}/-/ready"))[0] == 200

        await self.process.until(is_ready, what="ready", seconds=PATIENCE)

    async def comes_back(self) -> None:
        """After its end, on its port and with its data."""
        self.process = self._start()
        await self.ready()

    async def ask(self, path: str, **parameters: str) -> Any:
        """The `data` of an answer of `/api/v1/<path>`; fails the test when it is an error."""
        _, body = await get(f"{self.url}/api/v1/{path}?{urlencode(parameters)}", seconds=20)
        answer = msgspec.json.decode(body)
        assert answer["status"] == "success", f"{path} {parameters}: {answer.get('error')}"
        return answer["data"]

    async def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """What an expression gives now: (labels, value)."""
        found = await self.ask("query", query=expression)
        return [(one["metric"], float(one["value"][1])) for one in found["result"]]

    async def over_time(self, expression: str, seconds: float) -> list[dict[str, str]]:
        """The labels of what an expression gave in the last `seconds`, at each of them."""
        now = time.time()
        found = await self.ask("query_range", query=expression, start=f"{now - seconds}", end=f"{now}", step="1")
        return [one["metric"] for one in found["result"]]

    async def alerts(self) -> list[dict[str, Any]]:
        """All that are pending or firing."""
        found: list[dict[str, Any]] = (await self.ask("alerts"))["alerts"]
        return found

    async def until(self, holds: Callable[[list[dict[str, Any]]], bool], what: str) -> None:
        """Wait until the alerts are so; raises TimeoutError that says what they are."""
        seen: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(PATIENCE):
                while not holds(seen := await self.alerts()):  # as below
                    await asyncio.sleep(POLL)
        except TimeoutError:
            raise TimeoutError(f"not in {PATIENCE:g} s: {what}; alerts: {seen}") from None

    async def scraped(self, expression: str) -> None:
        """Wait until an expression gives anything."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not await self.query(expression):  # another process sets no event here
                    await asyncio.sleep(POLL)
        except TimeoutError:
            raise TimeoutError(f"not in {PATIENCE:g} s: {expression}{self.process.tail()}") from None


def scrape_configuration(monitor: Mapping[str, Any], pods: Mapping[str, int]) -> dict[str, Any]:
    """What the operator makes of a ServiceMonitor, for these pods (name to port on loopback)."""
    (endpoint,) = monitor["spec"]["endpoints"]
    name = f"serviceMonitor/{monitor['metadata']['namespace']}/{monitor['metadata']['name']}/0"
    relabel = [
        {"target_label": one["targetLabel"], "replacement": one["replacement"]} for one in endpoint["relabelings"]
    ]
    targets = [
        {"targets": [f"{LOOPBACK}:{port}"], "labels": {"namespace": INSTALLED_IN, "pod": pod}}
        for pod, port in pods.items()
    ]
    return {
        "job_name": name,
        "metrics_path": endpoint["path"],
        "honor_labels": endpoint.get("honorLabels", False),
        "relabel_configs": relabel,
        "static_configs": targets,
    }


def hasty(rules: str) -> str:
    """The alerts with no patience: what would fire some minutes later does so at once, and says so by a label."""
    document = yaml.safe_load(rules)
    for group in document["groups"]:
        group["name"] += "-hasty"
        group["rules"] = [rule for rule in group["rules"] if "alert" in rule]  # what is recorded is so already
        for rule in group["rules"]:
            rule |= {"for": "0s", "labels": {**rule["labels"], "hasty": "yes"}}
    return yaml.safe_dump(document)


@asynccontextmanager
async def scraping(binaries: Binaries, folder: Path, pods: Mapping[str, int]) -> AsyncIterator[Prometheus]:
    """A Prometheus that scrapes these pods (name to port), with our rules and a hasty copy of them."""
    rules = folder / "hasty.yaml"
    rules.write_text(hasty(RULES.read_text()))
    job = scrape_configuration(yaml.safe_load(MONITOR.read_text()), pods)
    async with serving(binaries, folder, job, RULES, rules) as started:
        yield started


@asynccontextmanager
async def serving(
    binaries: Binaries, folder: Path, job: Mapping[str, Any], *rules: Path
) -> AsyncIterator[Prometheus]:
    """A Prometheus that does this every second, until the block ends."""
    home = folder / "prometheus"
    home.mkdir()
    configuration = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(one) for one in rules],
        "scrape_configs": [job],
    }
    (home / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
    port = free_port()
    started = Prometheus(lambda: Process("prometheus", _command(binaries, home, port), folder=folder), port)
    try:
        await started.ready()
        yield started
    finally:
        await started.process.stop()


def _command(binaries: Binaries, home: Path, port: int) -> Sequence[str | Path]:
    return [
        binaries.prometheus,
        f"--config.file={home / 'prometheus.yaml'}",
        f"--storage.tsdb.path={home / 'data'}",
        f"--web.listen-address={LOOPBACK}:{port}",
        "--log.level=warn",
    ]
