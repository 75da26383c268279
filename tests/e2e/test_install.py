"""`kubectl apply --server-side -k manifests/overlays/default`: its rights are enough, and none of them is idle."""

from __future__ import annotations

from typing import Any

import pytest

from tests.beds.api import EVENTS, PODS, REVISIONS, Object
from tests.beds.audit import Audit
from tests.beds.control_plane import ControlPlane
from tests.beds.garbage import garbage_collector_knows
from tests.beds.installed.bed import Workspace, built, sample
from tests.beds.installed.process import running
from tests.beds.nodes import INSTANT, Behaviour
from tests.beds.rights import OLD_SERVERS, Right, granted
from tests.e2e.conftest import ACCOUNT

pytestmark = pytest.mark.real

NODES = ("one", "two", "three")
CHECKED_BY_ADMISSION = {Right("apps.kruise.io", "daemonsets/finalizers", "update")}
"""No request of ours: the plane's admission asks for it at each pod and revision, and refuses them without."""
SELDOM = {Right("", "pods", "get"), Right("apps", "controllerrevisions", "get")}
"""A second look at a derived name that turns out to be taken: only where an answer was lost."""


async def whole_story(bed: Workspace) -> None:
    """Everything that the controller ever does: deploy, update, adopt, release, renumber, trim, report."""
    demo = await first_life(bed)
    await garbage_collector_knows(bed.api, PODS, REVISIONS)
    await bed.kubectl("delete", "ads", "demo", "--cascade=orphan")
    await second_life(bed, demo)
    await bed.kubectl("delete", "ads", "demo")
    await bed.serves()


async def first_life(bed: Workspace) -> dict[str, Any]:
    """All but adoption. Returns the DaemonSet as it was applied last; nothing is left to be written."""
    await bed.workers(*NODES)
    demo = sample("ds.demo.yaml")
    demo["spec"]["revisionHistoryLimit"] = 1
    await bed.apply(demo)
    await bed.serves(*NODES)
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


async def second_life(bed: Workspace, demo: dict[str, Any]) -> None:
    """The pods and revisions of the first one are orphans."""
    await bed.apply(demo)
    await bed.settled(3)


async def update(bed: Workspace, demo: dict[str, Any], version: str) -> None:
    demo["spec"]["template"]["metadata"]["labels"]["ver"] = version
    await bed.apply(demo)
    await bed.serves(*NODES, labels={"ver": version})
    await bed.settled(3)


async def test_the_rights_of_the_manifests_are_enough_for_everything_and_all_of_them_are_used(
    bed: Workspace, plane: ControlPlane
) -> None:
    audit = Audit(plane, ACCOUNT)
    account = plane.kubeconfig_for(ACCOUNT)
    await plane.run_kubectl("-n", "kruise-ds-system", "delete", "lease", "kruise-ds-controller", "--ignore-not-found")
    async with running(plane.folder, account, elect=True, secrets=(ACCOUNT.token,)) as controller:
        async with running(plane.folder, account, elect=True):  # a standby watches the Lease
            await whole_story(bed)
        assert await controller.terminated() == 0
    assert audit.refused() == []
    asked, may = audit.rights(), granted(await built(plane, "overlays/default"))
    assert asked <= may
    assert may - asked - SELDOM == CHECKED_BY_ADMISSION | OLD_SERVERS, "the rights that no request needs here"


async def test_a_run_without_faults_has_no_write_that_fails(bed: Workspace, plane: ControlPlane) -> None:
    audit = Audit(plane, ACCOUNT)
    async with running(plane.folder, plane.kubeconfig_for(ACCOUNT)) as controller:
        demo = await first_life(bed)
        assert await controller.terminated() == 0
    await garbage_collector_knows(bed.api, PODS, REVISIONS)
    await bed.kubectl("delete", "ads", "demo", "--cascade=orphan")  # not beside it: its watches are not in step
    async with running(plane.folder, plane.kubeconfig_for(ACCOUNT)) as controller:
        await second_life(bed, demo)
        assert await controller.terminated() == 0
    assert [one for one in audit.requests() if one.is_write and one.code >= 400] == []


async def test_a_quiet_cluster_sees_no_writes(bed: Workspace, plane: ControlPlane) -> None:
    await bed.workers(*NODES)
    await bed.apply_sample("ds.demo.yaml")
    async with running(plane.folder, plane.kubeconfig_for(ACCOUNT)) as controller:
        await bed.serves(*NODES)
        await bed.settled(3)
        await bed.api.wait_for(EVENTS, _is_over, "the last event of its deployment")
        await bed.kubectl("annotate", "ads", "demo", "--overwrite", "looked=1")
        await bed.settled(3)
        audit = Audit(plane, ACCOUNT)
        for round_ in range(3):  # each of these wakes it, and none asks for anything
            await bed.kubectl("annotate", "ads", "demo", "--overwrite", f"looked={round_}")
            await bed.kubectl("annotate", "node", *NODES, "--overwrite", f"looked={round_}")
        assert await controller.terminated() == 0
        assert audit.writes() == []


def _is_over(events: list[Object]) -> bool:
    """Events are sent in their order, in the background; this one comes after the last status."""
    return any(one["reason"] == "RolloutComplete" for one in events)
