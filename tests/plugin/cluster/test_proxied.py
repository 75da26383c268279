"""kubectl goes through a proxy where our tables say so: the proxy is here, and hears of each connection."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.beds.control_plane import Binaries
from tests.beds.control_plane.cluster import LOOPBACK
from tests.unit.kubectl_plugin.cluster.proxies import API, NO_PROXY, OTHER, PROXY, VARIABLES


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[str, list[str]]]:
    """The URL of a proxy that refuses everything, and what it was asked for."""
    asked: list[str] = []

    async def refuse(reader: StreamReader, writer: StreamWriter) -> None:
        asked.append((await reader.readline()).decode())
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, LOOPBACK, 0) as server:
        yield f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}", asked


async def is_proxied(binaries: Binaries, home: Path, server: str, variables: dict[str, str]) -> bool:
    """Whether kubectl asks the proxy that stands for `PROXY`; none stands for `OTHER`."""
    async with listening() as (url, asked):
        given = {name: value.replace(PROXY, url) for name, value in variables.items()}
        given = {
            name: value.replace(PROXY.removeprefix("http://"), url.removeprefix("http://"))
            for name, value in given.items()
        }
        process = await asyncio.create_subprocess_exec(
            *(
                str(binaries.kubectl),
                "get",
                "--raw",
                "/version",
                f"--server={server}",
                "--token=t",
                "--request-timeout=3s",
            ),
            env={"HOME": str(home), "KUBECTL_KUBERC": "false", **given},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert await process.wait() != 0
    return bool(asked)


@pytest.mark.parametrize(("server", "variables", "proxy"), VARIABLES)
async def test_kubectl_reads_the_same_variable(
    tmp_path: Path, control_plane_binaries: Binaries, server: str, variables: dict[str, str], proxy: str
) -> None:
    assert proxy != OTHER
    assert await is_proxied(control_plane_binaries, tmp_path, server, variables) is bool(proxy)


@pytest.mark.parametrize(("server", "exempt", "proxied"), NO_PROXY)
async def test_kubectl_exempts_the_same_servers(
    tmp_path: Path, control_plane_binaries: Binaries, server: str, exempt: str, proxied: bool
) -> None:
    variables = {"HTTPS_PROXY": PROXY, "NO_PROXY": exempt}
    assert await is_proxied(control_plane_binaries, tmp_path, server, variables) is proxied


@pytest.mark.parametrize("name", ["no_proxy", "NO_PROXY"])
async def test_kubectl_reads_no_proxy_in_capitals_first(
    tmp_path: Path, control_plane_binaries: Binaries, name: str
) -> None:
    variables = {"HTTPS_PROXY": PROXY, "NO_PROXY": "x", "no_proxy": "x", name: "*"}
    proxied = name == "no_proxy"
    assert await is_proxied(control_plane_binaries, tmp_path, API, variables) is proxied
