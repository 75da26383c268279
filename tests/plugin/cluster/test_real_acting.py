"""Acting verbs on the real API server: it takes every write, keeps what it should, and kubectl can do the same."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from controller.kube.connection import Connection, Fixed, tls_context
from controller.kube.transport import open_transport
from tests.beds.api import DAEMONSETS, EVENTS, MERGE_PATCH, Api, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.unhurried import PROGRAM
from tests.plugin.cluster.conftest import namespace_of

pytestmark = pytest.mark.real


@dataclass
class Place:
    """A namespace on the real server with the DaemonSet `agent`, which no controller acts on."""

    plane: ControlPlane
    namespace: str
    api: Api

    async def act(self, *words: str, code: int = 0) -> str:
        """Run the plugin as a program; returns what it printed."""
        process = await asyncio.create_subprocess_exec(
            *(*PROGRAM, *words, "-n", self.namespace),
            f"--kubeconfig={self.plane.kubeconfig}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == code, err.decode()
        return out.decode()

    async def agent(self) -> Object:
        return await self.api.get(DAEMONSETS, "agent")

    async def rolling(self) -> Object:
        settings: Object = (await self.agent())["spec"]["updateStrategy"]["rollingUpdate"]
        return settings


@pytest.fixture
async def place(plane: ControlPlane) -> AsyncIterator[Place]:
    credentials, tls = Fixed(f"Bearer {plane.token}"), tls_context(str(plane.ca_path))
    async with open_transport(Connection(server=plane.url, credentials=credentials, tls=tls)) as transport:
        api = Api(transport)
        async with namespace_of(api) as namespace:
            yield Place(plane, namespace, api)


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


async def test_the_writes_are_told_as_events(place: Place) -> None:
    await place.act("pause", "agent")
    await place.act("resume", "agent")
    events = await place.api.list(EVENTS)
    told = sorted(one["reason"] for one in events if one["involvedObject"]["name"] == "agent")
    assert told == ["Paused", "Resumed"]


async def test_a_dry_run_of_the_server_leaves_the_object_alone(place: Place) -> None:
    before = await place.agent()
    shown = json.loads(await place.act("pause", "agent", "--dry-run=server", "-o", "json"))
    assert shown["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is True
    assert await place.agent() == before


async def test_what_print_patch_prints_is_a_command_that_works(place: Place) -> None:
    printed = await place.act("set-partition", "agent", "3", "--print-patch")
    program, *words = shlex.split(printed)
    assert program == "kubectl"
    done = await place.plane.run_kubectl(*words)
    assert done.returncode == 0, done.stderr
    assert (await place.rolling())["partition"] == 3


@pytest.mark.parametrize("made", [{}, {"team": "agents"}], ids=["none", "some"])
async def test_a_patch_that_is_pasted_later_replaces_no_annotations_made_meanwhile(
    place: Place, made: dict[str, str]
) -> None:
    assert "annotations" not in (await place.agent())["metadata"]
    printed = await place.act("set-image", "agent", "*=agent:2", "--print-patch", "--reason", "JIRA-7")
    if made:
        change = {"metadata": {"annotations": made}}
        await place.api.patch(DAEMONSETS, "agent", change, content_type=MERGE_PATCH)
    done = await place.plane.run_kubectl(*shlex.split(printed)[1:])
    assert (done.returncode == 0) is not bool(made), done.stderr
    expected = made or {"kubernetes.io/change-cause": "JIRA-7"}
    assert (await place.agent())["metadata"]["annotations"] == expected
