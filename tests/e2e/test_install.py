"""`kubectl apply --server-side -k manifests/overlays/default`: its rights are just enough, and two replicas work."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from tests.beds.api import PODS, REVISIONS
from tests.beds.audit import NAMESPACE, OLD_SERVERS, Audit, Right, granted
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.process import running
from tests.beds.installed.workspace import Workspace, built, sample
from tests.beds.nodes import INSTANT, Behaviour
from tests.beds.objects import garbage_collector_knows
from tests.e2e.conftest import ACCOUNT
from tests.e2e.host import Running
from tests.e2e.site import site_on

pytestmark = pytest.mark.real

NODES = ("one", "two", "three")
CHECKED_BY_ADMISSION = {Right("apps.kruise.io", "daemonsets/finalizers", "update")}
"""No request of ours: the plane's admission asks for it at each pod and revision, and refuses them without."""
SELDOM = {Right("", "pods", "get"), Right("apps", "controllerrevisions", "get"), Right("", "pods/resize", "patch")}
"""A second look at a derived name that turns out to be taken: only where an answer was lost. And a feature gate."""


async def first_life(bed: Workspace) -> dict[str, Any]:
    """All but adoption. Returns the DaemonSet as it was applied last."""
    await bed.workers(*NODES)
    demo = sample("ds.demo.yaml")
    demo["spec"]["revisionHistoryLimit"] = 1
    await bed.apply(demo)
    await bed.settled(3)  # a status that is on its way would not fit the next spec, and be refused
    for version in ("v2", "v3", "v1", "v2"):  # back to one that is still there: renumbered; too many: trimmed
        await update(bed, demo, version)
    await bed.api.wait_for(REVISIONS, lambda found: len(found) == 2, "the current revision and one older")
    pod = (await bed.serves(*NODES))["one"]
    bed.nodes.behave("*", Behaviour(ready=None))  # so that the status tells when all of this is over
    await bed.kubectl("label", "pod", pod["metadata"]["name"], "app=free", "--overwrite")
    await bed.api.wait_for(PODS, lambda pods: len(pods) == 4, "the relabelled pod is released and another one made")
    await bed.status(numberAvailable=2)
    bed.nodes.behave("*", INSTANT)
    await bed.settled(3)
    await bed.kubectl("delete", "pod", pod["metadata"]["name"])
    return demo


async def in_place(bed: Workspace, demo: dict[str, Any]) -> None:
    """A pod with a readiness gate is made, and the gate opened."""
    demo["spec"]["updateStrategy"] = {"rollingUpdate": {"rollingUpdateType": "InPlaceIfPossible"}}
    await bed.apply(demo)
    await bed.settled(3)
    name = (await bed.serves(*NODES))["two"]["metadata"]["name"]
    await bed.kubectl("delete", "pod", name)
    await bed.api.wait_for(
        PODS, lambda pods: any("readinessGates" in pod["spec"] for pod in pods), "a pod that can be updated in place"
    )
    await bed.settled(3)
    await bed.serves(*NODES)


async def update(bed: Workspace, demo: dict[str, Any], version: str) -> None:
    demo["spec"]["template"]["metadata"]["labels"]["ver"] = version
    await bed.apply(demo)
    await bed.serves(*NODES, labels={"ver": version})
    await bed.settled(3)


@asynccontextmanager
async def replicas(plane: ControlPlane) -> AsyncIterator[None]:
    """A leader, and a standby that watches the Lease; the leader is ended by SIGTERM."""
    account = plane.kubeconfig_for(ACCOUNT)
    async with running(plane.folder, account, elect=True, secrets=(ACCOUNT.token,)) as leader:
        await leader.leads()
        async with running(plane.folder, account, elect=True) as standby:
            await standby.says("standing by")
            yield
        assert await leader.terminated() == 0


async def begins_watches_with_a_list(plane: ControlPlane) -> bool:
    """Whether the server has the feature WatchList, by its own account."""
    told = await plane.run_kubectl("get", "--raw", "/metrics")
    assert told.returncode == 0, told.stderr
    (value,) = re.findall(r'^kubernetes_feature_enabled\{name="WatchList",.*\} (\d)$', told.stdout, re.MULTILINE)
    return str(value) == "1"


async def test_the_rights_of_the_manifests_are_enough_and_all_are_used(bed: Workspace, plane: ControlPlane) -> None:
    """Everything that the controller ever does: deploy, update, adopt, release, renumber, trim, report."""
    audit = Audit(plane, ACCOUNT)
    await plane.run_kubectl("-n", NAMESPACE, "delete", "lease", "kruise-ds-controller", "--ignore-not-found")
    async with replicas(plane):
        demo = await first_life(bed)
    await garbage_collector_knows(bed.api, PODS, REVISIONS)
    await bed.kubectl("delete", "ads", "demo", "--cascade=orphan")  # not beside them: their watches are not in step
    async with replicas(plane):
        await bed.apply(demo)  # the pods and revisions of the first life are orphans
        await bed.settled(3)
        assert [one for one in audit.requests() if one.is_write and one.code >= 400] == []
        await in_place(bed, demo)  # the kubelet writes to a new pod as well: a write may meet its
        await bed.kubectl("delete", "ads", "demo")
        await bed.serves()
    assert audit.refused() == []
    may = granted(await built(plane, "overlays/default"))
    idle = CHECKED_BY_ADMISSION | (OLD_SERVERS if await begins_watches_with_a_list(plane) else set())
    asked = await audit.rights_with(may - SELDOM - idle)
    assert asked <= may
    assert may - asked - SELDOM == idle, "the rights that no request needs here"


async def one_leads(replicas: list[Running]) -> None:
    """Wait until each replica's metrics say that exactly one of them leads: ready are both before that."""

    async def holds() -> bool:
        pages = [await one.page("metrics", "/metrics") for one in replicas]
        return sum('leader_election_master_status{name="kruise-ds-controller"} 1.0' in body for _, body in pages) == 1

    await replicas[0].process.until(holds, what="one of two leads", seconds=60.0)


async def test_two_replicas_as_installed_roll_out_the_demo_and_end_well(site_plane: ControlPlane) -> None:
    audit = Audit(site_plane, ACCOUNT)
    async with site_on(site_plane) as site:
        await site.follow("Install")
        replicas = await site.replicas()
        assert len(replicas) == 2
        assert all("the service account of this pod" in one.process.log.read_text() for one in replicas)
        await one_leads(replicas)
        await site.workers(*NODES)
        await site.bed.apply_sample("ds.demo.yaml")
        await site.bed.serves(*NODES)
        demo = sample("ds.demo.v2.rollingUpdate.yaml")
        demo["spec"]["minReadySeconds"] = 0
        await site.bed.apply(demo)
        await site.bed.serves(*NODES, labels={"ver": "v2"})
        await site.bed.settled(3)
        await site.sh(f"kubectl kruise-ds status demo -n {site.bed.namespace}")
        for one in replicas:
            for probe in ("livenessProbe", "readinessProbe"):
                await one.process.until(partial(one.passes, probe), what=f"well by its {probe}", seconds=20.0)
    assert [one.code for one in site.host.ended] == [0, 0]
    assert all(one.seconds < one.grace for one in site.host.ended), site.host.ended
    assert audit.refused() == []
    assert audit.rights() <= granted(await built(site_plane, "overlays/default"))
