"""Fields that the kind does not have, or that have another shape there, are refused as they are by kubectl."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

import msgspec
import pytest

from tests.beds.api import DAEMONSETS, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.access import run_to_end
from tests.beds.controller.bed import Bed
from tests.beds.objects import daemonset

pytestmark = pytest.mark.real


async def ran(bed: Bed, plane: ControlPlane, *words: str) -> tuple[int, str, str]:
    environ = {**os.environ, "KUBECONFIG": str(plane.kubeconfig), "KUBECTL_KUBERC": "false"}
    return await run_to_end((*words, "-n", bed.api.namespace), environ)


@pytest.mark.parametrize("is_there", [True, False], ids=["changed", "made"])
async def test_a_typo_is_refused(bed: Bed, plane: ControlPlane, tmp_path: Path, is_there: bool) -> None:
    file = tmp_path / "agent.json"
    before: Object = {}
    if is_there:
        await bed.deploy(daemonset())
        before = await bed.api.get(DAEMONSETS, "agent")
    wanted = {"apiVersion": DAEMONSETS.api_version, "kind": "DaemonSet", **daemonset(rolling={"partitions": 3})}
    file.write_bytes(msgspec.json.encode(wanted))
    for words in (
        (str(plane.binaries.kubectl), "apply", "--server-side", "-f", str(file)),
        (sys.executable, "-m", "kubectl_plugin", "plan", "-f", str(file)),
        (sys.executable, "-m", "kubectl_plugin", "apply", "-y", "-f", str(file)),
    ):
        code, out, err = await ran(bed, plane, *words)
        assert (code, out) == (1, ""), words
        assert ".spec.updateStrategy.rollingUpdate.partitions: field not declared in schema" in err
    (after,) = await bed.api.list(DAEMONSETS) or [{}]
    assert after.get("spec") == before.get("spec")


STRATEGY = "spec.updateStrategy"
PLACES = ("spec", STRATEGY, f"{STRATEGY}.rollingUpdate", "metadata.labels", "metadata.annotations")


@pytest.mark.parametrize("place", PLACES)
async def test_a_field_of_another_shape_is_named(bed: Bed, plane: ControlPlane, tmp_path: Path, place: str) -> None:
    """Whatever is to be put beside it: a partition, or the note of an earlier change."""
    file, plugin = tmp_path / "agents.json", (sys.executable, "-m", "kubectl_plugin")
    await bed.deploy(daemonset())
    assert (await ran(bed, plane, *plugin, "pause", "agent"))[0] == 0
    for name, shape in itertools.product(("agent", "other"), ([1], "x", 1, None)):
        wanted = {"apiVersion": DAEMONSETS.api_version, "kind": "DaemonSet", **daemonset(name)}
        *above, last = place.split(".")
        holder = wanted
        for key in above:
            holder = holder.setdefault(key, {})
        holder[last] = shape
        file.write_bytes(msgspec.json.encode(wanted))
        words = ("apply", "--hold-at", "3", "--dry-run=server", "--force-conflicts", "-y", "-f", str(file))
        code, _, err = await ran(bed, plane, *plugin, *words)
        allowed = shape is None and (place, name) != ("spec", "other")
        assert (code, "bug" in err) == (0 if allowed else 1, False), (shape, err)
        assert allowed or place in err, err
