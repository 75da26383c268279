"""What the pages of a controller say from its start to its end, and with which code a process ends."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from controller import app
from controller.kube.connection import Connection
from controller.kube.errors import ConfigError
from controller.observe import log
from controller.observe.http import CannotListen
from controller.observe.metrics import encoded
from controller.runtime.clock import system_clock
from controller.runtime.leader_election import LeadershipLost
from controller.settings import Address, Settings, UnusableOption
from controller.wiring import Parts
from tests.beds.api import DAEMONSETS, Api
from tests.beds.control_plane.processes import free_port
from tests.beds.controller.running import SHARED
from tests.beds.objects import demo
from tests.beds.simulator import Cluster, FaultPlan, InProcess, Rule
from tests.beds.simulator.faults import Hang
from tests.integration.test_server import ask

LEADS = 'leader_election_master_status{name="kruise-ds-controller"} '


def leads(parts: Parts) -> bool:
    return f"{LEADS}1.0" in encoded(tuple(parts.metrics.families()))[0].decode()


async def page(address: Address, path: str, status: int) -> str:
    """The page once it has this status."""
    while True:
        try:
            found = await ask(address.port, path)
        except aiohttp.ClientConnectionError:
            await asyncio.sleep(0)  # it does not listen yet
            continue
        if found[0] == status:
            return found[1]


async def test_the_pages_of_a_controller_from_its_start_to_its_end() -> None:
    cluster, hangs, stop = Cluster(system_clock), asyncio.Event(), asyncio.Event()
    link = InProcess(cluster, faults=FaultPlan(Rule(verb="create", effect=Hang())))
    link.on_fault, link.up = lambda _: hangs.set(), False
    health, metrics = (Address(host="127.0.0.1", port=free_port()) for _ in range(2))
    settings = Settings(leader_elect=False, health_address=health, metrics_address=metrics, metrics_auth=True)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        parts = Parts(settings, link)
        running = group.create_task(app.run(settings, parts, stop, SHARED))
        assert "[-]caches failed: not listed yet: " in await page(health, "/readyz", 503)
        link.up = True
        await page(health, "/readyz", 200)
        assert await page(metrics, "/metrics", 401) == "a bearer token is needed\n"
        await Api(InProcess(cluster)).create(DAEMONSETS, demo())
        await hangs.wait()
        assert leads(parts)
        stop.set()
        assert "[-]stopping failed: shutting down" in await page(health, "/readyz", 503)
        assert await page(health, "/healthz", 200) == "ok", "workers that end are as they should be"
        running.cancel()
    assert not leads(parts)


@pytest.mark.parametrize("listed", [False, True])
async def test_a_controller_that_does_not_act_yet_stops_at_once(listed: bool) -> None:
    """While it waits for its caches, and as a standby."""
    link, stop = InProcess(Cluster(system_clock)), asyncio.Event()
    link.up = listed
    settings = Settings(health_address=None, metrics_address=None)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        parts = Parts(settings, link)
        group.create_task(app.run(settings, parts, stop, SHARED))
        while listed and not parts.informers.caches.pods.filled:
            await asyncio.sleep(0)
        stop.set()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("no"), 2),
        (CannotListen("no"), 2),
        (UnusableOption("no"), 2),
        (LeadershipLost("no"), 1),
        (ValueError("a bug"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_the_exit_code_says_whether_another_start_may_help(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "configure", lambda *_: None)  # it would last

    async def failing(kubeconfig: str | None, context: str | None) -> Connection:
        raise error

    assert await app.main_loop(Settings(), connection_of=failing) == code
