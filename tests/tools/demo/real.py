"""The real control plane, with the CRD, and the controller's rights as `manifests/` grants them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from controller.kube.config import load
from controller.kube.transport import open_transport
from tests.beds.control_plane import Binaries, ControlPlane, service_account
from tests.tools.demo.bed import DemoCluster, Writes

MANIFESTS = Path(__file__).resolve().parents[3] / "manifests"
RIGHTS = MANIFESTS / "components" / "cluster-scope"
CONTROLLER = service_account("kruise-ds-system", "kruise-ds-controller")
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class SetUpFailed(Exception):
    """kubectl could not install something; the message is its own."""


@asynccontextmanager
async def real_plane(binaries: Binaries, *, audit: bool) -> AsyncIterator[tuple[ControlPlane, DemoCluster]]:
    """A control plane with everything installed but no nodes; `audit` where writes are to be counted."""
    async with ControlPlane(binaries, scheduler=True, users=[CONTROLLER], audit=audit) as plane:
        await _kubectl(plane, "apply", "--server-side", "-k", str(MANIFESTS / "crds"))
        await _kubectl(plane, "wait", "--for=condition=Established", "crd/daemonsets.apps.kruise.io")
        for rights in ("clusterrole.yaml", "clusterrolebinding.yaml"):
            await _kubectl(plane, "apply", "-f", str(RIGHTS / rights))
        for base in ("namespace.yaml", "leader-election.yaml"):
            await _kubectl(plane, "apply", "-f", str(MANIFESTS / "base" / base), "--namespace=kruise-ds-system")
        async with open_transport(await load(str(plane.kubeconfig), None)) as transport:
            yield (
                plane,
                DemoCluster(
                    title=f"Kubernetes {binaries.version}",
                    transport=transport,
                    folder=plane.folder,
                    controller_kubeconfig=plane.kubeconfig_for(CONTROLLER),
                    kubeconfig=plane.kubeconfig,
                    has_scheduler=plane.runs_scheduler,
                    controller_writes=lambda: _writes_in(plane.audit_path),
                ),
            )


@asynccontextmanager
async def real_bed(binaries: Binaries) -> AsyncIterator[DemoCluster]:
    """The bed for the story: as `real_plane`, with the controller's writes counted."""
    async with real_plane(binaries, audit=True) as (_, bed):
        yield bed


async def _kubectl(plane: ControlPlane, *args: str) -> None:
    result = await plane.run_kubectl(*args)
    if result.returncode:
        raise SetUpFailed(f"kubectl {' '.join(args)}: {result.stderr.strip()}")


def _writes_in(audit: Path) -> Writes:
    """What the audit log says about the controller."""
    answers: list[tuple[str, int]] = []
    with open(audit) as lines:
        for event in (json.loads(line) for line in lines if line.endswith("\n")):  # others' lines still come
            mine = event["user"]["username"] == CONTROLLER.name and event["verb"] in WRITES
            if not mine or "dryRun=All" in event["requestURI"]:
                continue
            about = event["objectRef"]
            group, sub = about.get("apiGroup", ""), about.get("subresource", "")
            resource = about["resource"] + (f".{group}" if group else "") + (f"/{sub}" if sub else "")
            answers.append((f"{event['verb']} {resource}", event["responseStatus"]["code"]))
    return Writes.of(answers)
