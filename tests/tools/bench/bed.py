"""One API server with kwok nodes, and what has to be done between two measurements on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.beds.control_plane import Binaries, ControlPlane, User
from tests.beds.kwok import kwok_nodes
from tests.tools.bench import manifests
from tests.tools.bench.api import Api, api_for
from tests.tools.bench.audit import AuditLog
from tests.tools.bench.pod_watch import PodWatch, watching

ROOT = Path(__file__).resolve().parents[3]
NAMESPACE = "bench"
NATIVE, OPENKRUISE, OURS, SCRIPT = (
    User(name, ("system:masters",)) for name in ("native", "openkruise", "ours", "script")
)
"""Masters all: neither RBAC nor priority and fairness treats one of them better."""

_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@dataclass(frozen=True, slots=True)
class BenchCluster:
    """Ready nodes, an empty namespace `NAMESPACE`, and an eye on its pods."""

    plane: ControlPlane
    nodes: int
    script: Api
    pods: PodWatch
    audit: AuditLog

    @property
    def patience(self) -> float:
        """Seconds that whatever all pods have part in may take."""
        return max(300.0, self.nodes / 8)

    async def until(self, condition: Callable[[], bool], *, what: str) -> None:
        await self.pods.until(condition, what=what, seconds=self.patience)

    async def clean(self) -> None:
        """Empty the namespace again; no controller may be running."""
        groups = ("/apis/apps.kruise.io/v1beta1", "/apis/apps/v1")
        for group in groups:
            await self.script.delete(f"{group}/namespaces/{NAMESPACE}/daemonsets", propagationPolicy="Background")
        await self.script.delete_all((f"{_PODS}/{name}" for name in list(self.pods.pods)), gracePeriodSeconds=0)
        await self.script.delete(f"/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions")
        await self.until(lambda: not self.pods.pods, what="without pods")
        await self.settle()

    async def settle(self) -> None:
        """Let the API server, the scheduler and kwok come to rest."""
        await asyncio.sleep(1.0)


@asynccontextmanager
async def bed(binaries: Binaries, kwok: Path, nodes: int) -> AsyncIterator[BenchCluster]:
    users = (NATIVE, OPENKRUISE, OURS, SCRIPT)
    async with (
        ControlPlane(binaries, scheduler=True, audit=True, users=users) as plane,
        kwok_nodes(plane, kwok),
        api_for(plane, SCRIPT) as script,
    ):
        await install(plane)
        await script.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        await script.create_all("/api/v1/nodes", map(manifests.node, range(nodes)))
        await _all_ready(script, nodes)
        async with watching(script, NAMESPACE) as pods:
            yield BenchCluster(plane, nodes, script, pods, AuditLog(plane.audit_path))


async def install(plane: ControlPlane) -> None:
    """Our kind, ready to be used."""
    for args in (
        ("apply", "--server-side", "-k", str(ROOT / "manifests" / "crds")),
        ("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"),
    ):
        result = await plane.run_kubectl(*args)
        if result.returncode:
            raise RuntimeError(f"kubectl {' '.join(args)}: {result.stderr}")


async def _all_ready(script: Api, nodes: int) -> None:
    async with asyncio.timeout(max(300.0, nodes / 8)):
        while await _ready_nodes(script) < nodes:  # nothing here sees it
            await asyncio.sleep(max(0.5, nodes / 2000))


async def _ready_nodes(script: Api) -> int:
    items = (await script.get("/api/v1/nodes"))["items"]
    conditions = [node.get("status", {}).get("conditions", ()) for node in items]
    return sum(any(it["type"] == "Ready" and it["status"] == "True" for it in one) for one in conditions)
