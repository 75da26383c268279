"""From the flags to a client that asks: namespace, traces, time limits, and who is seen to ask."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from controller.api.objects import Key
from controller.kube.connection import Connection, Credentials
from controller.kube.errors import ConfigError, NotFound, Unreachable
from controller.kube.kubeconfig import Access
from controller.kube.requests import DAEMONSETS
from controller.kube.sender import CALL_SECONDS
from kubectl_plugin.cluster.reads import name_of
from kubectl_plugin.cluster.session import open_session, session_over
from kubectl_plugin.errors import UsageError
from kubectl_plugin.host import Host
from tests.beds.control_plane.processes import free_port
from tests.beds.scripted import Script, Slow, ok
from tests.beds.virtual_time import now, virtual_time_from
from tests.plugin.cluster.conftest import ALONE, Simulated

AGENT = Key("default", "agent")
PATH = "/apis/apps.kruise.io/v1beta1/namespaces/default/daemonsets"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    path = tmp_path / "config"
    path.write_text(
        json.dumps(
            {
                "current-context": "dev",
                "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "infra"}}],
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    return str(path)


async def test_the_session_says_where_it_is(kubeconfig: str) -> None:
    async with open_session(ALONE, Access(kubeconfig=kubeconfig)) as session:
        assert (session.context, session.namespace, session.server) == ("dev", "infra", "http://127.0.0.1:1")
    async with open_session(ALONE, Access(kubeconfig=kubeconfig), namespace="obs") as session:
        assert session.namespace == "obs"


async def test_an_unknown_context_is_said_before_anything_is_sent(kubeconfig: str) -> None:
    with pytest.raises(ConfigError, match=r'no context "prod" in .*; there are: dev'):
        async with open_session(ALONE, Access(kubeconfig=kubeconfig, context="prod")):
            pass


async def test_the_client_reads_what_is_there(simulated: Simulated) -> None:
    async with open_session(ALONE, simulated.access) as session:
        assert session.namespace == "default"
        found = await session.client.get(DAEMONSETS, AGENT)
    assert found is not None
    assert found.name == "agent"


async def test_a_trace_has_one_line_for_each_request_and_no_secret(simulated: Simulated) -> None:
    lines: list[str] = []
    async with open_session(ALONE, simulated.access, trace=lines.append) as session:
        await session.client.get(DAEMONSETS, AGENT)
        await session.client.page(DAEMONSETS, "default", limit=5, query=(("labelSelector", "a=b,c"),))
        with pytest.raises(NotFound):
            await session.client.get(DAEMONSETS, Key("default", "gone"))
        async with session.client.watch(DAEMONSETS, "default"):
            assert len(lines) == 4, "a watch is told when it is open"
    told, milliseconds = zip(*(line.rsplit(" ", 1) for line in lines), strict=True)
    assert told == (
        f"GET {PATH}/agent 200",
        f"GET {PATH}?labelSelector=a%3Db%2Cc&limit=5 200",
        f"GET {PATH}/gone 404",
        f"GET {PATH}?watch=1 200",
    )
    assert all(word.removesuffix("ms").isdigit() for word in milliseconds)
    assert simulated.access.token is not None
    assert simulated.access.token not in "".join(lines)


async def test_a_request_without_an_answer_is_traced_too(simulated: Simulated) -> None:
    lines: list[str] = []
    access = msgspec.structs.replace(simulated.access, server=f"http://127.0.0.1:{free_port()}")
    async with open_session(ALONE, access, trace=lines.append) as session:
        with pytest.raises(Unreachable):
            await session.client.get(DAEMONSETS, AGENT)
        with pytest.raises(Unreachable):
            async with session.client.watch(DAEMONSETS):
                pass
    assert [line.rsplit(" ", 1)[0] for line in lines] == [
        f"GET {PATH}/agent unanswered",
        "GET /apis/apps.kruise.io/v1beta1/daemonsets?watch=1 unanswered",
    ]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[Access]:
    app = web.Application()
    app.router.add_route("*", "/{anything:.*}", handler)
    async with TestServer(app) as server:
        yield Access(server=str(server.make_url("/")), token="t", as_user="alice", as_groups=("dev", "ops"))


async def test_the_server_sees_the_program_and_whom_it_acts_as(simulated: Simulated) -> None:
    seen: list[tuple[str, list[str]]] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append((request.headers["User-Agent"], request.headers.getall("Impersonate-Group")))
        return web.Response(status=404)

    async with serving(handler) as access, open_session(ALONE, access) as session:
        with pytest.raises(NotFound):
            await session.client.get(DAEMONSETS, AGENT)
        assert seen == [(session.user_agent, ["dev", "ops"])]
        assert session.user_agent.startswith("kubectl-kruise-ds/")


async def test_a_request_that_takes_too_long_is_given_up(simulated: Simulated) -> None:
    async def handler(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    async with serving(handler) as access, open_session(ALONE, access, request_timeout=0.05) as session:
        with pytest.raises(Unreachable, match="no answer in time"):
            await session.client.get(DAEMONSETS, AGENT)


CONNECTION = Connection(server="http://x", credentials=Credentials("Bearer t"))


@pytest.mark.parametrize(
    ("request_timeout", "seconds"),
    [(None, CALL_SECONDS), (5.0, 5.0), (90.0, 90.0)],
    ids=["default", "shorter", "longer"],
)
@virtual_time_from(1000.0)
async def test_how_long_an_answer_is_waited_for(request_timeout: float | None, seconds: float) -> None:
    began = now()
    session = session_over(Script(Slow(1000.0, ok())), CONNECTION, request_timeout=request_timeout)
    with pytest.raises(Unreachable):
        await session.client.get(DAEMONSETS, AGENT)
    assert now() - began == pytest.approx(seconds)


@virtual_time_from(1000.0)
async def test_zero_waits_for_ever() -> None:
    began = now()
    session = session_over(Script(Slow(1000.0, ok())), CONNECTION, request_timeout=0.0)
    await session.client.create(DAEMONSETS, "default", b"{}")
    assert now() - began == pytest.approx(1000.0)


async def test_the_proxy_of_the_environment_is_used(simulated: Simulated) -> None:
    """Only a proxy knows the way to such a server."""
    host = Host({**ALONE.environ, "http_proxy": str(simulated.access.server).removeprefix("http://")})
    far = msgspec.structs.replace(simulated.access, server="http://api.far.example:8080")
    async with open_session(host, far) as session:
        assert await session.client.get(DAEMONSETS, AGENT) is not None


@pytest.mark.parametrize("name", ["a/b", "..", ".", "a%2Fb"])
async def test_a_namespace_that_is_no_name_is_refused_before_anything_is_asked(
    simulated: Simulated, name: str
) -> None:
    words = re.escape(f'invalid namespace "{name}"')
    for namespace, controllers in ((name, None), ("default", name)):
        with pytest.raises(UsageError, match=words):
            async with open_session(ALONE, simulated.access, namespace=namespace, controller_namespace=controllers):
                pass
    with pytest.raises(UsageError):
        name_of(name)
