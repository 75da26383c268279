"""Hostile and secret words that the real API server stores, and where nothing is found; verbs run in this process."""

from __future__ import annotations

import asyncio
import json
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.beds.api import DAEMONSETS, MERGE_PATCH, Object
from tests.beds.control_plane.commands import LOOPBACK
from tests.plugin.cluster.test_real_acting import Place, place
from tests.plugin.in_process import Ran, call

pytestmark = pytest.mark.real
__all__ = ["place"]

LIE = "error: all is lost"
TURN = "\u202e"
PAUSE = {
    "verb": "pause",
    "by": f"eve\n{LIE}{TURN}",
    "at": "2025-11-20T09:04:10Z",
    "reason": f"x\n{LIE}",
    "client": "y",
}
SECRETS = {
    "STORAGE": "AccountName=logs;AccountKey=s3cret==;x",
    "JAVA_OPTS": "-Xmx1g -Ddb.password=s3cret",
    "SETTINGS": '{"user": "u", "password": "s3cret"}',
    "CALLBACK": "https://hooks.example/?token=s3cret",
    "DATABASE": "postgres://u:p@s3cret@host/db",
}


async def run(place: Place, *words: str, **environ: str) -> Ran:
    """The verb in a thread of this process, by the kubeconfig of the control plane."""
    options = ("-n", place.namespace, f"--kubeconfig={place.plane.kubeconfig}")
    return await asyncio.to_thread(call, [*words, *options], environ=environ)


async def edited(place: Place, change: Object) -> None:
    await place.api.patch(DAEMONSETS, "agent", change, content_type=MERGE_PATCH)


def with_container(**fields: Any) -> Object:
    containers = [{"name": "agent", "image": "busybox", **fields}]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


async def test_nothing_that_fits_is_no_success(place: Place) -> None:
    ran = await run(place, "status", "-w", "-l", "app=typo", "--timeout=60s")
    assert (ran.code, ran.err) == (1, "error: no Advanced DaemonSet was found\n")


@pytest.mark.parametrize(
    "words",
    [
        ("status", "agent"),
        ("list", "-o", "wide"),
        ("diff", "agent", "-f", "FILE"),
        ("set-image", "agent", "*=agent:2", "--dry-run=client"),
        ("resume", "agent"),
    ],
    ids=lambda words: words[0],
)
async def test_a_foreign_text_makes_no_line_of_its_own(place: Place, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "agent.json").write_text(json.dumps(await place.agent()))
    change = with_container(image=f"agent:1{TURN}\n{LIE}\nwarning: {LIE}")
    change["metadata"] = {"annotations": {"kruise-ds/last-action": json.dumps(PAUSE)}}
    change["spec"]["updateStrategy"] = {"rollingUpdate": {"paused": True}}
    await edited(place, change)
    ran = await run(place, *(str(tmp_path / "agent.json") if word == "FILE" else word for word in words))
    lines = [*ran.out.splitlines(), *ran.err.splitlines()]
    assert any(LIE in line for line in lines) or words[0] == "resume", ran
    assert [line for line in lines if line.startswith((LIE, "warning: error")) or TURN in line] == []


@pytest.mark.parametrize(
    "words", [("diff", "agent", "-f"), ("apply", "--dry-run=server", "-f")], ids=lambda one: one[0]
)
async def test_a_secret_that_is_stored_is_not_shown(place: Place, tmp_path: Path, words: tuple[str, ...]) -> None:
    env = [{"name": name, "value": text} for name, text in SECRETS.items()]
    await edited(place, with_container(env=env))
    made = await place.agent()
    made["spec"]["template"]["metadata"]["annotations"] = {"example.com/api-key": "s3cret"}
    made["spec"]["template"]["spec"]["containers"][0]["env"] = [{**one, "value": f"{one['value']}2"} for one in env]
    path = tmp_path / "agent.json"
    path.write_text(json.dumps({key: made[key] for key in ("apiVersion", "kind", "metadata", "spec")}))
    ran = await run(place, *words, str(path))
    assert (ran.code, "s3cret" in ran.out + ran.err) == (0, False), ran
    assert "STORAGE" in ran.out


async def test_a_share_of_the_nodes_is_stored_as_a_share(place: Place) -> None:
    await place.act("set-partition", "agent", "--update", "30%")  # as a program: a write listens for SIGTERM
    assert (await place.rolling())["partition"] == "70%"


async def test_who_has_no_right_at_all_is_told_by_the_doctors_exit_code(place: Place) -> None:
    ran = await run(place, "doctor", "-o", "json", "--as=nobody@example.com")
    levels = {check["about"]: check["level"] for check in json.loads(ran.out)["checks"]}
    assert (ran.code, levels["rights"]) == (1, "fail"), ran


async def test_the_way_to_the_server_is_the_proxy_of_the_environment(
    place: Place,
) -> None:
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
