"""What kubectl, as a program of this machine, says of its version."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubectl_plugin.commands.doctor import SHADOW, installed_programs
from kubectl_plugin.errors import NoAnswer
from kubectl_plugin.host import COMPLETION, PLUGIN, Host
from tests.beds.programs import program


async def test_all_there(tmp_path: Path) -> None:
    program(tmp_path, "kubectl", """echo '{"clientVersion": {"gitVersion": "v1.36.3"}}'""")
    paths = [program(tmp_path, name) for name in (PLUGIN, COMPLETION, SHADOW)]
    found = await installed_programs(Host({"PATH": str(tmp_path)}))
    assert found.kubectl == "v1.36.3"
    assert [found.plugin, found.completion, found.shadow] == paths


@pytest.mark.parametrize("script", ["echo nonsense", "echo '{}'", "echo []", "exit 1"])
async def test_a_kubectl_that_says_no_version(tmp_path: Path, script: str) -> None:
    path = program(tmp_path, "kubectl", script)
    assert (await installed_programs(Host({"PATH": str(tmp_path)}))).kubectl == NoAnswer(f"{path} does not say")
