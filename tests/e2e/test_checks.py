"""Checks of the steps of a rollout, by the real controller, a real API server and a real Prometheus."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from controller.api.daemonset import Check
from controller.kube.prometheus import NoAnswer, connected
from controller.planner.checks import CheckRequest
from controller.settings import Settings
from tests.beds.api import DAEMONSETS, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.process import running
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.objects import is_live, node_of
from tests.beds.prometheus import Binaries
from tests.beds.prometheus.server import serving
from tests.e2e.conftest import ACCOUNT

pytestmark = pytest.mark.real

NODES = ("checked-0", "checked-1", "checked-2")
SOAKS = {"fine": "1s", "sick": "60s"}


class Agents:
    """What agents say of themselves: `agent_errors`, by pod."""

    def __init__(self) -> None:
        self.errors: dict[str, int] = {}

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(text="".join(f'agent_errors{{pod="{pod}"}} {n}\n' for pod, n in self.errors.items()))


@asynccontextmanager
async def scraped(agents: Agents) -> AsyncIterator[dict[str, Any]]:
    """The job that scrapes them."""
    app = web.Application()
    app.router.add_get("/metrics", agents.metrics)
    async with TestServer(app) as server:
        yield {"job_name": "agents", "static_configs": [{"targets": [f"{server.host}:{server.port}"]}]}


def checked(name: str, version: str) -> Object:
    """Goes from one node to all, is watched by Prometheus, and goes back when that sees errors for 5 seconds."""
    made = sample("ds.demo.yaml")
    made["metadata"] = {"name": name}
    made["spec"]["selector"] = {"matchLabels": {"app": name}}
    made["spec"]["template"]["metadata"]["labels"] = {"app": name, "ver": version}
    made["spec"]["updateStrategy"] = {
        "rollingUpdate": {
            "maxUnavailable": 3,
            "steps": [{"nodes": 1, "soak": SOAKS[name]}, {"nodes": "100%"}],
            "onFailure": {"after": "5s", "action": "RollBack"},
            "checks": [{"name": "errors", "query": 'agent_errors{pod=~"$pods"} > 0'}],
        }
    }
    return made


async def until(bed: Workspace, name: str, what: str, **rollout: Any) -> Object:
    """Wait until the record of the rollout says so; `reason` is that of Progressing."""

    def is_so(found: list[Object]) -> bool:
        status = found[0].get("status") or {} if found else {}
        reasons = [one["reason"] for one in status.get("conditions") or [] if one["type"] == "Progressing"]
        known = {**(status.get("rollout") or {}), "reason": "".join(reasons)}
        return all(known.get(field) == value for field, value in rollout.items())

    query = {"fieldSelector": f"metadata.name={name}"}
    (found,) = await bed.api.wait_for(DAEMONSETS, is_so, f"{name}: {what}", seconds=120, **query)
    record: Object = found["status"]["rollout"]
    return record


def is_stable(daemonset: Object) -> bool:
    return "stableRevision" in ((daemonset.get("status") or {}).get("rollout") or {})


async def versions(bed: Workspace, name: str) -> dict[str, str]:
    live = [one for one in await bed.pods() if is_live(one) and one["metadata"]["labels"]["app"] == name]
    return {node_of(one): one["metadata"]["labels"]["ver"] for one in live}


async def test_a_walk_waits_for_prometheus_and_a_bad_version_goes_back(
    plane: ControlPlane, bed: Workspace, prometheus_binaries: Binaries, tmp_path: Path
) -> None:
    """Prometheus is away when the walk of `fine` begins, and `sick` fails once it is there. The checks of both are
    evaluated every 30 seconds, so they go on at the same time."""
    agents = Agents()
    async with (
        scraped(agents) as job,
        serving(prometheus_binaries, tmp_path, job) as prometheus,
        running(plane.folder, plane.kubeconfig_for(ACCOUNT), f"--prometheus-url={prometheus.url}"),
    ):
        await bed.workers(*NODES)
        for name in ("sick", "fine"):
            await bed.apply(checked(name, "v1"))
        stable = "each has a revision to go back to"
        await bed.api.wait_for(DAEMONSETS, lambda found: all(map(is_stable, found)), stable, seconds=120)
        await prometheus.process.stop()
        await bed.apply(checked("fine", "v2"))
        await until(bed, "fine", "has no answer", reason="CheckUnanswered")
        assert sorted((await versions(bed, "fine")).values()) == ["v1", "v1", "v1"]
        await prometheus.comes_back()

        await bed.apply(checked("sick", "v2"))
        await until(bed, "sick", "soaks", phase="Soaking", step=1)
        (pod,) = [
            one["metadata"]["name"]
            for one in await bed.pods()
            if one["metadata"]["labels"]["app"] == "sick" and one["metadata"]["labels"]["ver"] == "v2"
        ]
        agents.errors[pod] = 7
        await until(bed, "sick", "its check fails", reason="CheckFailing")
        record = await until(bed, "sick", "is aborted", phase="Aborted")
        assert "check errors fails for longer than 5s: agent_errors{" in record["abortedMessage"]
        assert f'pod="{pod}"' in record["abortedMessage"]
        await bed.settled(len(NODES), "sick")
        assert set((await versions(bed, "sick")).values()) == {"v1"}

        record = await until(bed, "fine", "is everywhere", phase="Healthy", step=2)
        assert "abortedRevision" not in record
        assert "checks" not in record
        assert set((await versions(bed, "fine")).values()) == {"v2"}


async def test_what_a_real_prometheus_answers(prometheus_binaries: Binaries, tmp_path: Path) -> None:
    agents = Agents()
    pods = [f"agent.{number}-{'x' * 40}" for number in range(5_000)]
    agents.errors = {**dict.fromkeys(pods[:3], 1), "agentx0": 1}
    asking = CheckRequest(checks=(), revision="v2", pods=tuple(pods), checked_from=None)

    def query(text: str) -> str:
        return asking.query(Check(name="a", query=text), "ns", "agent")

    async with (
        scraped(agents) as job,
        serving(prometheus_binaries, tmp_path, job) as prometheus,
        connected(Settings(prometheus_url=prometheus.url)) as client,
    ):
        assert client is not None
        await prometheus.scraped("agent_errors")
        found = await client.series(query('agent_errors{pod=~"$pods"} > 0'))
        assert found.endswith(" 1 and 2 more series")
        assert 'pod="agent.0-xxx' in found
        assert await client.series(query('agent_errors{pod=~"$pods"} > 1')) == ""
        assert await client.series(query('agent_errors{pod=~"$$x"}')) == ""
        assert await client.series(query("agent_errors[1m]")) != ""
        none = CheckRequest(checks=(), revision="v2", pods=(), checked_from=None)
        assert await client.series(none.query(Check(name="a", query='up{pod=~"$pods"}'), "ns", "agent")) == ""
        for text, why in (("1 +", "parse error"), ("1", "returns a scalar"), ('"a"', "returns a string")):
            with pytest.raises(NoAnswer, match=why):
                await client.series(text)
