"""The documents' commands, by section: what they say to type is what the tests run."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

from tests.beds.control_plane import ControlPlane
from tests.beds.manifests import MANIFESTS

HERE = MANIFESTS.parent
"""The folder that the documents' commands are typed in."""
DOCS = HERE / "docs"
GUIDE = DOCS / "upgrade.md"
MIGRATION = DOCS / "migrate.md"
MAINTENANCE = DOCS / "node-maintenance.md"
SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sections(guide: Path = GUIDE) -> dict[str, list[list[str]]]:
    """Title to the section's blocks, each as its lines."""
    _, *parts = SECTION.split(guide.read_text())
    texts = zip(parts[::2], parts[1::2], strict=True)
    return {title: [block.splitlines() for block in BLOCK.findall(text)] for title, text in texts}


def commands(title: str, guide: Path = GUIDE) -> list[str]:
    """The commands of the one section whose title begins so."""
    (blocks,) = [blocks for full, blocks in sections(guide).items() if full.startswith(title)]
    return [line for block in blocks for line in block]


async def sh(plane: ControlPlane, script: str, folder: Path = HERE, *, kubectl: Path | None = None) -> str:
    """Run it in a shell as the administrator of `plane`; it must succeed without a warning. Returns what it prints.
    `kubectl` is another one than the control plane's."""
    programs = [str((kubectl or plane.kubectl).parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    env = {**os.environ, "PATH": os.pathsep.join(programs), "KUBECONFIG": str(plane.kubeconfig)}
    process = await asyncio.create_subprocess_shell(
        script,
        cwd=folder,
        env={**env, "KUBECTL_KUBERC": "false"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(120):
        out, err = await process.communicate()
    assert process.returncode == 0, f"{script}: exit {process.returncode}\n{out.decode()}{err.decode()}"
    assert b"Warning" not in err, f"{script}: {err.decode()}"
    return out.decode()
