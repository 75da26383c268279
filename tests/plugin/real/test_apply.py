"""A field that the kind does not have is refused by `apply` and `plan` as it is by kubectl."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest

from tests.beds.api import DAEMONSETS, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.kubectl import run_to_end
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
