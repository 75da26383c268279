"""The chart on a real cluster, by the commands of docs/install.md: what is left when it is gone, and comes again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.beds.audit import NAMESPACE
from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.fixtures import Helm
from tests.beds.manifests import MANIFESTS
from tests.e2e.conftest import bare_plane
from tests.e2e.guide import DOCS, sections
from tests.e2e.site import SITE_CONTROLLERS, site_on

pytestmark = pytest.mark.real

NODES = ("one", "two", "three")
INSTALL, AFTERWARDS = sections(DOCS / "install.md")["Helm"]
CRD = "crd/daemonsets.apps.kruise.io"
POLICY = ("validatingadmissionpolicy", "validatingadmissionpolicybinding")


async def typed(plane: ControlPlane, helm: Helm, line: str, chart: Path = MANIFESTS / "chart") -> None:
    """Run a line of the document."""
    program, *words = (str(chart) if word == "manifests/chart" else word for word in line.split())
    if program == "helm":
        done = helm(*words, kubeconfig=plane.kubeconfig)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        assert "WARNING" not in done.stderr.upper(), done.stderr
    else:
        result = await plane.run_kubectl(*words)
        assert (result.returncode, result.stderr) == (0, ""), line


def newer(folder: Path) -> Path:
    """The chart of a release with another image and another text in the CRD."""
    chart = Path(shutil.copytree(MANIFESTS / "chart", folder / "chart"))
    for name, was, now in (
        ("Chart.yaml", "appVersion: v0.1.0", "appVersion: v0.1.1"),
        ("templates/customresourcedefinition.yaml", "'Required. Which pods", "'From the future. Which pods"),
    ):
        text = (chart / name).read_text()
        assert was in text, name
        (chart / name).write_text(text.replace(was, now))
    return chart


async def test_uninstalling_keeps_crd_and_pods_and_installing_again_goes_on(
    control_plane_binaries: Binaries, helm: Helm, tmp_path: Path
) -> None:
    async with bare_plane(control_plane_binaries) as plane:
        for line in INSTALL[:-1]:
            await typed(plane, helm, line)
        await plane.start_controller_manager(SITE_CONTROLLERS)
        async with site_on(plane) as site:
            bed = site.bed
            await typed(plane, helm, INSTALL[-1])
            await site.workers(*NODES)
            await bed.apply_sample("ds.demo.yaml")
            await bed.settled(len(NODES))
            before = await site.pods()

            chart = newer(tmp_path)
            for line in (AFTERWARDS[0], INSTALL[-1]):
                await typed(plane, helm, line, chart)
            assert "From the future." in await bed.kubectl("get", CRD, "-o", "yaml"), "the CRD is upgraded too"
            images = {one.container["image"] for one in await site.replicas()}
            assert images == {"registry.internal.example/kruise-ds:v0.1.1"}, "what was set at first still holds"

            await typed(plane, helm, AFTERWARDS[1])
            assert await bed.kubectl("-n", NAMESPACE, "get", "deployments", "-o", "name") == ""
            await bed.kubectl("get", CRD, *(f"{kind}/kruise-ds-warnings" for kind in POLICY))
            assert "demo" in await bed.kubectl("get", "ads"), "the objects stay"
            assert await site.pods() == before, "and their pods"

            for line in INSTALL:
                await typed(plane, helm, line)
            await bed.kubectl("delete", "pod", (await bed.live("one"))["metadata"]["name"])
            await bed.serves(*NODES)
            await bed.settled(len(NODES))
            after = await site.pods()
            assert {node for node in NODES if after[node] != before[node]} == {"one"}, "only the lost pod is new"
