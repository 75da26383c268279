"""The bundle holds what the manual of the air gap names, and its checksums are right."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.beds.control_plane import Binaries
from tests.tools.bundle.content import rendered, sources, with_checksums
from tests.tools.install_yaml import overlays


def test_manifests_alerts_dashboards_and_manuals_go_along() -> None:
    for path in (
        "manifests/install.yaml",
        "manifests/crds/daemonsets.apps.kruise.io.yaml",
        "manifests/overlays/airgap/kustomization.yaml",
        "manifests/alerts/rules.yaml",
        "manifests/grafana/rollouts.json",
        "docs/air-gap.md",
        "requirements-runtime.lock",
    ):
        assert path in sources(), path


@pytest.mark.real
def test_every_overlay_is_there_as_one_file(control_plane_binaries: Binaries) -> None:
    made = rendered(control_plane_binaries.kubectl)
    assert made.keys() == {f"rendered/{name}.yaml" for name in overlays()}
    assert all(b"kind: Deployment" in content for content in made.values())


def test_its_checksums_are_right(tmp_path: Path) -> None:
    for name, content in with_checksums({"a.txt": b"a", "b/c.txt": b"c"}, "top").items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    done = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path / "top", text=True)
    assert done.returncode == 0
