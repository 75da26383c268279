"""Nodes that are drained while our daemons run there: docs/node-maintenance.md, typed as it stands there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kubectl_plugin.rollout.doctor_checks import TELLING_DRAIN, minor_of
from tests.beds.api import PODS, Object, Resource
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.native import native_controller, native_status
from tests.beds.objects import is_live, node_of
from tests.e2e.guide import MAINTENANCE, sections, sh

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller", "beside")]

MACHINES = shutil.which("kubectl", path=os.defpath)
"""The kubectl of this machine, which may be an older one."""
NODE, OTHER = "node-7", "node-8"
STATEFUL = Resource("/apis/apps/v1", "statefulsets", "StatefulSet")
BUDGETS = Resource("/apis/policy/v1", "poddisruptionbudgets", "PodDisruptionBudget")
OURS, THEIRS = "apps.kruise.io/v1beta1", "apps/v1"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def beside(plane: ControlPlane) -> AsyncIterator[None]:
    """The native controller runs too, and the one that counts for budgets."""
    async with native_controller(plane):
        process = await plane.start_controller_manager(["disruption-controller"], name="disruption")
        yield
        await process.stop()


def daemon(name: str, api_version: str) -> Object:
    """One that plain `kubectl drain` stumbles over for its emptyDir too."""
    document = sample("ds.demo.yaml")
    document["apiVersion"], document["metadata"] = api_version, {"name": name}
    document["spec"]["selector"] = {"matchLabels": {"app": name}}
    document["spec"]["template"]["metadata"]["labels"] = {"app": name}
    document["spec"]["template"]["spec"]["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    return document


@pytest_asyncio.fixture
async def daemons(bed: Workspace) -> AsyncIterator[Workspace]:
    """Two nodes with one daemon of each kind. The native one is gone before another test has a node of that name."""
    await bed.workers(NODE, OTHER)
    await bed.apply(daemon("ours", OURS))
    await bed.apply(daemon("native", THEIRS))
    await bed.settled(2, "ours")
    await native_status(bed.api, "native", numberAvailable=2)
    yield bed
    await bed.kubectl("delete", "daemonset.apps/native", "--cascade=foreground")


async def web_runs(bed: Workspace) -> None:
    """A pod that is to leave the node. It too has the label by which the drain knows daemons."""
    spec = {"containers": [{"name": "web", "image": "registry.example.com/web:v1"}]}
    labels = {"app": "web", "controller-revision-hash": "web-57f9898c64"}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    wanted = {"replicas": 0, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "template": template}
    if not await bed.api.list(STATEFUL):
        await bed.api.create(STATEFUL, {"metadata": {"name": "web"}, "spec": wanted})
    (owner,) = await bed.api.list(STATEFUL)
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": owner["metadata"]["uid"]}
    metadata = {"name": "web-0", "labels": labels, "ownerReferences": [{**reference, "controller": True}]}
    await bed.api.create(PODS, {"metadata": metadata, "spec": {**spec, "nodeName": NODE}})
    await bed.api.wait_for(PODS, lambda pods: _uids(pods, "web").keys() == {NODE}, "the web pod is there")


@pytest.fixture(params=["control plane's", *(["machine's"] if MACHINES else [])])
def kubectl(request: pytest.FixtureRequest, plane: ControlPlane) -> Path:
    return plane.kubectl if request.param == "control plane's" else Path(str(MACHINES))


async def typed(bed: Workspace, number: int, kubectl: Path) -> str:
    """That block of the page's section on draining."""
    return await sh(bed.plane, "\n".join(sections(MAINTENANCE)["Drain a node"][number]), kubectl=kubectl)


def _uids(pods: list[Object], app: str) -> dict[str, str]:
    """By node."""
    mine = [pod for pod in pods if pod["metadata"]["labels"].get("app") == app and is_live(pod)]
    return {node_of(pod): pod["metadata"]["uid"] for pod in mine}


async def test_a_drain_as_the_manual_says_leaves_the_daemons_and_nothing_else(
    daemons: Workspace, kubectl: Path
) -> None:
    bed = daemons
    await web_runs(bed)
    before = await bed.pods()
    told = await typed(bed, 0, kubectl)
    assert [line for line in told.splitlines() if line.endswith("evicted")] == ["pod/web-0 evicted"]
    after = await bed.pods()
    for app in ("ours", "native"):
        assert _uids(after, app) == _uids(before, app)
    assert (await sh(bed.plane, f"kubectl get node {NODE} -o jsonpath={{.spec.unschedulable}}")) == "true"
    await typed(bed, 1, kubectl)
    assert (await sh(bed.plane, f"kubectl get node {NODE} -o jsonpath={{.spec.unschedulable}}")) == ""


async def test_a_drain_without_a_selector_fails_or_evicts_ours_once(daemons: Workspace, kubectl: Path) -> None:
    bed = daemons
    before = await bed.pods()
    version = json.loads(await sh(bed.plane, "kubectl version --client -o json", kubectl=kubectl))
    script = f"kubectl drain {NODE} --ignore-daemonsets --delete-emptydir-data 2>&1 | grep -v Warning"
    told = await sh(bed.plane, script, kubectl=kubectl)
    evicted = [line[:8] for line in told.splitlines() if line.endswith("evicted")]
    known = minor_of(version["clientVersion"]["gitVersion"])
    assert known is not None
    if known < TELLING_DRAIN:
        assert (evicted, 'daemonsets.apps "ours" not found' in told) == ([], True)
        assert _uids(await bed.pods(), "ours") == _uids(before, "ours")
        return
    assert evicted == ["pod/ours"]
    await bed.settled(2, "ours")
    after = await bed.pods()
    assert _uids(after, "native") == _uids(before, "native")
    assert {node for node, uid in _uids(after, "ours").items() if uid != _uids(before, "ours")[node]} == {NODE}


async def test_a_budget_of_daemons_lets_them_go_only_if_it_names_a_number(daemons: Workspace) -> None:
    bed = daemons
    for name, limit in (("number", {"minAvailable": 1}), ("share", {"maxUnavailable": 1})):
        spec = {**limit, "selector": {"matchLabels": {"app": "ours"}}}
        await bed.api.create(BUDGETS, {"metadata": {"name": name}, "spec": spec})

    def counted(budgets: list[Object]) -> bool:
        return all(_synced(one) for one in budgets)

    found = await bed.api.wait_for(BUDGETS, counted, "both budgets are counted")
    allowed = {one["metadata"]["name"]: one["status"]["disruptionsAllowed"] for one in found}
    assert allowed == {"number": 1, "share": 0}


def _synced(budget: Object) -> bool:
    """Whether it has been counted with its pods there; a new one without pods is counted in another way."""
    conditions = {one["type"]: one["reason"] for one in (budget.get("status") or {}).get("conditions") or ()}
    wanted = "SufficientPods" if "minAvailable" in budget["spec"] else "SyncFailed"
    return bool(conditions.get("DisruptionAllowed") == wanted)
