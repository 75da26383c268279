"""What kubectl has installed becomes a release of helm, as docs/install.md says, and goes like any other."""

from __future__ import annotations

import pytest

from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.helm.fixtures import Helm
from tests.beds.manifests import MANIFESTS
from tests.tools.chart.made import CHART

pytestmark = pytest.mark.real

FLAGS = ("--take-ownership", "--force-conflicts")
RELEASE = ("kruise-ds", "--namespace", "kruise-ds-system")
KINDS = "crds,validatingadmissionpolicies,clusterroles,deployments"
KEPT = {
    "customresourcedefinition.apiextensions.k8s.io/daemonsets.apps.kruise.io",
    "validatingadmissionpolicy.admissionregistration.k8s.io/kruise-ds-warnings",
}


async def test_helm_takes_over_what_kubectl_has_installed(control_plane_binaries: Binaries, helm: Helm) -> None:
    said = (MANIFESTS.parent / "docs" / "install.md").read_text()
    assert all(f"`{flag}`" in said for flag in FLAGS)
    async with ControlPlane(control_plane_binaries, controllers=()) as plane:

        async def kubectl(*words: str) -> str:
            done = await plane.run_kubectl(*words)
            assert (done.returncode, done.stderr) == (0, "")
            return done.stdout

        async def there() -> set[str]:
            return {one for one in (await kubectl("get", KINDS, "-A", "-o", "name")).split() if "kruise" in one}

        await kubectl("apply", "--server-side", "-k", str(MANIFESTS / "overlays" / "default"))
        before = await there()
        done = helm("install", *RELEASE, str(CHART), *FLAGS, kubeconfig=plane.kubeconfig)
        assert done.returncode == 0, done.stderr
        assert await there() == before > KEPT
        done = helm("uninstall", *RELEASE, kubeconfig=plane.kubeconfig)
        assert (done.returncode, done.stderr) == (0, "")
        assert await there() == KEPT
