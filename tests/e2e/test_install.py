"""`kubectl apply --server-side -k manifests/overlays/default`: its rights are enough, and none of them is idle."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.beds.api import PODS, REVISIONS
from tests.beds.audit import Audit
from tests.beds.control_plane import ControlPlane
from tests.beds.garbage import garbage_collector_knows
from tests.beds.installed.process import running
from tests.beds.installed.workspace import Workspace, built, sample
from tests.beds.nodes import INSTANT, Behaviour
from tests.beds.rights import OLD_SERVERS, Right, granted
from tests.e2e.conftest import ACCOUNT

pytestmark = pytest.mark.real

NODES = ("one", "two", "three")
CHECKED_BY_ADMISSION = {Right("apps.kruise.io", "daemonsets/finalizers", "update")}
"""No request of ours: the plane's admission asks for it at each pod and revision, and refuses them without."""
SELDOM = {Right("", "pods", "get"), Right("apps", "controllerrevisions", "get"), Right("", "pods/resize", "patch")}
"""A second look at a derived name that turns out to be taken: only where an answer was lost. And a feature gate."""


async def first_life(bed: Workspace) -> dict[str, Any]:
    """All but adoption. Returns the DaemonSet as it was applied last; nothing is left to be written."""
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


async def second_life(bed: Workspace, demo: dict[str, Any]) -> None:
    """The pods and revisions of the first one are orphans."""
    await bed.apply(demo)
    await bed.settled(3)


async def in_place(bed: Workspace, demo: dict[str, Any]) -> None:
    """A pod with a readiness gate is made, and the gate opened."""
    demo["spec"]["updateStrategy"] = {
        "type": "RollingUpdate",
        "rollingUpdate": {"rollingUpdateType": "InPlaceIfPossible"},
    }
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


async def test_the_rights_of_the_manifests_are_enough_for_everything_all_are_used_and_no_write_fails(
    bed: Workspace, plane: ControlPlane
) -> None:
    """Everything that the controller ever does: deploy, update, adopt, release, renumber, trim, report."""
    audit = Audit(plane, ACCOUNT)
    await plane.run_kubectl("-n", "kruise-ds-system", "delete", "lease", "kruise-ds-controller", "--ignore-not-found")
    async with replicas(plane):
        demo = await first_life(bed)
    await garbage_collector_knows(bed.api, PODS, REVISIONS)
    await bed.kubectl("delete", "ads", "demo", "--cascade=orphan")  # not beside them: their watches are not in step
    async with replicas(plane):
        await second_life(bed, demo)
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
