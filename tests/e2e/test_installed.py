"""The Deployment of the manifests, run as it says with its own account, rolls out the demo through kubectl."""

from __future__ import annotations

from functools import partial

import pytest

from tests.beds.api import DAEMONSETS, Api
from tests.beds.audit import Audit
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.workspace import built, sample
from tests.beds.rights import NAMESPACE, granted
from tests.e2e.conftest import ACCOUNT
from tests.e2e.guide import commands
from tests.e2e.host import Running
from tests.e2e.site import site_on

pytestmark = pytest.mark.real

NODES = ("one", "two", "three")
(ROLLED_OUT,) = [line for line in commands("Install") if "rollout status" in line]


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


async def test_the_namespaced_overlay_as_installed_rolls_out_there_and_sees_nothing_else(
    site_plane: ControlPlane,
) -> None:
    overlay = "overlays/namespaced"
    documents = await built(site_plane, overlay)
    watched = {one["metadata"]["namespace"] for one in documents if one["kind"] == "RoleBinding"} - {NAMESPACE}
    async with site_on(site_plane, watched.pop()) as site:
        assert not watched, "one namespace, as it comes"
        await site.sh("kubectl delete clusterrolebinding kruise-ds-controller --ignore-not-found")
        audit = Audit(site_plane, ACCOUNT)
        await site.sh(f"kubectl apply --server-side -k manifests/{overlay}")
        await site.sh(ROLLED_OUT)
        await site.workers(*NODES)
        demo = sample("ds.demo.yaml")
        elsewhere = Api(site.bed.api.transport, "default")
        await elsewhere.create(DAEMONSETS, demo)
        await site.bed.apply(demo)
        await site.bed.serves(*NODES)
        demo["spec"]["template"]["metadata"]["labels"]["ver"] = "v2"
        await site.bed.apply(demo)
        await site.bed.serves(*NODES, labels={"ver": "v2"})
        await site.bed.settled(3)
        assert (await elsewhere.get(DAEMONSETS, "demo"))["status"]["observedGeneration"] == 0
        await elsewhere.delete(DAEMONSETS, "demo")
    assert audit.refused() == []
    assert audit.rights() <= granted(documents)
    assert {one.namespace for one in audit.requests()} == {"", site.bed.namespace, NAMESPACE}
