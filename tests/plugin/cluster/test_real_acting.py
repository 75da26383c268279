"""Acting verbs on the real API server: it takes every write, keeps what it should, and kubectl can do the same."""

from __future__ import annotations

import asyncio
import json
import shlex
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.beds.api import DAEMONSETS, EVENTS, MERGE_PATCH
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.objects import demo
from tests.plugin.cluster.real_agent import Place, place
from tests.plugin.in_process import Ran, call

pytestmark = pytest.mark.real


async def test_every_verb_writes_what_it_says(place: Place) -> None:
    await place.act("pause", "agent", "--reason", "CVE triage")
    assert (await place.rolling())["paused"] is True
    await place.act("resume", "agent")
    assert (await place.rolling())["paused"] is False
    await place.act("set-partition", "agent", "30%")
    assert (await place.rolling())["partition"] == "30%"
    await place.act("set-image", "agent", "*=registry.example.com/agent:2", "--hold-at", "3", "--reason", "JIRA-7")
    agent = await place.agent()
    assert agent["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example.com/agent:2"
    assert (await place.rolling())["partition"] == 3
    assert agent["metadata"]["annotations"]["kubernetes.io/change-cause"] == "JIRA-7"
    await place.act("restart", "agent", "-y")
    agent = await place.agent()
    assert "kubectl.kubernetes.io/restartedAt" in agent["spec"]["template"]["metadata"]["annotations"]
    last = json.loads(agent["metadata"]["annotations"]["kruise-ds/last-action"])
    assert last["verb"] == "restart"
    assert last["by"]
    told = {one["reason"] for one in await place.api.list(EVENTS) if one["involvedObject"]["name"] == "agent"}
    assert told == {"Paused", "Resumed", "PartitionSet", "ImageSet", "Restarted"}


async def test_apply_takes_the_manifest_at_a_url_that_kubectl_takes(place: Place) -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.raw_path)
        return web.json_response(demo("one"), status=503 if len(asked) == 1 else 200)

    app = web.Application()
    app.router.add_get("/{path:.*}", handler)
    async with TestServer(app) as server:
        url = f"http://{LOOPBACK}:{server.port}/team//one.yaml?ref=v1"
        assert "one created" in await place.act("apply", "-f", url, "-y")
        kubectl = ("apply", "--server-side", "--dry-run=server", "-f", url, "-n", place.namespace)
        done = await place.plane.run_kubectl(*kubectl)
        assert "serverside-applied" in done.stdout
    assert asked == ["/team//one.yaml?ref=v1"] * 3, "again after a failure"


async def test_apply_of_what_was_read_from_the_server_overwrites_no_later_edit(place: Place, tmp_path: Path) -> None:
    """As with kubectl, whose note of the manifest does not hold itself either."""
    path = tmp_path / "agent.json"

    async def kubectl(*words: str) -> str:
        done = await place.plane.run_kubectl(*words, "-n", place.namespace)
        return done.stderr if done.returncode else done.stdout

    path.write_text(await kubectl("get", "ads", "agent", "-o", "json"))
    await kubectl("apply", "-f", str(path))
    read = json.loads(await kubectl("get", "ads", "agent", "-o", "json"))
    read["spec"]["minReadySeconds"] = 9
    path.write_text(json.dumps(read))
    assert "configured" in await place.act("apply", "-f", str(path), "-y")
    agent = await place.agent()
    note = json.loads(agent["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"])
    assert (note["spec"]["minReadySeconds"], note["metadata"]["annotations"]) == (9, {})
    assert "the object has been modified" in await kubectl("apply", "-f", str(path))
    read["spec"]["minReadySeconds"] = 3
    path.write_text(json.dumps(read))
    await place.act("apply", "-f", str(path), "-y", code=6)
    assert (await place.agent())["spec"] == agent["spec"]
    del read["metadata"]["resourceVersion"]
    path.write_text(json.dumps(read))
    assert "configured" in await place.act("apply", "-f", str(path), "-y")
    await place.api.delete(DAEMONSETS, "agent")
    await place.api.create(DAEMONSETS, demo("agent"))
    await place.act("apply", "-f", str(path), "-y", code=6)


@pytest.mark.parametrize("made", [{}, {"team": "agents"}], ids=["none", "some"])
async def test_a_patch_pasted_later_keeps_annotations_made_meanwhile(place: Place, made: dict[str, str]) -> None:
    assert "annotations" not in (await place.agent())["metadata"]
    printed = await place.act("set-image", "agent", "*=agent:2", "--print-patch", "--reason", "JIRA-7")
    if made:
        change = {"metadata": {"annotations": made}}
        await place.api.patch(DAEMONSETS, "agent", change, content_type=MERGE_PATCH)
    done = await place.plane.run_kubectl(*shlex.split(printed)[1:])
    assert (done.returncode == 0) is not bool(made), done.stderr
    expected = made or {"kubernetes.io/change-cause": "JIRA-7"}
    assert (await place.agent())["metadata"]["annotations"] == expected


__all__ = ["place"]


async def run(place: Place, *words: str, **environ: str) -> Ran:
    """The verb in a thread of this process, by the kubeconfig of the control plane."""
    options = ("-n", place.namespace, f"--kubeconfig={place.plane.kubeconfig}")
    return await asyncio.to_thread(call, [*words, *options], environ=environ)


async def test_the_way_to_the_server_is_the_proxy_of_the_environment(place: Place) -> None:
    """Both programs ask for a name that only the proxy knows."""
    server = f"https://api.nowhere.example:{urlsplit(place.plane.url).port}"
    options = (f"--server={server}", "--tls-server-name=127.0.0.1")
    async with proxy() as (url, asked):
        variables = {"HTTPS_PROXY": url, "NO_PROXY": ""}
        kubectl = await place.plane.run_kubectl(
            "get", "ads", "agent", "-n", place.namespace, *options, environ={**variables, "no_proxy": ""}
        )
        assert kubectl.returncode == 0, kubectl.stderr
        asked.clear()
        ran = await run(place, "status", "agent", "-o", "name", *options, **variables)
        assert (ran.code, set(asked)) == (0, {urlsplit(server).netloc}), ran
        variables["NO_PROXY"] = ".nowhere.example"
        ran = await run(place, "status", "agent", "-o", "name", *options, **variables)
        assert (ran.code, "cannot reach" in ran.err) == (1, True), ran


@asynccontextmanager
async def proxy() -> AsyncIterator[tuple[str, list[str]]]:
    """One that knows every name as this machine: its URL, and what it was asked for."""
    asked: list[str] = []

    async def connect(reader: StreamReader, writer: StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, where, _ = head.split(" ", 2)
        assert method == "CONNECT"
        asked.append(where)
        behind, to_it = await asyncio.open_connection(LOOPBACK, int(where.rpartition(":")[2]))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        async with asyncio.TaskGroup() as group:
            group.create_task(passed_on(reader, to_it))
            group.create_task(passed_on(behind, writer))

    async with await asyncio.start_server(connect, LOOPBACK, 0) as server:
        yield f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}", asked


async def passed_on(reader: StreamReader, writer: StreamWriter) -> None:
    try:
        while more := await reader.read(65_536):
            writer.write(more)
            await writer.drain()
    except ConnectionError:  # the other side has gone first
        pass
    finally:
        writer.close()
