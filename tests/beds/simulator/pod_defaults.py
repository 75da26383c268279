"""What kube-apiserver fills into a pod."""

from __future__ import annotations

from typing import Any

from tests.beds.simulator.objects import Object
from tests.beds.simulator.resources import complete_resources, containers, quality_of_service

EVICTION_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def complete_pod(pod: Object) -> None:
    """What is done to a new one."""
    fill_pod(pod)
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(pod["spec"])}


def fill_pod(pod: Object) -> None:
    """Defaults of the pod API and of the admission plugins DefaultTolerationSeconds and Priority, at each write."""
    spec = pod.setdefault("spec", {})
    for container in containers(spec):
        _complete_container(container, host_network=bool(spec.get("hostNetwork")))
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("priority", 0)
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account  # the second is its former name
    tolerations = spec.setdefault("tolerations", [])
    for taint in EVICTION_TAINTS:
        if not any(_tolerates_eviction(toleration, taint) for toleration in tolerations):
            tolerations.append({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def _complete_container(container: dict[str, Any], *, host_network: bool) -> None:
    image = container.get("image") or ""
    tag = image.rpartition("/")[2].partition(":")[2]
    latest = "@" not in image and tag in ("", "latest")
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    complete_resources(container)
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")
        if host_network:
            port.setdefault("hostPort", port.get("containerPort"))


def _tolerates_eviction(toleration: dict[str, Any], taint: str) -> bool:
    return toleration.get("key", taint) in (taint, "") and toleration.get("effect", "") in ("", "NoExecute")
