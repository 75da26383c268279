"""The overlay that docs/upgrade.md tells people to write builds, with their image in it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.beds.control_plane import Binaries
from tests.beds.manifests import MANIFESTS
from tests.tools.install_yaml import kustomized

GUIDE = MANIFESTS.parent / "docs" / "upgrade.md"


@pytest.mark.real
def test_the_overlay_that_is_shown_sets_the_image(control_plane_binaries: Binaries, tmp_path: Path) -> None:
    (shown,) = re.findall(r"^    apiVersion: kustomize(?:.*\n    )*.*", GUIDE.read_text(), re.MULTILINE)
    manifests = tmp_path / "manifests"
    shutil.copytree(MANIFESTS, manifests)
    ours = manifests / "overlays" / "ours"
    ours.mkdir()
    (ours / "kustomization.yaml").write_text(re.sub("^    ", "", shown, flags=re.MULTILINE))
    built = kustomized(control_plane_binaries.kubectl, ours)
    assert re.findall("image: (.*)", built) == ["registry.internal.example/kruise-ds:v0.1.0"]
