"""The Deployment of the manifests, run as it says with its own account, rolls out the demo through kubectl."""

from __future__ import annotations

import pytest

from tests.control_plane import ControlPlane
from tests.e2e.audit import Audit
from tests.e2e.bed import built, sample
from tests.e2e.conftest import ACCOUNT
from tests.e2e.host import Running
from tests.e2e.site import site_on
from tests.manifests.rights import granted

pytestmark = pytest.mark.real

NODES = ("one", "two", "three")


async def leaders(replicas: list[Running]) -> list[bool]:
    """Who leads, as each replica's metrics say."""
    pages = [await one.page("metrics", "/metrics") for one in replicas]
    assert [status for status, _ in pages] == [200] * len(replicas)
    return ['leader_election_master_status{name="kruise-ds-controller"} 1.0' in body for _, body in pages]


async def test_two_replicas_as_installed_roll_out_the_demo_and_end_well(site_plane: ControlPlane) -> None:
    audit = Audit(site_plane, ACCOUNT)
    async with site_on(site_plane) as site:
        await site.follow("Install")
        replicas = await site.replicas()
        assert len(replicas) == 2
        assert sorted(await leaders(replicas)) == [False, True]
        await site.workers(*NODES)
        await site.bed.apply_sample("ds.demo.yaml")
        await site.bed.serves(*NODES)
        demo = sample("ds.demo.v2.rollingUpdate.yaml")
        demo["spec"]["minReadySeconds"] = 0
        await site.bed.apply(demo)
        await site.bed.serves(*NODES, labels={"ver": "v2"})
        await site.bed.settled(3)
        await site.sh(f"kubectl kruise-ds status demo -n {site.bed.namespace}")
        assert [await one.passes(probe) for one in replicas for probe in ("livenessProbe", "readinessProbe")] == [
            True
        ] * 4
    assert [one.code for one in site.host.ended] == [0, 0]
    assert all(one.seconds < one.grace for one in site.host.ended), site.host.ended
    assert audit.refused() == []
    assert audit.rights() <= granted(await built(site_plane, "overlays/default"))
