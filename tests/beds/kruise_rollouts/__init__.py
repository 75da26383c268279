"""kruise-rollouts, OpenKruise's progressive delivery: its real manager, with its own manifests and examples.

It has the rights of its own ClusterRole, and its webhooks are on.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from tests.beds.api import Object
from tests.beds.control_plane import ControlPlane, Process, service_account
from tests.beds.control_plane.access import get
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.control_plane.golang import obtain_go_tool
from tests.beds.control_plane.gomodule import GoModule
from tests.beds.control_plane.processes import free_port
from tests.beds.manifests import documents

MODULE: Final = GoModule(
    "github.com/openkruise/rollouts",
    "v0.6.2",
    "h1:fRhRnFa+tyReN6TXxQJ4913rtjDTt2Fc7b0QStHRd3k=",
    ("config", "test/e2e/test_data/rollout"),
)
NAMESPACE: Final = "kruise-rollout"
ACCOUNT: Final = service_account(NAMESPACE, "kruise-rollout-controller-manager")
PATIENCE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Rollouts:
    """The program, and the folder of its module's files."""

    program: Path
    files: Path

    def example(self, name: str) -> Object:
        """A manifest that its own tests of DaemonSets use."""
        document: Object = yaml.safe_load((self.files / "test/e2e/test_data/rollout" / name).read_text())
        return document


def obtain_rollouts() -> Rollouts:
    """Both, built or fetched when the cache has none; raises Unavailable."""
    return Rollouts(obtain_go_tool(Path(__file__).parent, "rollouts"), MODULE.obtain())


class Manager:
    """One manager, which may be stopped and started again at the same address."""

    def __init__(self, plane: ControlPlane, rollouts: Rollouts, certificates: Path) -> None:
        self._plane, self._program, self._certificates = plane, rollouts.program, certificates
        self._webhooks, self._health = free_port(), free_port()
        self._starts = 0

    async def start(self) -> None:
        """Start it, and wait until it runs and its webhooks answer."""
        self._starts += 1
        flags = ["--metrics-bind-address=0", f"--health-probe-bind-address={LOOPBACK}:{self._health}"]
        env = {
            **os.environ,
            "KUBECONFIG": str(self._plane.kubeconfig_for(ACCOUNT)),
            "POD_NAMESPACE": NAMESPACE,
            "WEBHOOK_HOST": LOOPBACK,
            "WEBHOOK_PORT": str(self._webhooks),
            "WEBHOOK_CERT_DIR": str(self._certificates),
        }
        name = f"kruise-rollouts-{self._starts}"
        self.process = Process(name, [self._program, *flags], folder=self._plane.folder, env=env)
        await self.process.until(self._answers, what="ready", seconds=PATIENCE)

    async def restart(self) -> None:
        """End it as a power cut would, and start it again."""
        self.process.kill()
        await self.start()

    async def _answers(self) -> bool:
        healthy = (await get(f"http://{LOOPBACK}:{self._health}/healthz"))[0] == 200
        return healthy and (await get(f"https://{LOOPBACK}:{self._webhooks}/convert"))[0] != 0


@asynccontextmanager
async def managing(plane: ControlPlane, rollouts: Rollouts) -> AsyncIterator[Manager]:
    """Install it by its own kustomization, but for the Deployment, which no node here would run, and run it.

    `plane` must know `ACCOUNT`. At the end nothing of it is left, provided that no Rollout is.
    """
    built = await _kubectl(plane, "kustomize", str(rollouts.files / "config" / "default"))
    installed = yaml.safe_dump_all(one for one in documents(built) if one["kind"] != "Deployment")
    await _kubectl(plane, "apply", "--server-side", "-f", "-", stdin=installed)
    with tempfile.TemporaryDirectory(prefix="kruise-rollouts-") as certificates:
        manager = Manager(plane, rollouts, Path(certificates))
        try:
            await manager.start()
            yield manager
        finally:
            manager.process.kill()
            await _kubectl(plane, "delete", "--wait=false", "-f", "-", stdin=installed)


async def _kubectl(plane: ControlPlane, *words: str, stdin: str | None = None) -> str:
    done = await plane.run_kubectl(*words, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout
