"""The server on the loopback interface, asked with aiohttp."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from functools import partial

import aiohttp
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from controller.observe.http import (
    KEEP_ALIVE_SECONDS,
    MAX_IDLE,
    MAX_WAITING,
    CannotListen,
    probe,
    scrape,
    serving,
)
from controller.observe.metrics import Metrics, exposing, heartbeat
from controller.settings import Address
from tests.beds.control_plane.processes import free_port
from tests.beds.virtual_time import VirtualLoop, virtual_time_from
from tests.unit.controller.observe.test_delegated_auth import READER, Cluster, auth_of

ANYWHERE = Address(host="127.0.0.1", port=0)
OPTION = "--health-probe-bind-address"


async def ask(port: int | None, path: str, method: str = "GET", accept: str = "*/*") -> tuple[int, str, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://127.0.0.1:{port}{path}", headers={"Accept": accept}) as answer,
    ):
        return answer.status, await answer.text(), answer.headers["Content-Type"]


def readyz(**reasons: str) -> dict[str, Handler]:
    return {"/readyz": probe("readyz", {name: partial(str, why) for name, why in reasons.items()})}


async def test_a_probe_is_short_when_well_and_lists_its_checks_if_asked() -> None:
    async with serving(ANYWHERE, readyz(caches="", lease=""), option=OPTION) as port:
        assert (await ask(port, "/readyz"))[:2] == (200, "ok")
        assert (await ask(port, "/readyz?verbose"))[:2] == (
            200,
            "[+]caches ok\n[+]lease ok\nreadyz check passed\n",
        )


async def test_a_failing_probe_says_which_check_failed_and_why() -> None:
    async with serving(ANYWHERE, readyz(caches="pods are not listed yet", lease=""), option=OPTION) as port:
        status, body, content_type = await ask(port, "/readyz")
    assert status == 503
    assert body == "[-]caches failed: pods are not listed yet\n[+]lease ok\nreadyz check failed\n"
    assert content_type == "text/plain; charset=utf-8"


async def test_404_names_the_paths_and_a_wrong_method_gets_405() -> None:
    async with serving(ANYWHERE, readyz(), option=OPTION) as port:
        assert (await ask(port, "/"))[:2] == (404, "not here; there is /readyz\n")
        async with aiohttp.ClientSession() as session, session.delete(f"http://127.0.0.1:{port}/readyz") as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "GET,HEAD")
        assert (await ask(port, "/readyz", "HEAD"))[:2] == (200, "")


async def test_a_taken_port_is_refused_and_names_the_option() -> None:
    async with serving(ANYWHERE, {}, option=OPTION) as port:
        assert port is not None
        taken = Address(host="127.0.0.1", port=port)
        with pytest.raises(CannotListen) as caught:
            await serving(taken, {}, option="--metrics-bind-address").__aenter__()
    assert str(caught.value) == f"--metrics-bind-address: cannot listen on {taken}: Address already in use"


async def test_the_port_is_free_again_afterwards() -> None:
    address = Address(host="127.0.0.1", port=free_port())
    async with (
        serving(address, {}, option=OPTION) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/"),
    ):
        pass
    async with serving(address, {}, option=OPTION) as again, serving(None, {}, option=OPTION) as off:
        assert again == port == address.port
        assert off is None


async def test_metrics_as_text_and_as_openmetrics() -> None:
    async with (
        exposing(Metrics(version="0.1.0").families) as exposition,
        serving(ANYWHERE, {"/metrics": scrape(exposition)}, option=OPTION) as port,
    ):
        openmetrics = "application/openmetrics-text; version=1.0.0"
        (_, plain, plain_type), (_, modern, modern_type) = await asyncio.gather(
            ask(port, "/metrics"), ask(port, "/metrics", accept=openmetrics)
        )
    assert plain_type.startswith("text/plain; version=0.0.4")
    assert 'kruise_ds_build_info{python_version="' in plain
    assert modern_type.startswith("application/openmetrics-text; version=1.0.0")
    assert modern.endswith("# EOF\n")


async def test_scrapes_above_the_bound_get_503() -> None:
    go_on = asyncio.Event()

    async def slowly(accept: str) -> tuple[bytes, str]:
        await go_on.wait()
        return b"well", "text/plain"

    asked = itertools.count(1)
    page = scrape(slowly)

    async def counted(request: web.Request) -> web.StreamResponse:
        if next(asked) > MAX_WAITING:
            go_on.set()
        return await page(request)

    async with serving(ANYWHERE, {"/metrics": counted}, option=OPTION) as port:
        answers = await asyncio.gather(*(ask(port, "/metrics") for _ in range(MAX_WAITING + 1)))
        assert sorted(status for status, _, _ in answers) == [200] * MAX_WAITING + [503]
        assert f"{MAX_WAITING} scrapes wait already; try again in a second\n" in [body for _, body, _ in answers]
        assert (await ask(port, "/metrics"))[0] == 200, "those that were answered wait no more"


async def test_idle_connections_are_bounded_and_keep_no_client_out() -> None:
    go_on = asyncio.Event()

    async def slowly(accept: str) -> tuple[bytes, str]:
        await go_on.wait()
        return b"well", "text/plain"

    async with serving(ANYWHERE, {"/metrics": scrape(slowly), **readyz(caches="")}, option=OPTION) as port:
        waiting, sender = await asyncio.open_connection("127.0.0.1", port)
        sender.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        await ask(port, "/readyz")
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2 * MAX_IDLE)]
        assert (await ask(port, "/readyz"))[0] == 200
        for reader, _ in idle[:MAX_IDLE]:
            async with asyncio.timeout(KEEP_ALIVE_SECONDS / 3):
                assert await reader.read() == b"", "the oldest make room"
        idle[-1][1].write(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await idle[-1][0].readline() == b"HTTP/1.1 200 OK\r\n"
        go_on.set()
        assert await waiting.readline() == b"HTTP/1.1 200 OK\r\n", "whoever waits for an answer is not idle"
        for _, writer in (*idle, (waiting, sender)):
            writer.close()


async def test_a_client_that_reads_no_answer_makes_room_too() -> None:
    body = bytes(64_000_000)

    async def page(request: web.Request) -> web.Response:
        return web.Response(body=body)

    async with serving(ANYWHERE, {"/metrics": page, **readyz(caches="")}, option=OPTION) as port:
        reader, sender = await asyncio.open_connection("127.0.0.1", port)
        sender.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_IDLE)]
        assert (await ask(port, "/readyz"))[0] == 200
        with contextlib.suppress(ConnectionResetError):
            assert len(await reader.read()) < len(body)
        for _, writer in (*idle, (reader, sender)):
            writer.close()


@virtual_time_from(1000.0)
async def test_the_heartbeat_reports_a_blocked_loop_until_it_recovers() -> None:
    lags: list[float] = []
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    async with heartbeat(lags.append) as heart:
        await asyncio.sleep(1)
        assert heart.check() == ""
        assert lags == pytest.approx([0.0] * len(lags), abs=1e-6)
        loop.freeze(12.0)
        assert heart.check() == "the event loop was blocked for 12 s"
        await asyncio.sleep(0.05)
        assert heart.check() == ""
    assert max(lags) == pytest.approx(12.0, abs=0.2)


async def test_a_long_page_is_compressed_for_clients_that_accept_it() -> None:
    body = b"kruise " * 10_000

    async def page(request: web.Request) -> web.Response:
        return web.Response(body=body)

    async with serving(ANYWHERE, {"/metrics": page}, option=OPTION) as port:
        for accepted, coding in (
            ("gzip", "gzip"),
            ("deflate, GZIP;q=0.5", "gzip"),
            ("gzip;q=0", None),
            ("identity", None),
        ):
            async with (
                aiohttp.ClientSession(auto_decompress=True) as session,
                session.get(f"http://127.0.0.1:{port}/metrics", headers={"Accept-Encoding": accepted}) as answer,
            ):
                assert answer.headers.get("Content-Encoding") == coding, accepted
                assert await answer.read() == body


async def test_tokens_are_reviewed_for_existing_pages_only() -> None:
    auth = auth_of(Cluster(), lambda error: None)

    async def page(request: web.Request) -> web.Response:
        return web.Response(text="numbers")

    async with (
        serving(ANYWHERE, {"/metrics": page}, option="", middlewares=[auth.middleware]) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        async with session.get("/metrics") as refused:
            assert (refused.status, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
        async with session.get("/metrics", headers={"Authorization": f"Bearer {READER}"}) as accepted:
            assert (accepted.status, await accepted.text()) == (200, "numbers")
        async with session.get("/else") as nothing:
            assert nothing.status == 404
