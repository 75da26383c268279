"""We log in as kubectl does: both show a server of ours what they send, and an exec plugin what it gets."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pty
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from controller.kube import config
from controller.kube.requests import Request
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


NOTES = """
import os, pathlib, sys
pathlib.Path(sys.argv[1]).write_text(os.environ["KUBERNETES_EXEC_INFO"])
print(sys.argv[2])
"""
AUTHORITY = trustme.CA().cert_pem.bytes()
EXTENSION = [
    {"name": "another", "extension": {"a": 1}},
    {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "c", "deep": {"list": [1, None, "x"]}}},
]
CLUSTERS: dict[str, dict[str, Any]] = {
    "no checks": {"insecure-skip-tls-verify": True},
    "an authority": {"certificate-authority-data": base64.b64encode(AUTHORITY).decode()},
    "an authority in a file": {"certificate-authority": "ca.crt"},
    "all there is": {
        "certificate-authority": "ca.crt",
        "tls-server-name": "kubernetes.default",
        "proxy-url": "http://127.0.0.1:9",
        "disable-compression": True,
        "extensions": EXTENSION,
    },
}
MODES = [
    (version, mode, at_terminal)
    for version in ("v1", "v1beta1")
    for mode in ("Never", "IfAvailable", "Always", None)
    for at_terminal in (False, True)
]


def told(command: list[str], note: Path, *, at_terminal: bool) -> dict[str, Any] | None:
    """What the plugin of `command` got; None where it did not run."""
    theirs, ours = pty.openpty()
    note.unlink(missing_ok=True)
    nowhere = subprocess.DEVNULL
    try:
        subprocess.run(command, stdin=ours if at_terminal else nowhere, stdout=nowhere, stderr=nowhere)
    finally:
        os.close(theirs)
        os.close(ours)
    found: dict[str, Any] | None = json.loads(note.read_text()) if note.exists() else None
    return found


def noting(note: Path, version: str = "v1", mode: str | None = "Never", **more: Any) -> dict[str, Any]:
    api = f"client.authentication.k8s.io/{version}"
    args = ["-c", NOTES, str(note), json.dumps({**CREDENTIAL, "apiVersion": api})]
    plugin = {"apiVersion": api, "command": sys.executable, "args": args, "interactiveMode": mode, **more}
    return {"exec": {field: value for field, value in plugin.items() if value is not None}}


async def both_told(
    binaries: Binaries, path: str, note: Path, *, at_terminal: bool = False
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    flags = [f"--kubeconfig={path}", "--request-timeout=5s"]
    theirs = await asyncio.to_thread(
        told, [str(binaries.kubectl), "get", "--raw", "/", *flags], note, at_terminal=at_terminal
    )
    ours = await asyncio.to_thread(
        told, [sys.executable, "-m", "kubectl_plugin", "list", *flags], note, at_terminal=at_terminal
    )
    return theirs, ours


@pytest.mark.parametrize("cluster", CLUSTERS)
async def test_a_plugin_gets_the_same_cluster_info_as_from_kubectl(
    tmp_path: Path, control_plane_binaries: Binaries, cluster: str
) -> None:
    (tmp_path / "ca.crt").write_bytes(AUTHORITY)
    note = tmp_path / "note"
    async with listening([]) as url:
        for asked in (True, False):
            login = noting(note, provideClusterInfo=asked)
            path = kubeconfig(tmp_path / "config", login, server=url, cluster=CLUSTERS[cluster])
            theirs, ours = await both_told(control_plane_binaries, path, note)
            assert ours == theirs
            assert theirs is not None
            assert ("cluster" in theirs["spec"]) is asked


@pytest.mark.parametrize(("version", "mode", "at_terminal"), MODES)
async def test_a_plugin_may_ask_where_kubectl_lets_it(
    tmp_path: Path, control_plane_binaries: Binaries, version: str, mode: str | None, at_terminal: bool
) -> None:
    """Where it has to ask and cannot, and where the mode is missing, neither runs it."""
    note = tmp_path / "note"
    async with listening([]) as url:
        login = noting(note, version, mode)
        path = kubeconfig(tmp_path / "config", login, server=url, cluster=CLUSTERS["no checks"])
        theirs, ours = await both_told(control_plane_binaries, path, note, at_terminal=at_terminal)
    assert ours == theirs
