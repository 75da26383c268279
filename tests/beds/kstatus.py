"""What others make of the status of a DaemonSet: kstatus, and Argo CD by the health script that it ships.

Our own reading of kstatus' published rules, in this order: an object that is being deleted is Terminating; one whose
generation is not the observed one is InProgress; then the first of Reconciling (InProgress) and Stalled (Failed) that
is True; then Ready, True is Current and anything else InProgress; an object that says nothing counts as Current.
https://pkg.go.dev/sigs.k8s.io/cli-utils/pkg/kstatus

And of the script, which is made for OpenKruise: it looks at generation, pause, partition and counts, and at no
condition. It takes a partition for a number and ends with an error where that is a percentage. Argo CD asks no script
about an object that is being deleted.
https://github.com/argoproj/argo-cd/tree/master/resource_customizations/apps.kruise.io/DaemonSet

tests/system/test_gitops.py compares both with the programs.
"""

from __future__ import annotations

from tests.beds.api import Object

CURRENT, IN_PROGRESS, FAILED, TERMINATING = "Current", "InProgress", "Failed", "Terminating"

READ_AS = {
    "Pending": IN_PROGRESS,
    "Progressing": IN_PROGRESS,
    "Soaking": IN_PROGRESS,
    "AwaitingApproval": CURRENT,
    "Held": CURRENT,
    "Paused": CURRENT,
    "Aborted": FAILED,
    "Stalled": FAILED,
    "Manual": CURRENT,
    "Degraded": IN_PROGRESS,
    "Healthy": CURRENT,
    "Terminating": TERMINATING,
}
"""What docs/conditions.md promises for each phase."""


def kstatus(found: Object) -> str:
    metadata, status = found["metadata"], found.get("status") or {}
    if metadata.get("deletionTimestamp"):
        return TERMINATING
    if status.get("observedGeneration", metadata["generation"]) != metadata["generation"]:
        return IN_PROGRESS
    conditions: list[Object] = status.get("conditions") or []
    for one in conditions:
        verdict = {"Reconciling": IN_PROGRESS, "Stalled": FAILED}.get(one["type"])
        if verdict and one["status"] == "True":
            return verdict
    ready = next((one for one in conditions if one["type"] == "Ready"), None)
    return CURRENT if ready is None or ready["status"] == "True" else IN_PROGRESS


def waited_for(found: Object, kind: str, status: str = "True") -> bool:
    """Whether `kubectl wait --for=condition=<kind>=<status>` returns now.

    It takes no condition that is about an older generation, and goes on waiting for one that is not there.
    """
    conditions: list[Object] = (found.get("status") or {}).get("conditions") or []
    one = next((one for one in conditions if one["type"] == kind), None)
    if one is None:
        return False
    observed: int = one.get("observedGeneration", found["status"].get("observedGeneration", 0))
    return observed >= found["metadata"]["generation"] and bool(one["status"] == status)


PROGRESSING, SUSPENDED, HEALTHY, DEGRADED = "Progressing", "Suspended", "Healthy", "Degraded"
UNKNOWN = "Unknown"


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
    partition = rolling.get("partition") or 0
    if partition != 0 and metadata["generation"] > 1:
        if isinstance(partition, str):
            return UNKNOWN
        return SUSPENDED if updated > desired - partition else PROGRESSING
    if updated == desired == status["numberAvailable"]:
        return HEALTHY
    return DEGRADED if updated == desired == status["numberUnavailable"] else PROGRESSING
