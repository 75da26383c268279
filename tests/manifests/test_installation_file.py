"""The installation file, the overlays that the documents show, and what platforms ask beyond what any server does."""

from __future__ import annotations

import json
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
from tests.tools.install_yaml import INSTALL, install_file, kustomized, overlays, with_image

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
    control_plane_binaries: Binaries, tmp_path: Path
) -> None:
    controllers = ("deployment-controller", "replicaset-controller", "resourcequota-controller")
    async with ControlPlane(control_plane_binaries, controllers=controllers) as plane:
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


GUIDE = MANIFESTS.parent / "docs" / "upgrade.md"


def test_the_overlay_that_is_shown_sets_the_image(control_plane_binaries: Binaries, tmp_path: Path) -> None:
    (shown,) = re.findall(r"^    apiVersion: kustomize(?:.*\n    )*.*", GUIDE.read_text(), re.MULTILINE)
    manifests = tmp_path / "manifests"
    shutil.copytree(MANIFESTS, manifests)
    ours = manifests / "overlays" / "ours"
    ours.mkdir()
    (ours / "kustomization.yaml").write_text(re.sub("^    ", "", shown, flags=re.MULTILINE))
    built = kustomized(control_plane_binaries.kubectl, ours)
    assert re.findall("image: (.*)", built) == ["registry.internal.example/kruise-ds:v0.1.0"]


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


async def test_critical_pods_start_where_only_a_quota_lets_them(
    control_plane_binaries: Binaries, tmp_path: Path
) -> None:
    controllers = ("deployment-controller", "replicaset-controller", "resourcequota-controller")
    flag = f"--admission-control-config-file={admission(tmp_path)}"
    async with ControlPlane(control_plane_binaries, controllers=controllers, apiserver_flags=[flag]) as plane:
        done = await plane.run_kubectl("apply", "--server-side", "-k", str(MANIFESTS / "overlays" / "default"))
        assert done.returncode == 0, done.stderr
        async with open_transport(await load(str(plane.kubeconfig), None)) as transport:
            made = Api(transport, NAMESPACE)
            pods = await made.wait_for(PODS, lambda found: len(found) == 2, "both replicas are admitted")
            assert {pod["spec"]["priorityClassName"] for pod in pods} == {CLASS}
            critical = json.dumps({"spec": {"priorityClassName": CLASS}})
            refused = await plane.run_kubectl("run", "tried", "--image=tried", f"--overrides={critical}")
            assert "insufficient quota to match these scopes" in refused.stderr, "the server does ask for one"
