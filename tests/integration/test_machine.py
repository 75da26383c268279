"""What kubectl, as a program of this machine, says of its version."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubectl_plugin import local_install
from kubectl_plugin.errors import NoAnswer
from kubectl_plugin.host import Host
from kubectl_plugin.local_install import look_around
from tests.unit.kubectl_plugin.test_local_install import program


async def test_all_there(tmp_path: Path) -> None:
    program(tmp_path, "kubectl", """echo '{"clientVersion": {"gitVersion": "v1.36.3"}}'""")
    paths = [
        program(tmp_path, name) for name in (local_install.PLUGIN, local_install.COMPLETION, local_install.SHADOW)
    ]
    found = await look_around(Host({"PATH": str(tmp_path)}))
    assert found.kubectl == "v1.36.3"
    assert [found.plugin, found.completion, found.shadow] == paths


@pytest.mark.parametrize("script", ["echo nonsense", "echo '{}'", "echo []", "exit 1"])
async def test_a_kubectl_that_says_no_version(tmp_path: Path, script: str) -> None:
    path = program(tmp_path, "kubectl", script)
    assert (await look_around(Host({"PATH": str(tmp_path)}))).kubectl == NoAnswer(f"{path} does not say")
