"""The alerts over what the controller really tells, minute by minute of a rollout, judged by promtool.

tests/monitoring/test_alerts.py tries each alone, with series that are made up.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.beds.controller.bed import Bed
from tests.beds.controller.waves import UNREADY, all_ready, roll
from tests.beds.objects import PROBED, V2, V3, daemonset
from tests.beds.prometheus import Binaries
from tests.beds.prometheus.server import RULES

MINUTE = 60.0
SCRAPED = {"job": "kruise-ds-metrics", "pod": "a"}
"""What a scrape adds."""
LONG_AGO = 1e9
"""Values beyond it are times: promtool's clock begins with 0."""


class Recording:
    """All series of the controller's page, a value a minute."""

    def __init__(self, bed: Bed) -> None:
        self._bed, self._began = bed, bed.clock()
        self._values: defaultdict[str, dict[int, float]] = defaultdict(dict)
        self.minutes = 0

    def scrape(self) -> None:
        self._values[_series("up", {})][self.minutes] = 1.0
        for family in text_string_to_metric_families(self._bed.controller.scrape()):
            for sample in family.samples:
                value = sample.value - self._began if sample.value > LONG_AGO else sample.value
                self._values[_series(sample.name, sample.labels)][self.minutes] = value
        self.minutes += 1

    def input_series(self) -> list[dict[str, str]]:
        return [
            {"series": series, "values": " ".join(_number(values.get(at)) for at in range(self.minutes))}
            for series, values in self._values.items()
        ]


def _series(name: str, labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{key}="{value}"' for key, value in {**SCRAPED, **labels}.items())
    return f"{name}{{{inside}}}"


def _number(value: float | None) -> str:
    return "_" if value is None else f"{value:.15g}"


@asynccontextmanager
async def recording(bed: Bed) -> AsyncIterator[Recording]:
    made = Recording(bed)

    async def scrape() -> None:
        while True:
            made.scrape()
            await asyncio.sleep(MINUTE)

    scraping = asyncio.create_task(scrape())
    yield made
    scraping.cancel()


async def test_they_fire_for_what_is_stuck_and_for_nothing_else(
    bed: Bed, prometheus_binaries: Binaries, tmp_path: Path
) -> None:
    firing: dict[int, tuple[str, ...]] = {}
    """What shall fire, by minutes."""
    await bed.add_nodes(6)
    async with recording(bed) as recorded:

        async def pass_by(minutes: int, *alerts: str) -> None:
            await asyncio.sleep(minutes * MINUTE)
            firing[recorded.minutes - 1] = alerts

        await bed.deploy(daemonset(pod=PROBED, rolling={"maxUnavailable": 1, "partition": 4}))
        await bed.set_image(V2)
        await bed.phase("Held")
        await pass_by(20)
        bed.nodes.behave("*", UNREADY)
        await roll(bed, partition=0)
        await bed.phase("Progressing")
        await pass_by(9)  # one node is late
        await pass_by(20, "KruiseDaemonSetFailingNodes", "KruiseDaemonSetRolloutStalled")
        bed.nodes.behave("*")
        await all_ready(bed)
        await bed.phase("Healthy")
        await pass_by(6)
        await bed.set_image(V3)
        await bed.phase("Healthy")
        await pass_by(15)
    judge(prometheus_binaries, recorded, firing, tmp_path / "tests.yaml")


def judge(binaries: Binaries, recorded: Recording, firing: Mapping[int, Sequence[str]], file: Path) -> None:
    """Let promtool run our rules over what was recorded."""
    moments = [expected(at, *alerts) for at, alerts in firing.items()]
    test = {"interval": "1m", "input_series": recorded.input_series(), "promql_expr_test": moments}
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run([binaries.promtool, "test", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def expected(minute: int, *alerts: str) -> dict[str, Any]:
    """These alerts fire then, and no others."""
    samples = [{"labels": f'{{alertname="{one}"}}', "value": 1} for one in alerts]
    query = 'count by (alertname) (ALERTS{alertstate="firing"})'
    return {"expr": query, "eval_time": f"{minute}m", "exp_samples": samples}
