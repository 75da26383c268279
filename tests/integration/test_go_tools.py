"""Finding the programs that a go.mod of their own pins: in the cache by that version, or built, or not at all."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.beds.control_plane.golang import GoToolUnavailable, obtain_go_tool

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
    with pytest.raises(GoToolUnavailable) as refused:
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
