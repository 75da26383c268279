"""components/host-network, as docs/node-maintenance.md shows it: the controller's pods need no pod network."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from controller.kube.config import load
from controller.kube.transport import open_transport
from tests.beds.api import PODS, Api
from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.manifests import MANIFESTS
from tests.beds.rights import NAMESPACE

pytestmark = pytest.mark.real

PAGE = MANIFESTS.parent / "docs" / "node-maintenance.md"
SHOWN = re.compile(r"^```(?:yaml)?\n((?:# kustomization.yaml|patches:)\n.*?)^```$", re.MULTILINE | re.DOTALL)


def overlay(folder: Path) -> Path:
    """Both blocks of the page in one kustomization, beside our manifests."""
    shutil.copytree(MANIFESTS, folder / "manifests")
    whole, patches = SHOWN.findall(PAGE.read_text())
    (folder / "kustomization.yaml").write_text(whole + patches)
    return folder


async def test_both_replicas_are_admitted_to_the_network_of_their_nodes(
    complete_binaries: Binaries, tmp_path: Path
) -> None:
    controllers = ("deployment-controller", "replicaset-controller", "resourcequota-controller")
    async with ControlPlane(complete_binaries, controllers=controllers) as plane:
        done = await plane.run_kubectl("apply", "--server-side", "--validate=strict", "-k", str(overlay(tmp_path)))
        assert (done.returncode, done.stderr) == (0, "")
        async with open_transport(await load(str(plane.kubeconfig), None)) as transport:
            made = Api(transport, NAMESPACE)
            pods = await made.wait_for(PODS, lambda found: len(found) == 2, "both replicas are admitted")
    for spec in (pod["spec"] for pod in pods):
        assert spec["hostNetwork"] is True
        (container,) = spec["containers"]
        assert {one["name"]: one["hostPort"] for one in container["ports"]} == {"metrics": 18080, "health": 18081}
        listens = [word.rpartition(":")[2] for word in container["args"] if "bind-address" in word]
        assert listens == ["18080", "18081"], "two of them never want one node: the scheduler knows the ports"
        tolerated = {one["key"] for one in spec["tolerations"] if one["effect"] == "NoSchedule"}
        assert tolerated >= {"node.kubernetes.io/not-ready", "node.kubernetes.io/network-unavailable"}
        env = {one["name"]: one.get("value") for one in container["env"]}
        assert env["KUBERNETES_SERVICE_HOST"] == "api.internal.example"
