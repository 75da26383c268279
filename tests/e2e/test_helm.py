"""The chart on a real cluster, by the commands of docs/install.md: what is left when it is gone, and comes again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.helm.fixtures import Helm
from tests.beds.manifests import MANIFESTS
from tests.beds.rights import NAMESPACE
from tests.e2e.conftest import bare_plane
from tests.e2e.guide import DOCS, sections
from tests.e2e.site import SITE_CONTROLLERS, Site, site_on

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


class Story:
    """A site on which helm is used by the commands of the document, and whose pods are looked at in between."""

    def __init__(self, plane: ControlPlane, helm: Helm, site: Site) -> None:
        self._plane, self._helm, self._site, self._bed = plane, helm, site, site.bed
        self._before: dict[str, tuple[str, int]] = {}

    async def typed(self, *lines: str, chart: Path = MANIFESTS / "chart") -> None:
        for line in lines:
            await typed(self._plane, self._helm, line, chart)

    async def begins(self) -> None:
        await self.typed(INSTALL[-1])
        await self._site.workers(*NODES)
        await self._bed.apply_sample("ds.demo.yaml")
        await self._settled()
        self._before = await self._site.pods()

    async def is_upgraded(self, chart: Path) -> None:
        await self.typed(AFTERWARDS[0], INSTALL[-1], chart=chart)
        assert "From the future." in await self._bed.kubectl("get", CRD, "-o", "yaml"), "the CRD is upgraded too"
        images = {one.container["image"] for one in await self._site.replicas()}
        assert images == {"registry.internal.example/kruise-ds:v0.1.1"}, "what was set at first still holds"

    async def is_uninstalled(self) -> None:
        await self.typed(AFTERWARDS[1])
        assert await self._bed.kubectl("-n", NAMESPACE, "get", "deployments", "-o", "name") == ""
        await self._bed.kubectl("get", CRD, *(f"{kind}/kruise-ds-warnings" for kind in POLICY))
        assert "demo" in await self._bed.kubectl("get", "ads"), "the objects stay"
        assert await self._site.pods() == self._before, "and their pods"

    async def comes_anew(self, lost: str) -> set[str]:
        """The nodes whose pods are others than at first, after that of `lost` was deleted too."""
        await self._bed.kubectl("delete", "pod", (await self._bed.live(lost))["metadata"]["name"])
        await self._settled()
        after = await self._site.pods()
        return {node for node in NODES if after[node] != self._before[node]}

    async def _settled(self) -> None:
        await self._bed.serves(*NODES)
        await self._bed.settled(len(NODES))


async def test_uninstalling_keeps_crd_and_pods_and_installing_again_goes_on(
    complete_binaries: Binaries, helm: Helm, tmp_path: Path
) -> None:
    async with bare_plane(complete_binaries) as plane:
        for line in INSTALL[:-1]:
            await typed(plane, helm, line)
        await plane.start_controller_manager(SITE_CONTROLLERS)
        async with site_on(plane) as site:
            story = Story(plane, helm, site)
            await story.begins()
            await story.is_upgraded(newer(tmp_path))
            await story.is_uninstalled()
            await story.typed(*INSTALL)
            assert await story.comes_anew("one") == {"one"}, "only a lost pod comes anew"
