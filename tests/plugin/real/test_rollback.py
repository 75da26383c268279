"""The rollback of a canary that fails on some nodes, on the real API server, as kubectl compares it."""

from __future__ import annotations

import os

import pytest

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.access import run_to_end
from tests.beds.controller.bed import Bed
from tests.beds.installed.plugin import PROGRAM
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, daemonset, node_of
from tests.plugin.in_process import Ran

pytestmark = pytest.mark.real

FLEET = [f"{zone}-{number:02}" for zone in "abc" for number in range(1, 9)]
WITHOUT_V2 = Behaviour(missing_images=("*:v2",))


async def kruise_ds(bed: Bed, plane: ControlPlane, *words: str) -> Ran:
    """The program as kubectl would start it, without a terminal."""
    environ = {**os.environ, "KUBECONFIG": str(plane.kubeconfig), "COLUMNS": "200"}
    return Ran(*await run_to_end((*PROGRAM, *words, "-n", bed.api.namespace), environ))


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
