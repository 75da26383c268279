"""`kubectl kruise-ds` as people run it: the real kubectl finds the installed program on the path. Or one that waits
for every answer, as it would get them at once on a machine that is not busy: for what the plugin only asks beside
its work it has a second (`reads.HURRY`), and does without where no answer comes in time."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.beds.control_plane.access import run_to_end

PROGRAMS = Path(sys.executable).parent
"""Where `kubectl-kruise_ds` is installed."""


@dataclass(frozen=True)
class Ran:
    """How one call ended, and what it said."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"kubectl kruise-ds {' '.join(self.words)}: exit {self.code}\n{self.out}{self.err}"


@dataclass(frozen=True)
class Plugin:
    """kubectl with one kubeconfig; its commands are for one namespace unless they say otherwise."""

    kubectl: Path
    kubeconfig: Path
    namespace: str
    programs: Path = PROGRAMS

    async def run(
        self, *words: str, stdin: str | None = None, seconds: float = 90.0, env: Mapping[str, str] | None = None
    ) -> Ran:
        """Run one command to its end, in a pipe as in a CI job."""
        whole = {
            **os.environ,
            "PATH": os.pathsep.join((str(self.programs), str(self.kubectl.parent), os.environ["PATH"])),
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECTL_KUBERC": "false",
            "COLUMNS": "120",
            **(env or {}),
        }
        command = (str(self.kubectl), "kruise-ds", *words, f"--namespace={self.namespace}")
        return Ran(words, *await run_to_end(command, whole, stdin=stdin, seconds=seconds))

    async def ok(self, *words: str, seconds: float = 90.0) -> str:
        """The same; it must succeed, and no traceback may have been printed. Returns stdout."""
        ran = await self.run(*words, seconds=seconds)
        assert ran.code == 0, str(ran)
        assert "Traceback" not in ran.err, str(ran)
        return ran.out


_CODE: Final = """
from kubectl_plugin.cluster import reads
from kubectl_plugin.main import main
reads.HURRY = 60.0
main()
"""
PROGRAM: Final = (sys.executable, "-c", _CODE)
"""In place of `python -m kubectl_plugin`."""


def programs_in(folder: Path) -> Path:
    """Put it there under the name by which kubectl finds it; returns the folder."""
    program = folder / "kubectl-kruise_ds"
    program.write_text(f"#!{sys.executable}{_CODE}")
    program.chmod(0o755)
    return folder
