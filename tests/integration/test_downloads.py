"""Manifests at a URL: what is read, what is tried again, and what ends it."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from kubectl_plugin.cluster.manifests import ATTEMPTS, downloaded, read_manifests
from kubectl_plugin.errors import CommandError, UsageError
from kubectl_plugin.flags import ManifestOptions
from kubectl_plugin.host import Host
from tests.beds.control_plane.processes import free_port
from tests.unit.kubectl_plugin.cluster.manifests import names, ours

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/{path:.*}", handler)
    async with TestServer(app) as server:
        yield f"http://127.0.0.1:{server.port}/team//ds.yaml?ref=a"


async def test_manifests_at_a_url_are_found_under_its_whole_name() -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.raw_path)
        assert "Authorization" not in request.headers
        return web.Response(body=gzip.compress(ours("a", "obs").encode()), headers={"Content-Encoding": "gzip"})

    async with serving(handler) as url:
        found, _ = await read_manifests(ManifestOptions(files=(url,)), Host({}))
    assert (names(found), found[0].source, asked) == (["obs/a"], url, ["/team//ds.yaml?ref=a"])


@pytest.mark.parametrize("refused", range(ATTEMPTS + 1))
async def test_a_server_that_fails_is_asked_again_as_often_as_kubectl_does(refused: int) -> None:
    asked = 0

    async def handler(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(status=503 if asked <= refused else 200, text="words")

    async with serving(handler) as url:
        if refused < ATTEMPTS:
            assert await downloaded(url, {}, pause=0) == "words"
        else:
            with pytest.raises(CommandError, match=r"the server answers 503 Service Unavailable$"):
                await downloaded(url, {}, pause=0)
    assert asked == min(refused + 1, ATTEMPTS)


async def test_a_redirection_is_followed_and_an_endless_one_ends() -> None:
    async def handler(request: web.Request) -> web.Response:
        if request.path == "/there":
            return web.Response(text="words")
        raise web.HTTPFound("/there" if request.query["ref"] == "a" else request.path_qs)

    async with serving(handler) as url:
        assert await downloaded(url, {}) == "words"
        with pytest.raises(CommandError, match="cannot read"):
            await downloaded(url.replace("ref=a", "ref=b"), {}, pause=0)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (web.Response(status=404), "the server answers 404 Not Found"),
        (web.Response(body=b"x" * 1001), "it has more than 1,000 bytes"),
        (
            web.Response(body=gzip.compress(b"x" * 100_000), headers={"Content-Encoding": "gzip"}),
            "it has more than 1,000 bytes",
        ),
        (web.Response(body=b"\xff"), "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
    ids=["no such file", "too long", "long when unpacked", "no UTF-8"],
)
async def test_what_cannot_be_read_is_reported_in_one_line_at_once(answer: web.Response, words: str) -> None:
    asked = 0

    async def handler(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return answer

    async with serving(handler) as url:
        with pytest.raises(CommandError) as raised:
            await downloaded(url, {}, most=1000)
    assert (str(raised.value), asked) == (f"cannot read {url}: {words}", 1)


async def test_a_server_that_does_not_answer_or_end_is_left() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()
        return response

    async with serving(handler) as url:
        with pytest.raises(CommandError, match=r"it takes more than 0\.1 s$"):
            await downloaded(url, {}, seconds=0.1)
    gone = f"http://127.0.0.1:{free_port()}/"
    with pytest.raises(CommandError, match="Connect call failed"):
        await downloaded(gone, {}, pause=0)


@pytest.mark.parametrize("url", ["http://", "https://[", "http://x:0/", "http://x:y/"])
async def test_what_is_no_url_is_wrong_usage(url: str) -> None:
    with pytest.raises(UsageError, match="is no URL"):
        await downloaded(url, {"HTTP_PROXY": "http://proxy:1", "HTTPS_PROXY": "http://proxy:1"})
