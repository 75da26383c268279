"""What goes to the package index: a wheel that is made of the sdist, with all of both programs and nothing else."""

from __future__ import annotations

import tarfile
import tomllib
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.tools.packages import OURS, ROOT, packages

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
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
