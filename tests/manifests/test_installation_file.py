"""The installation file: up to date, with its own image for a release, and never one that could be moved."""

from __future__ import annotations

import pytest

from tests.beds.control_plane import Binaries
from tests.tools.install_yaml import INSTALL, install_file, with_image

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
