"""A namespace that admits only so many pods, on both beds."""

from __future__ import annotations

from tests.simulator.cluster import Attempt
from tests.simulator.kinds import PODS
from tests.simulator.refusal import forbidden
from tests.system.bed import Bed

QUOTA = "/api/v1/namespaces/{namespace}/resourcequotas"


async def limit_pods(bed: Bed, count: int) -> None:
    """No more than that many pods in the namespace, ever; on the real server by a quota, whose usage we count."""
    if bed.simulation is not None:
        made = []

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


async def lift_limit(bed: Bed) -> None:
    if bed.simulation is not None:
        bed.simulation.cluster.admission.clear()
    else:
        await bed.api.send("DELETE", f"{QUOTA.format(namespace=bed.api.namespace)}/pods")
