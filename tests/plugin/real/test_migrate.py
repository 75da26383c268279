"""`migrate` is ended in the middle, at each of its writes, and then goes on or turns back."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from controller.kube.requests import Request, Response, Transport
from controller.kube.transport import open_transport
from kubectl_plugin.cluster.session import Invocation, session_over
from kubectl_plugin.commands.migrate import migrate
from kubectl_plugin.flags import GlobalFlags
from kubectl_plugin.host import Host
from kubectl_plugin.options import MigrateOptions
from kubectl_plugin.terminal import Terminal
from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import connection_to
from tests.beds.installed.witness import witnessing
from tests.beds.native import NATIVE, native_controller, native_status
from tests.beds.objects import V2, controller_of, daemonset, is_live, node_of

pytestmark = pytest.mark.real

NODES = 4
USER = "somebody"
WRITES = frozenset({"POST", "PATCH", "DELETE"})


class Killed(BaseException):
    """As by SIGKILL: nothing in between takes notice."""


async def undisturbed() -> None:
    """Nothing happens."""


class Mortal:
    """A `Transport` over which no answer comes any more to the write of that number, from 1 on. 0: never.

    Right before each write `meanwhile` happens.
    """

    def __init__(self, inner: Transport, last: int, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._inner, self._last, self._meanwhile = inner, last, meanwhile
        self.stream = inner.stream
        self.writes = 0

    async def exchange(self, request: Request) -> Response:
        if not _is_write(request):
            return await self._inner.exchange(request)
        await self._meanwhile()
        response = await self._inner.exchange(request)
        self.writes += 1
        if self.writes == self._last:
            raise Killed
        return response


def _is_write(request: Request) -> bool:
    asks = ("dryRun", "All") in request.query or "selfsubject" in request.path
    return request.method in WRITES and not asks


async def run(
    bed: Bed,
    plane: ControlPlane,
    *,
    native: bool,
    last: int = 0,
    meanwhile: Callable[[], Awaitable[None]] = undisturbed,
) -> bool:
    """Whether it came to its end before its write of that number was answered."""
    connection, host = connection_to(plane, plane.admin), Host()
    async with open_transport(connection) as transport:
        session = session_over(Mortal(transport, last, meanwhile), connection, namespace=bed.api.namespace)
        invocation = Invocation(session, Terminal(GlobalFlags(), host), None, host)
        try:
            assert await migrate(invocation, MigrateOptions(names=("agent",), to_native=native, yes=True)) == 0
        except Killed:
            return False
    return True


@asynccontextmanager
async def fleet(bed: Bed, plane: ControlPlane) -> AsyncIterator[None]:
    """A native DaemonSet in mid-rollout: half of its pods are old, and that is how it stays. In the block no pod may
    go, be made or be relabelled."""
    await bed.add_nodes(NODES)
    async with native_controller(plane):
        document = daemonset(updateStrategy={"type": "OnDelete"})
        await bed.api.create(NATIVE, document, fieldManager=USER)
        await native_status(bed.api, "agent", numberAvailable=NODES)
        image = {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": V2}
        await bed.api.patch(NATIVE, "agent", [image], fieldManager=USER)
        await native_status(bed.api, "agent", numberAvailable=NODES)
        for pod in sorted(await bed.api.list(PODS), key=node_of)[: NODES // 2]:
            await bed.api.delete(PODS, pod["metadata"]["name"])
        await native_status(bed.api, "agent", numberAvailable=NODES, updatedNumberScheduled=NODES // 2)
        async with witnessing(bed.api) as witness:
            await witness.up_to_date()
            witness.floor, ever, gone, labels = NODES, {*witness.ever}, {*witness.retired}, await _labels(bed)
            yield
            await witness.up_to_date()
            assert {*witness.ever} == ever, "no pod was made"
            assert {*witness.retired} == gone, "no pod went"
            assert await _labels(bed) == labels


async def _labels(bed: Bed) -> dict[str, Object]:
    return {pod["metadata"]["uid"]: pod["metadata"]["labels"] for pod in await bed.api.list(PODS) if is_live(pod)}


async def is_so(bed: Bed, *, native: bool) -> None:
    """There is only the one, and all pods are its."""
    mine, other = (NATIVE, DAEMONSETS) if native else (DAEMONSETS, NATIVE)
    (found,) = await bed.api.list(mine)
    assert await bed.api.list(other) == []
    assert {controller_of(pod)["uid"] for pod in await bed.api.list(PODS)} == {found["metadata"]["uid"]}
    assert "kruise-ds/migration" not in found["metadata"].get("annotations", {})
    assert found["spec"]["updateStrategy"]["type"] == "OnDelete"
    managers = {one["manager"] for one in found["metadata"]["managedFields"] if not one.get("subresource")}
    assert managers == {USER}, "who has made it and changed it"


async def killed(bed: Bed, plane: ControlPlane, *, native: bool) -> AsyncIterator[int]:
    """Runs that get no answer to their first write, to their second, …, until one comes to its end."""
    for last in itertools.count(1):
        if await run(bed, plane, native=native, last=last):
            return
        yield last


async def test_after_a_kill_at_any_write_it_goes_on_or_back(bed: Bed, plane: ControlPlane) -> None:
    """After every other write the same is asked for again, and then the contrary; after the others the contrary."""
    async with fleet(bed, plane):
        for native in (False, True):
            writes = 0
            async for number in killed(bed, plane, native=native):
                if number % 2:
                    assert await run(bed, plane, native=native)
                    await is_so(bed, native=native)
                assert await run(bed, plane, native=not native)
                await is_so(bed, native=not native)
                writes = number
            await is_so(bed, native=native)
            assert writes >= 4, "there were several"


class Weather:
    """What happens in a cluster meanwhile: at each turn a pod is lost, and a node comes."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self.lost: set[str] = set()
        self.nodes = NODES

    async def turn(self) -> None:
        found = sorted(filter(is_live, await self._bed.api.list(PODS)), key=node_of)
        pod = found[len(self.lost) % len(found)]
        self.lost.add(pod["metadata"]["uid"])
        await self._bed.api.delete(PODS, pod["metadata"]["name"])
        await self._bed.nodes.add(f"late-{self.nodes}")
        self.nodes += 1


async def test_pods_that_are_lost_and_nodes_that_come_meanwhile(bed: Bed, plane: ControlPlane) -> None:
    """A lost pod comes back, a new node gets one, no node ever has two, and no other pod is touched."""
    await bed.add_nodes(NODES)
    async with native_controller(plane):
        await bed.api.create(NATIVE, daemonset(rolling={"maxUnavailable": 1}))
        await native_status(bed.api, "agent", numberAvailable=NODES)
        weather = Weather(bed)
        async with witnessing(bed.api) as witness:
            for native in (False, True):
                await witness.up_to_date()
                before = {*witness.ever} - {*witness.retired}
                assert await run(bed, plane, native=native, meanwhile=weather.turn)
                await witness.until(lambda: len(witness.ready) == weather.nodes, "each node is served")
                await witness.up_to_date()
                assert before & {*witness.retired} <= weather.lost
            assert len(weather.lost) > 8, "there were several turns"
