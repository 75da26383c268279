"""What Flux and Argo CD make of our objects, by their own code: kstatus, and the health script in the Lua of Argo CD.

The program beside this file runs both. Argo CD's own function around the script is in a package that takes in all of
kubectl, so the two rules of it (about objects that are being deleted, and about errors) are written again there.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tests.beds.api import Object
from tests.beds.control_plane.golang import obtain_go_tool
from tests.beds.control_plane.gomodule import GoModule

SCRIPT: Final = "resource_customizations/apps.kruise.io/DaemonSet/health.lua"
ARGO_CD: Final = GoModule(
    "github.com/argoproj/argo-cd/v3", "v3.5.0", "h1:iqnPFSKaQ0l3hREMH2Rk55VDcxrvBFaSO0g9bifZKzc=", (SCRIPT,)
)
"""Its script is that of v3.1.0 and of v3.6.1, the newest."""


class Verdict(NamedTuple):
    """Of kstatus (`Current`, …), or the health that a script gives (`Healthy`, …); `Unknown` where one fails."""

    status: str
    message: str


class Verdicts(NamedTuple):
    flux: Verdict
    argo_cd: Verdict
    ours: Verdict
    """By the script that a caller brings."""


@dataclass(frozen=True, slots=True)
class GitOps:
    program: Path
    shipped: Path
    """Argo CD's script for OpenKruise's DaemonSets."""

    def judge(self, objects: Sequence[Object], script: Path) -> list[Verdicts]:
        """Of each object, which needs `apiVersion` and `kind`; Argo CD's verdict also by another script."""
        lines = b"\n".join(map(msgspec.json.encode, objects))
        command = [str(self.program), str(self.shipped), str(script)]
        done = subprocess.run(command, input=lines, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode()
        told = [msgspec.json.decode(line, type=list[dict[str, str]]) for line in done.stdout.splitlines()]
        return [Verdicts(*(Verdict(**one) for one in verdicts)) for verdicts in told]


def obtain_gitops() -> GitOps:
    """Built and fetched when the cache has none; raises Unavailable."""
    return GitOps(obtain_go_tool(Path(__file__).parent, "gitops"), ARGO_CD.obtain() / SCRIPT)
