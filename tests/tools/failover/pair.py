"""Two controllers that share a Lease, and a DaemonSet that no other controller looks after."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

from controller.api.names import LEASE_NAME
from controller.kube.config import load
from controller.kube.transport import open_transport
from tests.beds.api import DAEMONSETS, LEASES, NAMESPACES, PODS, Api, Object, Refusal, Resource
from tests.beds.control_plane import ControlPlane, User
from tests.beds.installed.process import Controller, running
from tests.beds.installed.witness import Witness, witnessing
from tests.beds.installed.workspace import Clocks, Workspace, sample
from tests.beds.nodes import Behaviour, Nodes
from tests.e2e.api_proxy import ApiProxy, proxy_to
from tests.e2e.conftest import ACCOUNT, RIVAL

LEADER, STANDBY = ACCOUNT, RIVAL
"""Two users, so that the audit log tells the two processes apart."""
SIZE = 6
"""Nodes of a pair."""
OLD_HOME = "kruise-ds-system"

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ROLES, _BINDINGS = Resource(_RBAC, "roles", "Role"), Resource(_RBAC, "rolebindings", "RoleBinding")
_LABEL = "failover-pair"


@dataclass(frozen=True)
class Pair:
    """What a round has in its hands. The proxies are there where a way needs them."""

    bed: Workspace
    witness: Witness
    leader: Controller
    standby: Controller
    nodes: tuple[str, ...]
    leaders_proxy: ApiProxy | None = None
    standbys_proxy: ApiProxy | None = None

    @property
    def namespace(self) -> str:
        return self.bed.namespace

    def pace(self, seconds: float) -> None:
        """From now on a node needs this long to replace its pod."""
        for node in self.nodes:
            self.bed.nodes.behave(node, Behaviour(ready=seconds * 0.6, terminate=seconds * 0.4))

    async def roll(self) -> None:
        """Give the DaemonSet another template."""
        labels = {"spec": {"template": {"metadata": {"labels": {"ver": "v2"}}}}}
        await self.bed.api.patch(DAEMONSETS, "demo", labels)


@asynccontextmanager
async def played_nodes(plane: ControlPlane) -> AsyncIterator[Nodes]:
    """The machines of all pairs."""
    async with (
        open_transport(await load(str(plane.kubeconfig), None)) as transport,
        Nodes(transport, schedule=not plane.runs_scheduler) as nodes,
    ):
        yield nodes


@asynccontextmanager
async def pair_on(
    plane: ControlPlane, nodes: Nodes, name: str, *, proxies: tuple[User, ...] = ()
) -> AsyncIterator[Pair]:
    """A leader and a standby with full caches, whose DaemonSet runs on `SIZE` nodes; `name` must be new.

    Whoever is among `proxies` (LEADER, STANDBY) reaches the API server through an open one.
    """
    async with AsyncExitStack() as stack:
        transport = await stack.enter_async_context(open_transport(await load(str(plane.kubeconfig), None)))
        api = Api(transport, name)
        bed = Workspace(plane, api, nodes, Clocks())
        names = tuple(f"{name}-{number}" for number in range(SIZE))
        stack.push_async_callback(_clear, api, nodes, names)
        await _furnish(api, nodes, names)
        leader = await _controller(stack, plane, LEADER, name, LEADER in proxies)
        await leader[0].leads()
        standby = await _controller(stack, plane, STANDBY, name, STANDBY in proxies)
        await standby[0].says("standing by")
        witness = await stack.enter_async_context(witnessing(api))
        await bed.settled(SIZE)
        await witness.until(lambda: len(witness.ready) == SIZE, "all pods are seen")
        yield Pair(bed, witness, leader[0], standby[0], names, leader[1], standby[1])


async def _furnish(api: Api, nodes: Nodes, names: tuple[str, ...]) -> None:
    namespace = api.namespace
    await api.create(NAMESPACES, {"metadata": {"name": namespace}})
    await api.create(LEASES, {"metadata": {"name": LEASE_NAME}})  # where there is none, the first waits for 15 s
    role = await api.get(_ROLES, "kruise-ds-controller-leader-election", namespace=OLD_HOME)
    await api.create(_ROLES, {"metadata": {"name": "election"}, "rules": role["rules"]})
    subjects = [
        {"kind": "User", "name": user.name, "apiGroup": "rbac.authorization.k8s.io"} for user in (LEADER, STANDBY)
    ]
    reference = {"kind": "Role", "name": "election", "apiGroup": "rbac.authorization.k8s.io"}
    await api.create(_BINDINGS, {"metadata": {"name": "election"}, "subjects": subjects, "roleRef": reference})
    for name in names:
        await nodes.add(name, labels={_LABEL: namespace})
    demo: Object = sample("ds.demo.yaml")
    demo["spec"]["template"]["spec"]["nodeSelector"] = {_LABEL: namespace}
    await api.create(DAEMONSETS, demo)


async def _controller(
    stack: AsyncExitStack, plane: ControlPlane, user: User, namespace: str, through_a_proxy: bool
) -> tuple[Controller, ApiProxy | None]:
    proxy, kubeconfig = None, plane.kubeconfig_for(user)
    if through_a_proxy:
        proxy = await stack.enter_async_context(proxy_to(plane, user, f"{namespace}-{user.name.rpartition(':')[2]}"))
        await proxy.open()
        kubeconfig = proxy.kubeconfig
    options = (f"--namespace={namespace}", f"--leader-elect-namespace={namespace}")
    started = running(plane.folder, kubeconfig, *options, elect=True, secrets=(user.token,))
    return await stack.enter_async_context(started), proxy


async def _clear(api: Api, nodes: Nodes, names: tuple[str, ...]) -> None:
    await api.delete_all(DAEMONSETS, propagationPolicy="Background")
    await api.delete_all(PODS, gracePeriodSeconds="0")
    for name in names:
        if name in nodes.names:
            with suppress(Refusal):
                await nodes.remove(name)
    await api.delete(NAMESPACES, api.namespace)
