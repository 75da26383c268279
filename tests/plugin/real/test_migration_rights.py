"""`migrate` asks for all that it may need before it begins: a right that is missing half-way leaves it half-way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from controller.kube.errors import Forbidden
from controller.kube.requests import Request, Response, Transport
from controller.kube.transport import open_transport
from kubectl_plugin.cluster.session import Invocation, session_over
from kubectl_plugin.commands.migrate import migrate
from kubectl_plugin.flags import GlobalFlags
from kubectl_plugin.host import Host
from kubectl_plugin.migrate.state import FINALIZER
from kubectl_plugin.options import MigrateOptions
from kubectl_plugin.terminal import Terminal
from tests.beds.api import DAEMONSETS, MERGE_PATCH, PODS
from tests.beds.audit import Right
from tests.beds.control_plane import ControlPlane
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import connection_to
from tests.beds.manifests import MANIFESTS
from tests.beds.native import NATIVE, native_controller, native_status
from tests.beds.objects import daemonset, owner
from tests.beds.simulator.route import Route, route

pytestmark = pytest.mark.real

NODES = 3
MANUAL = MANIFESTS.parent / "docs" / "migrate.md"
Answer = Callable[[Route], Awaitable[Response | None]]
"""What happens right before a request; what it returns, if anything, is the answer instead of the server's."""


class Noting:
    """A `Transport` that notes which rights are used in a namespace, and which are asked about before."""

    def __init__(self, inner: Transport, namespace: str, answer: Answer) -> None:
        self._inner, self._namespace, self._answer = inner, namespace, answer
        self.stream = inner.stream
        self.used: set[Right] = set()
        self.asked: set[Right] = set()

    async def exchange(self, request: Request) -> Response:
        where = route(request)
        if where.plural == "selfsubjectaccessreviews":
            about = msgspec.json.decode(request.body)["spec"]["resourceAttributes"]
            self.asked.add(Right(about.get("group", ""), about["resource"], about["verb"]))
        elif where.namespace == self._namespace:
            self.used.add(Right(where.group, where.plural, where.verb))
        return await self._answer(where) or await self._inner.exchange(request)


async def rights(bed: Bed, plane: ControlPlane, answer: Answer, *, native: bool) -> Noting:
    """What it needs. Who is refused something takes back what was done, and then calls it again."""
    connection, host = connection_to(plane, plane.admin), Host()
    options = MigrateOptions(names=("agent",), to_native=native, yes=True)
    async with open_transport(connection) as transport:
        noting = Noting(transport, bed.api.namespace, answer)
        session = session_over(noting, connection, namespace=bed.api.namespace)
        invocation = Invocation(session, Terminal(GlobalFlags(), host), None, host)
        try:
            assert await migrate(invocation, options) == 0
        except Forbidden:
            assert await migrate(invocation, options) == 0
    return noting


def told(*, native: bool) -> set[Right]:
    """As the table of the manual has it."""
    rows = [line.strip("| ").split(" | ") for line in MANUAL.read_text().splitlines() if line.startswith("| `")]
    cells = [(row[0].strip("`").partition("."), row[2 if native else 1]) for row in rows]
    return {Right(group, plural, verb) for (plural, _, group), verbs in cells for verb in verbs.split(", ")}


async def test_to_ours(bed: Bed, plane: ControlPlane) -> None:
    """A history of one revision; and at first the native one may not be deleted."""
    refused = list[Response]()

    async def answer(where: Route) -> Response | None:
        if (where.verb, where.resource) != ("delete", "daemonsets.apps") or refused:
            return None
        refused.append(Response(status=403, body=b'{"kind":"Status","reason":"Forbidden","message":"by a webhook"}'))
        return refused[0]

    await bed.add_nodes(NODES)
    async with native_controller(plane):
        await bed.api.create(NATIVE, daemonset(rolling={"maxUnavailable": 1}))
        await native_status(bed.api, "agent", numberAvailable=NODES)
        noted = await rights(bed, plane, answer, native=False)
    assert refused, "it was taken back once"
    assert noted.asked == noted.used == told(native=False)


async def test_to_native(bed: Bed, plane: ControlPlane) -> None:
    """Revisions in our spelling; and a pod that the garbage collector has overlooked."""
    overlooked = list[str]()

    async def answer(where: Route) -> Response | None:
        ours = await bed.api.find(DAEMONSETS, "agent") if where.plural == "pods" and not overlooked else None
        if ours and ours["metadata"].get("deletionTimestamp") and ours["metadata"]["finalizers"] == [FINALIZER]:
            typed = {**ours, "apiVersion": DAEMONSETS.api_version, "kind": DAEMONSETS.kind}
            overlooked.append((await bed.api.list(PODS))[0]["metadata"]["name"])
            kept = {"metadata": {"ownerReferences": [owner(typed)]}}
            await bed.api.patch(PODS, overlooked[0], kept, content_type=MERGE_PATCH)
        return None

    await bed.add_nodes(NODES)
    async with native_controller(plane):
        await bed.deploy(daemonset(rolling={"maxUnavailable": 1}))
        noted = await rights(bed, plane, answer, native=True)
    assert overlooked
    assert noted.asked == noted.used == told(native=True)
