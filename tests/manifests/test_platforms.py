"""What platforms ask of the Deployment beyond what any API server does, played by the real one's own flags."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.kube.config import load
from controller.kube.transport import open_transport
from tests.beds.api import PODS, Api
from tests.beds.audit import NAMESPACE
from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.manifests import MANIFESTS

pytestmark = pytest.mark.real

CLASS = "system-cluster-critical"


def admission(folder: Path) -> Path:
    """As GKE has it: pods of this class only where a quota names it."""
    critical = {"scopeName": "PriorityClass", "operator": "In", "values": [CLASS]}
    limits = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "ResourceQuotaConfiguration",
        "limitedResources": [{"resource": "pods", "matchScopes": [critical]}],
    }
    plugins = [{"name": "ResourceQuota", "configuration": limits}]
    path = folder / "admission.json"
    path.write_text(
        json.dumps({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins})
    )
    return path


async def test_critical_pods_start_where_only_a_quota_lets_them(complete_binaries: Binaries, tmp_path: Path) -> None:
    controllers = ("deployment-controller", "replicaset-controller", "resourcequota-controller")
    flag = f"--admission-control-config-file={admission(tmp_path)}"
    async with ControlPlane(complete_binaries, controllers=controllers, apiserver_flags=[flag]) as plane:
        done = await plane.run_kubectl("apply", "--server-side", "-k", str(MANIFESTS / "overlays" / "default"))
        assert done.returncode == 0, done.stderr
        async with open_transport(await load(str(plane.kubeconfig), None)) as transport:
            made = Api(transport, NAMESPACE)
            pods = await made.wait_for(PODS, lambda found: len(found) == 2, "both replicas are admitted")
            assert {pod["spec"]["priorityClassName"] for pod in pods} == {CLASS}
            critical = json.dumps({"spec": {"priorityClassName": CLASS}})
            refused = await plane.run_kubectl("run", "tried", "--image=tried", f"--overrides={critical}")
            assert "insufficient quota to match these scopes" in refused.stderr, "the server does ask for one"
