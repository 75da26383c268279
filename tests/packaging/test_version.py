"""One version of ours, and one oldest Kubernetes, wherever they are named; and the packages of that version."""

from __future__ import annotations

import re
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest

from kubectl_plugin.rollout.doctor_checks import OLDEST_CLUSTER
from tests.beds.control_plane.binaries import OTHERS, pinned_version, wanted_version
from tests.beds.manifests import MANIFESTS
from tests.tools.packages import OURS, ROOT, packages

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION: str = PROJECT["version"]
TOLD = re.compile(r"(?:kruise[-_]ds[:_-]|releases/|newTag: |VERSION=|appVersion: |\nversion: )v?(\d+\.\d+\.\d+)")
"""In the name of an image, an archive or a folder, where the version is set, and that of the chart."""
FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("Containerfile", ".krew.yaml", "README.md", "docs/**/*.md", "manifests/**/*.yaml")
    for path in ROOT.glob(pattern)
    if TOLD.search(path.read_text())
)


def others(text: str) -> Iterator[str]:
    for found in TOLD.finditer(text):
        if found[1] != VERSION:
            yield found[0]


def test_image_manifests_chart_and_krew_are_among_what_is_read() -> None:
    read = {
        "Containerfile",
        ".krew.yaml",
        "docs/install.md",
        "manifests/base/deployment.yaml",
        "manifests/chart/Chart.yaml",
    }
    assert read <= set(FILES)


@pytest.mark.parametrize("file", FILES)
def test_it_names_the_version_that_we_have(file: str) -> None:
    assert list(others((ROOT / file).read_text())) == []


def test_another_version_is_reported() -> None:
    assert list(others(f"image: registry.example.com/kruise-ds:v{VERSION}0")) == [f"kruise-ds:v{VERSION}0"]


INSTALL = (ROOT / "docs" / "install.md").read_text()
OLDEST = ".".join(map(str, OLDEST_CLUSTER))


def test_the_oldest_that_the_doctor_accepts_is_tried() -> None:
    assert min(OTHERS, key=lambda minor: int(minor.split(".")[1])) == OLDEST


def test_the_table_of_versions_has_just_those_that_are_tried() -> None:
    rows = re.findall(r"^\| (1\.\d+\.\d+) \|", INSTALL, re.MULTILINE)
    assert [f"v{version}" for version in rows] == sorted(
        [pinned_version(), *(wanted_version({"KUBERNETES_VERSION": minor}) for minor in OTHERS)]
    )


def test_documents_and_manifests_say_the_same_number() -> None:
    for page in (INSTALL, (ROOT / "README.md").read_text()):
        assert re.findall(r"Kubernetes (1\.\d+) or newer", page) == [OLDEST]
    chart = (MANIFESTS / "chart" / "Chart.yaml").read_text()
    assert re.findall(r'^kubeVersion: ">=(1\.\d+)\.0-0"', chart, re.MULTILINE) == [OLDEST]
    said = {
        path.relative_to(ROOT).as_posix(): re.findall(r"Needs Kubernetes (1\.\d+)", path.read_text())
        for path in MANIFESTS.rglob("*.yaml")
    }
    assert {path: found for path, found in said.items() if found and found != [OLDEST]} == {}
    assert any(said.values()), "the comments are worded as this test looks for them"


NAME = f"kruise_ds-{PROJECT['version']}"
CODE = {path.relative_to(ROOT).as_posix() for part in OURS for path in (ROOT / part).rglob("*.py")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {path.name: path for path in packages(tmp_path_factory.mktemp("packages"))}


def test_they_are_called_as_the_index_wants_them(made: dict[str, Path]) -> None:
    assert set(made) == {f"{NAME}.tar.gz", f"{NAME}-py3-none-any.whl"}


def test_the_wheel_has_our_code_and_no_tests(made: dict[str, Path]) -> None:
    with zipfile.ZipFile(made[f"{NAME}-py3-none-any.whl"]) as wheel:
        names = {name for name in wheel.namelist() if not name.startswith(f"{NAME}.dist-info/")}
        programs = ConfigParser()
        programs.read_string(wheel.read(f"{NAME}.dist-info/entry_points.txt").decode())
        assert f"{NAME}.dist-info/licenses/LICENSE" in wheel.namelist()
    assert names == CODE
    assert dict(programs["console_scripts"]) == PROJECT["scripts"]


def test_the_sdist_has_what_the_wheel_is_made_of(made: dict[str, Path]) -> None:
    with tarfile.open(made[f"{NAME}.tar.gz"]) as sdist:
        names = {name.removeprefix(f"{NAME}/") for name in sdist.getnames()}
    assert CODE | {"pyproject.toml", "README.md", "LICENSE"} <= names
    assert not [name for name in names if name.startswith("tests")]
