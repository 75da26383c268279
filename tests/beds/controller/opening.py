"""How each kind of bed is set up and taken down."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress

from controller.kube.connection import Connection, Credentials, tls_context
from controller.kube.requests import Transport
from controller.kube.transport import open_transport
from controller.runtime.clock import Clock, system_clock
from tests.beds.api import DAEMONSETS, NAMESPACES, NODES, PODS, Api, Refusal, Resource
from tests.beds.control_plane import ControlPlane, User
from tests.beds.controller.bed import SECONDS, Bed, Simulation
from tests.beds.controller.journal import Counted, Journal, Recording
from tests.beds.controller.running import Controller
from tests.beds.manifests import MANIFESTS
from tests.beds.nodes import INSTANT, Behaviour, Nodes
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.faults import FaultPlan, Rule
from tests.beds.simulator.transport import InProcess
from tests.beds.virtual_time import clock, follow_real_time

NAMESPACE = "agents"
REVIEWS = Resource("/apis/authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)


@asynccontextmanager
async def simulated(*faults: Rule, latency: float = 0.0, behaviour: Behaviour = INSTANT) -> AsyncIterator[Bed]:
    """A simulated cluster, whose time is the loop's. `faults` happen to the controller only, and each must have
    happened at the end."""
    cluster, plan = Cluster(clock, strict_namespaces=True), FaultPlan(*faults)
    link = InProcess(cluster, faults=plan, latency=latency)
    async with _bed(InProcess(cluster), InProcess(cluster), link, NAMESPACE, clock=clock, behaviour=behaviour) as bed:
        bed.simulation = Simulation(cluster, link)
        yield bed
    plan.check()


@asynccontextmanager
async def on_control_plane(plane: ControlPlane, account: User) -> AsyncIterator[Bed]:
    """A namespace on a real control plane that no other test uses meanwhile: all its nodes are ours.

    The controller is `account`, the test itself the administrator.
    """
    follow_real_time()
    namespace = f"system-{secrets.token_hex(4)}"
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(open_transport(connection_to(plane, plane.admin)))
        theirs = await stack.enter_async_context(open_transport(connection_to(plane, account)))
        await _remove_nodes(ours)
        async with _bed(ours, ours, theirs, namespace, clock=system_clock, behaviour=INSTANT) as bed:
            bed.plane = plane
            try:
                yield bed
            finally:
                with suppress(OSError, TimeoutError):  # where the test has left no server behind
                    await _clear(bed)


@asynccontextmanager
async def _bed(
    tests: Transport,
    machines: Transport,
    controllers: Transport,
    namespace: str,
    *,
    clock: Clock,
    behaviour: Behaviour,
) -> AsyncIterator[Bed]:
    journal, counted = Journal(), Counted(machines)
    api = Api(tests, namespace)
    await api.create(NAMESPACES, {"metadata": {"name": namespace}})
    with _alone():
        async with asyncio.TaskGroup() as tasks, Nodes(counted, clock=clock, behaviour=behaviour) as nodes:
            recording = Recording(controllers, journal)
            controller = Controller(recording, namespace, tasks, clock=clock)
            controller.start()
            try:
                yield Bed(api, nodes, controller, journal, clock, machines=counted)
            finally:
                await controller.kill()


@contextmanager
def _alone() -> Iterator[None]:
    """What failed, without the groups around it."""
    try:
        yield
    except BaseExceptionGroup as group:
        inner: BaseException = group
        while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
            inner = inner.exceptions[0]
        raise inner from None


def connection_to(plane: ControlPlane, user: User) -> Connection:
    tls = tls_context(str(plane.ca_path))
    return Connection(server=plane.url, credentials=Credentials(f"Bearer {user.token}"), tls=tls)


async def _remove_nodes(transport: Transport) -> None:
    await Api(transport, "").delete_all(NODES)


async def _clear(bed: Bed) -> None:
    """Leave nothing that another test could meet."""
    await bed.controller.kill()
    api = bed.api
    await api.delete_all(DAEMONSETS)
    await api.delete_all(PODS, gracePeriodSeconds="0")
    with suppress(Refusal):
        await api.delete(NAMESPACES, api.namespace)
    await _remove_nodes(api.transport)


async def install(plane: ControlPlane) -> None:
    """`kubectl apply --server-side -k manifests/overlays/default`, and wait until the kind is served."""
    default = str(MANIFESTS / "overlays" / "default")
    done = await plane.run_kubectl("apply", "--server-side", "--force-conflicts", "-k", default)
    assert done.returncode == 0, done.stderr
    async with open_transport(connection_to(plane, plane.admin)) as transport, asyncio.timeout(SECONDS):
        await _served(Api(transport, "default"))


async def _served(api: Api) -> None:
    """The kind appears some moments after its CRD, its storage perhaps even later (429), and nothing tells when."""
    while True:
        try:
            await api.list(DAEMONSETS)
            return
        except Refusal as refusal:
            if refusal.status not in (404, 429):
                raise
        await asyncio.sleep(0.05)


async def in_force(plane: ControlPlane, account: User) -> None:
    """Wait until the server grants `account` what was installed: it takes notice of a role after it has stored it."""
    asked = {"group": "apps.kruise.io", "resource": "daemonsets", "subresource": "status", "verb": "patch"}
    review = {"spec": {"user": account.name, "groups": account.groups, "resourceAttributes": asked}}
    async with open_transport(connection_to(plane, plane.admin)) as transport, asyncio.timeout(SECONDS):
        while not (await Api(transport).create(REVIEWS, review))["status"]["allowed"]:
            await asyncio.sleep(0.05)
