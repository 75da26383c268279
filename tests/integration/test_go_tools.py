"""Programs that a go.mod of their own pins, and files of published modules: from the cache, by Go, or not at all."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.beds.control_plane.golang import obtain_go_tool
from tests.beds.control_plane.gomodule import GoModule
from tests.beds.control_plane.sources import Unavailable

GO_MOD = """\
module example.test/one

tool example.com/some/program/v2/cmd/it

require (
	example.com/some v0.1.0 // indirect
	example.com/some/program/v2 v2.3.4 // indirect
)
"""


def executable(path: Path, script: str = "") -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (tmp_path / "go.mod").write_text(GO_MOD)
    return tmp_path


def test_the_cache_is_asked_for_the_version_that_go_mod_pins(module: Path) -> None:
    kept = executable(module / ".cache/kruise-ds/it/v2.3.4/it")
    assert obtain_go_tool(module, "it", environ={"HOME": str(module)}) == kept


def test_another_version_in_the_cache_and_a_failed_build_are_reported(module: Path) -> None:
    executable(module / ".cache/kruise-ds/it/v2.3.3/it")
    executable(
        module / "bin/go", "case $1 in version) echo go version go1.26.0 x;; *) echo a reason >&2; exit 1;; esac"
    )
    said: list[str] = []
    environ = {"HOME": str(module), "PATH": f"{module / 'bin'}:/usr/bin:/bin"}
    with pytest.raises(Unavailable) as refused:
        obtain_go_tool(module, "it", environ=environ, progress=said.append)
    told = str(refused.value)
    assert told.startswith(
        f"it cannot be had: the cache: there is no {module}/.cache/kruise-ds/it/v2.3.4/it; the Go build: "
    )
    assert told.endswith("a reason")
    assert "building it v2.3.4 from source" in said[0]


def test_a_tool_whose_module_is_not_required_is_a_fault_of_ours(module: Path) -> None:
    (module / "go.mod").write_text("module x\n\ntool example.com/some\n")
    with pytest.raises(LookupError, match="the module of"):
        obtain_go_tool(module, "it", environ={"HOME": str(module)})


MODULE = GoModule("example.com/some", "v1.2.3", "h1:right", ("crds", "LICENSE"))


def with_go(folder: Path, **told: str) -> Mapping[str, str]:
    """An environment whose Go has downloaded a module; `told` is what it says of it."""
    there = folder / "modules"
    (there / "crds").mkdir(parents=True)
    (there / "crds" / "one.yaml").write_text("kind: One")
    (there / "LICENSE").write_text("free")
    (there / "LICENSE").chmod(0o444)
    answer = json.dumps({"Dir": str(there), "Sum": "h1:right"} | told)
    ends = "echo '" + answer + "'; exit " + ("1" if "Error" in told else "0")
    executable(folder / "bin/go", f"case $1 in version) echo go version go1.26.0 x;; *) {ends};; esac")
    return {"HOME": str(folder), "PATH": f"{folder / 'bin'}:/usr/bin:/bin"}


def test_files_of_a_module_are_fetched_once(tmp_path: Path) -> None:
    environ = with_go(tmp_path)
    found = MODULE.obtain(environ=environ, progress=lambda line: None)
    assert (found / "crds" / "one.yaml").read_text() == "kind: One"
    (tmp_path / "bin/go").unlink()
    assert MODULE.obtain(environ=environ, progress=lambda line: None) == found


@pytest.mark.parametrize(
    ("told", "reason"),
    [({"Sum": "h1:other"}, "it is another one than it was: h1:other"), ({"Error": "no network"}, "no network")],
    ids=["another checksum", "an error"],
)
def test_a_module_that_is_not_to_be_had_is_reported(tmp_path: Path, told: dict[str, str], reason: str) -> None:
    with pytest.raises(Unavailable, match=reason):
        MODULE.obtain(environ=with_go(tmp_path, **told), progress=lambda line: None)
