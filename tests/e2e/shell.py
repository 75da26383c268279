"""What the documents tell people to type, in a shell, with the programs of this repository."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tests.beds.control_plane import ControlPlane
from tests.beds.manifests import MANIFESTS

HERE = MANIFESTS.parent
"""The folder that the documents' commands are typed in."""


async def sh(plane: ControlPlane, script: str, folder: Path = HERE, *, kubectl: Path | None = None) -> str:
    """Run it as the administrator of `plane`; it must succeed without a warning. Returns what it prints. `kubectl` is
    another one than the control plane's."""
    programs = [str((kubectl or plane.kubectl).parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    env = {
        **os.environ,
        "PATH": os.pathsep.join(programs),
        "KUBECONFIG": str(plane.kubeconfig),
        "KUBECTL_KUBERC": "false",
    }
    process = await asyncio.create_subprocess_shell(
        script, cwd=folder, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(120):
        out, err = await process.communicate()
    assert process.returncode == 0, f"{script}: exit {process.returncode}\n{out.decode()}{err.decode()}"
    assert b"Warning" not in err, f"{script}: {err.decode()}"
    return out.decode()
