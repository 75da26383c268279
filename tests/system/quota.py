"""A namespace that admits only so many pods, or no more revisions, on both beds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.beds.api import Object, Resource
from tests.beds.controller.bed import Bed
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.kinds import PODS, REVISIONS
from tests.beds.simulator.refusal import forbidden

RESOURCE_QUOTAS = Resource("/api/v1", "resourcequotas", "ResourceQuota")
QUOTA = "/api/v1/namespaces/{namespace}/resourcequotas"


async def limit_pods(bed: Bed, count: int) -> None:
    """No more than that many pods in the namespace, ever; on the real server by a quota, whose usage we count."""
    if bed.simulation is not None:
        made: list[str] = []

        def admit(attempt: Attempt) -> None:
            if attempt.kind is PODS and attempt.verb == "create":
                if len(made) >= count:
                    raise forbidden(PODS, attempt.name, "exceeded quota: pods")
                made.append(attempt.name)

        bed.simulation.cluster.admission.append(admit)
        return
    path = QUOTA.format(namespace=bed.api.namespace)
    quota = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": str(count)}}}
    await bed.api.send("POST", path, {"apiVersion": "v1", "kind": "ResourceQuota", **quota})
    status = {"status": {"hard": {"pods": str(count)}, "used": {"pods": "0"}}}
    await bed.api.send("PATCH", f"{path}/pods/status", status, "application/merge-patch+json")


@asynccontextmanager
async def no_more_revisions(bed: Bed) -> AsyncIterator[None]:
    """While the block runs a quota of objects refuses every new ControllerRevision; on the real server we count."""
    if bed.simulation is not None:

        def admit(attempt: Attempt) -> None:
            if attempt.kind is REVISIONS and attempt.verb == "create":
                raise forbidden(REVISIONS, attempt.name, "exceeded quota: revisions")

        bed.simulation.cluster.admission.append(admit)
        yield
        bed.simulation.cluster.admission.remove(admit)
        return
    path, hard = QUOTA.format(namespace=bed.api.namespace), {"count/controllerrevisions.apps": "1"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "revisions"}, "spec": {"hard": hard}}
    await bed.api.send("POST", path, quota)
    status = {"status": {"hard": hard, "used": hard}}
    await bed.api.send("PATCH", f"{path}/revisions/status", status, "application/merge-patch+json")
    yield
    await bed.api.send("DELETE", f"{path}/revisions")


@asynccontextmanager
async def full_quota(bed: Bed, count: int) -> AsyncIterator[None]:
    """No more than that many pods at a time, while the block runs; on the real server its own controller counts."""
    if bed.simulation is not None:
        cluster = bed.simulation.cluster

        def admit(attempt: Attempt) -> None:
            new = attempt.kind is PODS and attempt.verb == "create"
            if new and len(cluster.store.objects[PODS]) >= count:
                raise forbidden(PODS, attempt.name, "exceeded quota: pods")

        cluster.admission.append(admit)
        yield
        cluster.admission.remove(admit)
        return
    assert bed.plane is not None
    controller = await bed.plane.start_controller_manager(["resourcequota-controller"], name="quota-controller")
    try:
        path = QUOTA.format(namespace=bed.api.namespace)
        quota = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": str(count)}}}
        await bed.api.send("POST", path, {"apiVersion": "v1", "kind": "ResourceQuota", **quota})
        there = len(await bed.pods())
        await bed.until(RESOURCE_QUOTAS, lambda found: "" if is_counted(found, there) else f"{found}", "pods counted")
        yield
        await bed.api.send("DELETE", f"{path}/pods")
    finally:
        await controller.stop()


def is_counted(found: list[Object], count: int) -> bool:
    return [(one.get("status") or {}).get("used") for one in found] == [{"pods": str(count)}]


async def lift_limit(bed: Bed) -> None:
    if bed.simulation is not None:
        bed.simulation.cluster.admission.clear()
    else:
        await bed.api.send("DELETE", f"{QUOTA.format(namespace=bed.api.namespace)}/pods")
