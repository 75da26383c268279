"""Of several ways to log in, we take the one that kubectl takes: both show a server of ours what they send."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from controller.kube import config
from controller.kube.request import Request
from controller.kube.transport import open_transport
from tests.beds.control_plane import Binaries
from tests.unit.controller.kube.test_access import kubeconfig

VERSION = "client.authentication.k8s.io/v1"
CREDENTIAL = {"apiVersion": VERSION, "kind": "ExecCredential", "status": {"token": "of-the-plugin"}}
PLUGIN = {
    "apiVersion": VERSION,
    "command": sys.executable,
    "args": ["-c", f"print({json.dumps(CREDENTIAL)!r})"],
    "interactiveMode": "Never",
}
WAYS: dict[str, dict[str, Any]] = {
    "a plugin": {"exec": PLUGIN},
    "a token and a plugin": {"token": "written", "exec": PLUGIN},
    "a token and a file": {"token": "written", "tokenFile": "token"},
    "a file and a plugin": {"tokenFile": "token", "exec": PLUGIN},
    "a token, a file and a plugin": {"token": "written", "tokenFile": "token", "exec": PLUGIN},
    "a token and a file that is missing": {"token": "written", "tokenFile": "missing"},
    "a token and an empty file": {"token": "written", "tokenFile": "empty"},
}


@asynccontextmanager
async def listening(heard: list[str]) -> AsyncIterator[str]:
    """The URL of a server by HTTPS that keeps what each request has as `Authorization`."""

    async def answer(request: web.Request) -> web.Response:
        heard.append(request.headers.get("Authorization", ""))
        return web.json_response({"major": "1", "minor": "36"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        (address,) = runner.addresses
        yield f"https://127.0.0.1:{address[1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("way", WAYS)
async def test_of_several_ways_to_log_in_it_is_kubectls(
    tmp_path: Path, control_plane_binaries: Binaries, way: str
) -> None:
    (tmp_path / "token").write_text("of-the-file")
    (tmp_path / "empty").write_text("")
    heard: list[str] = []
    async with listening(heard) as url:
        path = kubeconfig(tmp_path / "config", WAYS[way], server=url, cluster={"insecure-skip-tls-verify": True})
        words = (str(control_plane_binaries.kubectl), f"--kubeconfig={path}", "get", "--raw", "/version")
        kubectl = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.DEVNULL)
        assert await kubectl.wait() == 0
        async with open_transport(await config.load(path, environ={})) as transport:
            await transport.exchange(Request(method="GET", path="/version"))
    theirs, ours = heard
    assert ours == theirs
