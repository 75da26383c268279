"""A Prometheus over real HTTP on loopback, with every answer that one, or what stands before it, may give."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace

from controller.kube.prometheus import QUERY_SECONDS, NoAnswer, Prometheus, connected
from controller.settings import Settings, UnusableOption

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def asking(handler: Handler, *, seconds: float = QUERY_SECONDS, **settings: Any) -> AsyncIterator[Prometheus]:
    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/prom/api/v1/query", handler)
    async with TestServer(app) as server:
        url = str(server.make_url("/prom"))
        async with connected(Settings(prometheus_url=url, **settings), query_seconds=seconds) as client:
            assert client is not None
            yield client


def result(kind: str, found: Any, **more: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": found}, **more}


def says(answer: Any, status: int = 200) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        return web.json_response(answer, status=status)

    return handler


def sends(body: str, status: int = 200, **headers: str) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(text=body, status=status, headers=headers)

    return handler


async def half(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"status": "succ')
    assert request.transport is not None
    request.transport.abort()
    return response


async def slow(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.01)


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" " * 65536)


async def dead(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


SERIES = {"metric": {"__name__": "up", "pod": 'a"\n'}, "value": [1.5, "0"]}
RANGE = {"metric": {}, "values": [[1.5, "0"]]}


@pytest.mark.parametrize(
    ("answer", "brief"),
    [
        (result("vector", []), ""),
        (result("vector", [], infos=["PromQL info: metric might not be a counter"]), ""),
        (result("vector", [SERIES]), r'up{pod="a\"\n"} 0'),
        (result("vector", [SERIES], warnings=["partial response"]), r'up{pod="a\"\n"} 0'),
        (result("vector", [SERIES, {"metric": {}, "value": [1, "NaN"]}, SERIES]), "{} NaN and 2 more series"),
        (result("matrix", [RANGE]), "{}"),
        (result("vector", [{"metric": {}, "histogram": [1, {"count": "1"}]}]), "{}"),
    ],
)
async def test_series(answer: Any, brief: str) -> None:
    async with asking(says(answer)) as client:
        assert await client.series("up == 0") == brief


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (says(result("scalar", [1, "2"])), "returns a scalar, which is always there: it must return series"),
        (says(result("string", [1, "a"])), "returns a string"),
        (says(result("vector", [], warnings=["a store is away"])), "found nothing, but warns: a store is away"),
        (says(result("vector", {"a": 1})), "something else than series"),
        (says(result("vector", [1])), "something else than series"),
        (
            says({"status": "error", "errorType": "bad_data", "error": "1:3: parse\n error"}, 400),
            "400: 1:3: parse error",
        ),
        (says({"status": "error", "error": "x" * 9999}), f"answers 200: {'x' * 100}"),
        (says({"status": "success"}), "something else than the result"),
        (says([]), "something else than the result"),
        (sends(""), "something else than the result"),
        (sends("<html>Log in</html>"), "something else than the result"),
        (sends("[" * 100_000), "something else than the result"),
        (sends("é\udcff".encode("utf-8", "surrogatepass").decode("utf-8", "replace")), "something else"),
        (sends("<html>", 500), "answers 500"),
        (sends("{}", 401), "answers 401"),
        (sends("", 302, Location="/prom/api/v1/query"), "302: redirects are not followed"),
        (sends("", 307, Location="http://169.254.169.254/"), "307: redirects are not followed"),
        (half, "cannot be asked"),
        (dead, "cannot be asked"),
        (slow, "does not answer within 0.5 s"),
        (endless, "the answer is larger than 4 MiB"),
    ],
    ids=[str(number) for number in range(21)],
)
async def test_no_answer(handler: Handler, why: str) -> None:
    async with asking(handler, seconds=0.5 if handler is slow else 20.0) as client:
        with pytest.raises(NoAnswer) as caught:
            await client.series("up == 0")
    assert why in str(caught.value)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


async def test_the_log_gets_no_text_of_the_server() -> None:
    async with asking(sends('{"status":"error","error":"MARKER"}', 400)) as client:
        with pytest.raises(NoAnswer) as caught:
            await client.series("up")
    assert (str(caught.value), caught.value.words) == ("Prometheus answers 400: MARKER", "Prometheus answers 400")


async def test_no_server_listens() -> None:
    async with connected(Settings(prometheus_url="http://127.0.0.1:1")) as client:
        assert client is not None
        with pytest.raises(NoAnswer, match=r"cannot be asked: 127[.]0[.]0[.]1:1: Connection refused"):
            await client.series("up")


async def test_a_token_is_read_again_when_it_changes_and_goes_nowhere_else(tmp_path: Path) -> None:
    seen, token = list[str | None](), tmp_path / "token"
    token.write_text("one\n")

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.Response(status=308, headers={"Location": str(request.url)})

    async with asking(handler, prometheus_token_file=str(token)) as client:
        for content in ("one", "two\n", "", "three"):
            (tmp_path / "new").write_text(content)
            (tmp_path / "new").replace(token)
            with pytest.raises(NoAnswer) as caught:
                await client.series("up")
            assert "one" not in str(caught.value)
        token.unlink()
        with pytest.raises(NoAnswer):
            await client.series("up")
    assert seen == ["Bearer one", "Bearer two", "Bearer two", "Bearer three", "Bearer three"]


async def test_five_thousand_names_arrive(tmp_path: Path) -> None:
    query = "|".join(f"agent-{number:040}" for number in range(5_000))
    seen = list[str]()

    async def handler(request: web.Request) -> web.Response:
        seen.append(str((await request.post())["query"]))
        return web.json_response(result("vector", []))

    async with asking(handler) as client:
        assert await client.series(query) == ""
    assert seen == [query]


FILES = {"prometheus_token_file": (None, "", " \n", "a\nb"), "prometheus_ca_file": (None, "", "no certificate")}
UNUSABLE = [(field, content) for field, contents in FILES.items() for content in contents]


@pytest.mark.parametrize(("field", "content"), UNUSABLE)
async def test_a_file_that_cannot_be_used_is_refused_at_the_start(
    field: str, content: str | None, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "file").write_text(content)
    settings = replace(Settings(prometheus_url="https://a"), **{field: str(tmp_path / "file")})
    with pytest.raises(UnusableOption, match=f"--{field.replace('_', '-')}"):
        async with connected(settings):
            pass
