"""What our own pods may need to start is moved by its name only, whatever else a selection moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.beds.api import DAEMONSETS, Api, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.plugin import Plugin
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.native import NATIVE, native_status

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller", "beside")]

SYSTEM = "kube-system"
CHOSEN = {"chosen": "yes"}


def named(name: str, **pod: object) -> Object:
    document = sample("ds.demo.yaml")
    document["apiVersion"] = NATIVE.api_version
    document["metadata"] = {"name": name, "labels": CHOSEN}
    document["spec"]["updateStrategy"] = {"type": "RollingUpdate"}
    document["spec"]["template"]["spec"] |= pod
    return document


@asynccontextmanager
async def deployed(api: Api, document: Object) -> AsyncIterator[None]:
    """No node is there, so it has no pods."""
    name = document["metadata"]["name"]
    await api.create(NATIVE, document)
    try:
        await native_status(api, name, desiredNumberScheduled=0)
        yield
    finally:
        for kind in (NATIVE, DAEMONSETS):
            if await api.find(kind, name) is not None:
                await api.delete(kind, name)


async def test_the_network_is_left_out_of_a_selection(bed: Workspace, plane: ControlPlane) -> None:
    plugin, system = Plugin(plane.kubectl, plane.kubeconfig, bed.namespace), Api(bed.api.transport, SYSTEM)
    proxy = named("kube-proxy", hostNetwork=True)
    network = named("net", volumes=[{"name": "x", "hostPath": {"path": "/etc/cni/net.d"}}])
    async with deployed(system, proxy), deployed(bed.api, network), deployed(bed.api, named("agent")):
        ran = await plugin.run("migrate", "-A", "-l", "chosen=yes", "-y")
        assert ran.code == 6, str(ran)
        assert "net mounts /etc/cni/net.d as a network plugin does" in ran.err
        assert "kube-proxy looks like kube-proxy" in ran.err
        assert [one["metadata"]["name"] for one in await bed.api.list(DAEMONSETS)] == ["agent"]
        assert await system.find(NATIVE, "kube-proxy") is not None
        ran = await plugin.run("migrate", "net", "-y")
        assert ran.code == 0, str(ran)
        assert "warning: net mounts /etc/cni/net.d as a network plugin does" in ran.err
