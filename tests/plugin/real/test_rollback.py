"""A canary that fails on some nodes, on the real API server: what it takes back, and what it leaves alone."""

from __future__ import annotations

import json
import os

import pytest

from tests.beds.api import DAEMONSETS, PODS, REVISIONS, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.access import run_to_end
from tests.beds.controller.bed import Bed
from tests.beds.installed.plugin import PROGRAM
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, V3, daemonset, node_of
from tests.plugin.in_process import Ran

pytestmark = pytest.mark.real

FLEET = [f"{zone}-{number:02}" for zone in "abc" for number in range(1, 9)]
CANARY = {"c-08", "c-07", "c-06", "c-05", "c-04", "c-03"}
WITHOUT_V2 = Behaviour(missing_images=("*:v2",))


async def kruise_ds(bed: Bed, plane: ControlPlane, *words: str) -> Ran:
    """The program as kubectl would start it, without a terminal."""
    environ = {**os.environ, "KUBECONFIG": str(plane.kubeconfig), "COLUMNS": "200"}
    return Ran(*await run_to_end((*PROGRAM, *words, "-n", bed.api.namespace), environ))


def identities(pods: dict[str, Object]) -> dict[str, tuple[str, str]]:
    """Name and uid of the pod on each node."""
    return {node: (pod["metadata"]["name"], pod["metadata"]["uid"]) for node, pod in pods.items()}


async def failing_canary(bed: Bed) -> None:
    """Partition 16 of 24 nodes; c-04 and c-03 can not pull the new image, and stop it there."""
    for name in FLEET:
        await bed.nodes.add(name)
    for name in ("c-04", "c-03"):
        bed.nodes.behave(name, WITHOUT_V2)
    await bed.deploy(daemonset(rolling={"maxUnavailable": 2}))
    template = {"spec": {"containers": [{"name": "agent", "image": V2}], "terminationGracePeriodSeconds": 5}}
    template["metadata"] = {"labels": {"app": "agent", "added": "since"}}
    strategy = {"rollingUpdate": {"partition": 16, "maxUnavailable": 2}}
    await bed.edit({"template": template, "updateStrategy": strategy})
    await bed.status(updated=6, available=22)
    await bed.until(PODS, _image_is_missing, "pods of c-04 and c-03 that wait for their image")


def _image_is_missing(pods: list[Object]) -> str:
    waiting = {
        node_of(pod)
        for pod in pods
        for one in pod["status"].get("containerStatuses") or []
        if "ImagePull" in (one["state"].get("waiting") or {}).get("reason", "")
    }
    return "" if waiting == {"c-04", "c-03"} else f"only these wait: {sorted(waiting)}"


