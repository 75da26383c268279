"""docs/demo-on-kind.md, typed block by block; what kind and docker would do is done to nodes of our own."""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import yaml

from tests.beds.control_plane.access import run_to_end
from tests.beds.installed.plugin import PROGRAMS
from tests.beds.manifests import MANIFESTS
from tests.beds.real_node.node import LONG
from tests.beds.real_node.workloads import installed
from tests.real_node.bed import Bed

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

ROOT = MANIFESTS.parent
BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = ("docker", "kind", "make", "python")
"""Programs that are not run here: each prints how it was called."""


class Terminal:
    """A shell in the folder of the sources, whose kubectl is in the test's namespace."""

    def __init__(self, bed: Bed, folder: Path) -> None:
        for name in ELSEWHERE:
            (folder / name).write_text('#!/bin/sh\necho "${0##*/} $*"\n')
            (folder / name).chmod(0o755)
        kubeconfig = yaml.safe_load(bed.ours.plane.kubeconfig.read_text())
        for context in kubeconfig["contexts"]:
            context["context"]["namespace"] = bed.namespace
        (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
        path = (folder, PROGRAMS, bed.ours.plane.kubectl.parent, os.environ["PATH"])
        self._env = {**os.environ, "PATH": ":".join(map(str, path)), "KUBECONFIG": str(folder / "kubeconfig")}

    async def typed(self, block: str) -> str:
        """What the block prints; each of its lines must succeed."""
        lines = f"cd {ROOT}\n{block.replace('.venv/bin/python', 'python')}"
        code, out, err = await run_to_end(("sh", "-ec", lines), self._env, seconds=2 * LONG)
        assert code == 0, f"{block}: exit {code}\n{out}{err}"
        return out


async def test_the_demo_on_kind_goes_as_the_guide_says(
    bed: Bed, controller_image: Path | None, tmp_path: Path
) -> None:
    nodes = bed.ours.nodes
    assert controller_image is not None
    async with asyncio.TaskGroup() as loading:
        for node in nodes.values():
            loading.create_task(node.load(controller_image))
    terminal, said = Terminal(bed, tmp_path), list[str]()
    async with installed(bed.ours), AsyncExitStack() as off:
        for block in BLOCK.findall((ROOT / "docs" / "demo-on-kind.md").read_text()):
            said.append(await terminal.typed(block))
            match said[-1].split():
                case ["docker", "kill", name]:
                    await off.enter_async_context(nodes[name].without_power())
                case ["docker", "start", *_]:
                    await off.aclose()
            if "status agent" in block:
                assert "3 of 3 nodes" in said[-1]
    assert any(one.startswith("docker kill") for one in said)
    assert any(one.startswith("docker start") for one in said)
