"""What Argo CD says of a DaemonSet of our group by the health script that it ships, which is made for OpenKruise's.

Our own reading of that script: it looks at generation, pause, partition and counts, and at no condition. Older ones
know no deletion, and end with an error where the partition is a percentage.
https://github.com/argoproj/argo-cd/tree/master/resource_customizations/apps.kruise.io/DaemonSet
"""

from __future__ import annotations

from tests.beds.api import Object

PROGRESSING, SUSPENDED, HEALTHY, DEGRADED = "Progressing", "Suspended", "Healthy", "Degraded"


def shipped(found: Object) -> str:
    metadata, status = found["metadata"], found.get("status")
    if metadata.get("deletionTimestamp") or not status:
        return PROGRESSING
    if status.get("observedGeneration") != metadata["generation"]:
        return PROGRESSING
    rolling = found["spec"]["updateStrategy"]["rollingUpdate"]  # it is not asked whether it is there
    if rolling.get("paused") or "updatedNumberScheduled" not in status:
        return SUSPENDED
    desired, updated = status["desiredNumberScheduled"], status["updatedNumberScheduled"]
    target = _target(desired, rolling.get("partition"))
    if target != desired and metadata["generation"] > 1:
        return SUSPENDED if updated > target else PROGRESSING
    if updated == desired == status["numberAvailable"]:
        return HEALTHY
    return DEGRADED if updated == desired == status["numberUnavailable"] else PROGRESSING


def _target(desired: int, partition: int | str | None) -> float:
    """Without rounding: of 10 nodes 15 % leave 8.5."""
    if isinstance(partition, str):
        share = partition.removesuffix("%")
        return desired * (100 - int(share)) / 100 if share != partition else desired - int(share)
    return desired - (partition or 0)
