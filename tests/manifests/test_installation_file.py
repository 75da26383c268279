"""The installation file: up to date, with its own image for a release, and never one that could be moved."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.kube.config import load
from controller.kube.transport import open_transport
from tests.beds.api import PODS, Api
from tests.beds.audit import NAMESPACE, Right, granted
from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.manifests import MANIFESTS, documents
from tests.tools.install_yaml import INSTALL, install_file, overlays, with_image

pytestmark = pytest.mark.real


def test_the_installation_file_is_up_to_date(control_plane_binaries: Binaries) -> None:
    fresh = install_file(control_plane_binaries.kubectl)
    assert INSTALL.read_text() == fresh, (
        "manifests/install.yaml is not what overlays/default gives: run `make manifests`"
    )


def test_a_releases_installation_file_differs_in_its_image_alone() -> None:
    text, image = INSTALL.read_text(), f"ghcr.io/someone/kruise-ds:v0.1.0@sha256:{'0a' * 32}"
    lines = list(zip(text.splitlines(), with_image(text, image).splitlines(), strict=True))
    ((was, now),) = [(was, now) for was, now in lines if was != now]
    assert was.partition("image: ")[0] == now.partition("image: ")[0]
    assert now.partition("image: ")[2] == image


@pytest.mark.parametrize("image", ["", "kruise-ds", "ghcr.io/a/b:v1.0.0", f"ghcr.io/a/b@sha256:{'0a' * 32}"])
def test_an_image_that_can_be_moved_or_hides_its_version_is_refused(image: str) -> None:
    with pytest.raises(ValueError, match="is not NAME:vVERSION@sha256:DIGEST"):
        with_image(INSTALL.read_text(), image)


def test_an_installation_file_without_the_placeholder_is_refused() -> None:
    with pytest.raises(ValueError, match="0 times"):
        with_image("        image: elsewhere/kruise-ds:v0.1.0\n", f"ghcr.io/a/b:v1@sha256:{'0a' * 32}")


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


TABLE = MANIFESTS.parent / "docs" / "security.md"


def told() -> Iterator[Right]:
    """Each right that the table names, as often as it does."""
    for line in TABLE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0] not in ("scope", "---"):
            _, group, resource, verbs, _ = cells
            for verb in verbs.split(", "):
                yield Right("" if group == "core" else group, resource, verb)


@pytest.mark.parametrize("overlay", overlays())
def test_the_manifests_grant_what_the_table_tells_and_nothing_else(build: Callable[[str], str], overlay: str) -> None:
    assert granted(documents(build(f"overlays/{overlay}"))) == set(told())


def test_the_table_tells_each_right_once() -> None:
    assert len(list(told())) == len(set(told()))


@pytest.mark.parametrize("overlay", ["default", "namespaced"])
def test_no_right_is_a_wildcard_and_none_reaches_secrets(build: Callable[[str], str], overlay: str) -> None:
    for right in granted(documents(build(f"overlays/{overlay}"))):
        assert "*" not in right
        assert right.resource not in ("secrets", "configmaps", "serviceaccounts/token", "pods/exec")
        assert right.verb not in ("escalate", "bind", "impersonate")
