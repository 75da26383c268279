"""What the real API server refuses of manifests and settings, and what it makes of a dry run."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import msgspec
import pytest

from tests.beds.api import DAEMONSETS
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.access import run_to_end
from tests.beds.controller.bed import Bed
from tests.beds.installed.plugin import PROGRAM
from tests.beds.objects import V1, V2, daemonset
from tests.plugin.in_process import Ran

pytestmark = pytest.mark.real

STRATEGY = "spec.updateStrategy"
PLACES = ("spec", STRATEGY, f"{STRATEGY}.rollingUpdate", "metadata.labels", "metadata.annotations")


async def kruise_ds(bed: Bed, plane: ControlPlane, *words: str) -> Ran:
    """The program as kubectl would start it, without a terminal."""
    environ = {**os.environ, "KUBECONFIG": str(plane.kubeconfig), "COLUMNS": "200"}
    return Ran(*await run_to_end((*PROGRAM, *words, "-n", bed.api.namespace), environ))


@pytest.mark.parametrize("place", PLACES)
async def test_a_field_of_another_shape_is_named(bed: Bed, plane: ControlPlane, tmp_path: Path, place: str) -> None:
    """Whatever is to be put beside it: a partition, or the note of an earlier change."""
    file = tmp_path / "agents.json"
    await bed.deploy(daemonset())
    assert (await kruise_ds(bed, plane, "pause", "agent")).code == 0
    for name, shape in itertools.product(("agent", "other"), ([1], "x", 1, None)):
        wanted = {"apiVersion": DAEMONSETS.api_version, "kind": "DaemonSet", **daemonset(name)}
        *above, last = place.split(".")
        holder = wanted
        for key in above:
            holder = holder.setdefault(key, {})
        holder[last] = shape
        file.write_bytes(msgspec.json.encode(wanted))
        words = ("apply", "--hold-at", "3", "--dry-run=server", "--force-conflicts", "-y", "-f", str(file))
        ran = await kruise_ds(bed, plane, *words)
        allowed = shape is None and (place, name) != ("spec", "other")
        assert (ran.code, "bug" in ran.err) == (0 if allowed else 1, False), (shape, ran)
        assert allowed or place in ran.err, ran


async def test_a_plan_of_settings_that_the_server_refuses(bed: Bed, plane: ControlPlane) -> None:
    await bed.deploy(daemonset(rolling={"maxSurge": 1}), nodes=1)
    ran = await kruise_ds(bed, plane, "plan", "agent", "--max-unavailable", "1")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("Error from server (Invalid): ")
    assert "maxUnavailable" in ran.err


async def test_a_dry_run_is_something_for_kubectl_diff(bed: Bed, plane: ControlPlane) -> None:
    await bed.deploy(daemonset(rolling={"maxUnavailable": 1}), nodes=2)
    await bed.edit({"updateStrategy": {"rollingUpdate": {"partition": 1}}})
    await bed.set_image(V2)
    await bed.status(updated=1, available=2)
    before = await bed.daemonset()
    for way in ("client", "server"):
        ran = await kruise_ds(bed, plane, "rollback", "agent", "-y", f"--dry-run={way}", "-o", "yaml")
        assert ran.code == 0, ran.err
        diff = await plane.run_kubectl("diff", "-f", "-", "-n", bed.api.namespace, stdin=ran.out)
        assert diff.returncode == 1, f"{way}: {diff.stderr}"
        changed = {line[0] + line[1:].strip(" -") for line in diff.stdout.splitlines() if line[:1] in "+-"}
        assert {"-partition: 1", "+partition: 0", f"-image: {V2}", f"+image: {V1}"} <= changed, diff.stdout
    assert (await bed.daemonset())["spec"] == before["spec"]