async def test_exactly_the_canary_goes_back(bed: Bed, plane: ControlPlane) -> None:
    await failing_canary(bed)
    before = identities(await bed.pods())
    ran = await kruise_ds(bed, plane, "rollback", "agent", "-y")
    assert ran.code == 0, ran.err
    first, *lines = ran.out.splitlines()
    assert first == "daemonset.apps.kruise.io/agent rolled back to revision 1 (now revision 3)"
    assert lines[-3:] == [
        "  move back   6 nodes: c-04 c-03 at once (they are down), then c-08 c-07 | c-06 c-05     re-create",
        "  stay        18 nodes already on it",
        "  also set    partition 16 -> 0   (with 16, no node would move back)",
    ]
    await bed.settled()
    after = identities(await bed.runs_on(*FLEET, image=V1))
    assert {node for node in FLEET if before[node] != after[node]} == CANARY
    found = await bed.daemonset()
    assert found["spec"]["template"]["metadata"]["labels"] == {"app": "agent"}
    assert found["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 0
    assert [one["revision"] for one in await bed.revisions()] == [2, 3]


async def test_a_dry_run_is_something_for_kubectl_diff(bed: Bed, plane: ControlPlane) -> None:
    """kubectl shows what `apply` would do: of keys that are taken away it knows only those that it applied itself."""
    await failing_canary(bed)
    before = await bed.api.get(DAEMONSETS, "agent")
    for way in ("client", "server"):
        ran = await kruise_ds(bed, plane, "rollback", "agent", "-y", f"--dry-run={way}", "-o", "yaml")
        assert ran.code == 0, ran.err
        diff = await plane.run_kubectl("diff", "-f", "-", "-n", bed.api.namespace, stdin=ran.out)
        assert diff.returncode == 1, f"{way}: {diff.stderr}"
        changed = {line[0] + line[1:].strip(" -") for line in diff.stdout.splitlines() if line[:1] in "+-"}
        assert {"-partition: 16", "+partition: 0", f"-image: {V2}", f"+image: {V1}"} <= changed, diff.stdout
    assert (await bed.api.get(DAEMONSETS, "agent"))["spec"] == before["spec"]


async def test_from_a_restart_it_goes_to_the_one_that_was_stable_before_and_not_to_the_canary(
    bed: Bed, plane: ControlPlane
) -> None:
    """Two are rolled out completely, then a canary is put back, and all pods are restarted."""

    async def stable(number: int) -> None:
        def unstored(found: list[Object]) -> str:
            numbers = [one["revision"] for one in found]
            return "" if number in numbers else f"there are {numbers}"

        await bed.until(REVISIONS, unstored, f"revision {number}")
        name = {one["revision"]: one["metadata"]["name"] for one in await bed.revisions()}[number]

        def missing(found: list[Object]) -> str:
            known = found[0]["status"]["rollout"].get("stableRevision")
            return "" if known == name.removeprefix("agent-") else f"stable is {known}"

        await bed.until(DAEMONSETS, missing, name)

    for name in FLEET[:4]:
        await bed.nodes.add(name)
    await bed.deploy(daemonset())
    await stable(1)
    await bed.set_image(V2)
    await stable(2)
    await bed.edit({"updateStrategy": {"rollingUpdate": {"partition": 3}}})
    await bed.set_image(V3)
    await bed.status(desired=4, updated=1, available=4)
    await bed.set_image(V2)
    await bed.edit({"updateStrategy": {"rollingUpdate": {"partition": 0}}})
    await bed.settled()
    assert (await kruise_ds(bed, plane, "restart", "agent", "-y")).code == 0
    await bed.settled()
    ran = await kruise_ds(bed, plane, "rollback", "agent", "-y")
    assert (ran.code, "rolled back to revision 1 " in ran.out) == (0, True), ran
    await bed.settled()
    await bed.runs_on(*FLEET[:4], image=V1)


async def test_without_pods_and_nodes_it_goes_back_to_the_stable_revision(bed: Bed, plane: ControlPlane) -> None:
    """Of a bad and a worse canary; the user may neither list pods nor nodes."""
    for name in FLEET[:4]:
        await bed.nodes.add(name)
    await bed.deploy(daemonset(rolling={"partition": 3}))
    for number, image in enumerate((V2, V3), start=2):
        await bed.set_image(image)
        await bed.seen()
        await bed.status(desired=4, updated=1, available=4)
        assert [one["revision"] for one in await bed.revisions()][-1] == number
    user = f"{bed.api.namespace}-operator"
    rules = [
        {"apiGroups": ["apps.kruise.io"], "resources": ["daemonsets"], "verbs": ["get", "patch"]},
        {"apiGroups": ["apps"], "resources": ["controllerrevisions"], "verbs": ["list"]},
    ]
    for kind, more in (
        ("Role", {"rules": rules}),
        (
            "RoleBinding",
            {
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            },
        ),
    ):
        made = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": user}, **more}
        await plane.run_kubectl("create", "-n", bed.api.namespace, "-f", "-", stdin=json.dumps(made))
    for dry in (("--dry-run=server",), ()):
        ran = await kruise_ds(bed, plane, "rollback", "agent", "-y", "--as", user, *dry)
        assert ran.code == 0, ran.err
    await bed.settled()
    await bed.runs_on(*FLEET[:4], image=V1)
