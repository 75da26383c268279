"""The kinds that a simulated cluster knows. A test may add rows."""

from __future__ import annotations

import msgspec

from tests.beds.simulator.objects import Cause, Kind, Object, immutable, label_causes, required
from tests.beds.simulator.pods import complete_pod, fill_pod, pod_rules


def _complete_daemonset(daemonset: Object) -> None:
    """The defaults of manifests/crds."""
    spec = daemonset.setdefault("spec", {})
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    filled_in = {"rollingUpdateType": "Standard", "partition": 0}
    strategy["rollingUpdate"] = {**filled_in, **(strategy.get("rollingUpdate") or {})}
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("burstReplicas", 250)
    spec.setdefault("minReadySeconds", 0)


def _daemonset_rules(daemonset: Object, _old: Object | None) -> list[Cause]:
    spec = daemonset.get("spec") or {}
    missing = [required(f"spec.{field}") for field in ("selector", "template") if field not in spec]
    return label_causes(daemonset) + missing


def _revision_rules(revision: Object, old: Object | None) -> list[Cause]:
    causes = [] if "data" in revision else [required("data", "data is mandatory")]
    if old is not None and revision.get("data") != old.get("data"):
        causes.append(immutable("data", msgspec.json.encode(revision.get("data")).decode()))
    return causes


def _event_rules(event: Object, _old: Object | None) -> list[Cause]:
    namespace = (event.get("involvedObject") or {}).get("namespace") or ""
    if namespace == event["metadata"]["namespace"] or not namespace:
        return []
    words = f'Invalid value: "{namespace}": does not match event.namespace'
    return [Cause("involvedObject.namespace", "FieldValueInvalid", words)]


def _complete_node(node: Object) -> None:
    node.setdefault("spec", {})
    node.setdefault("status", {})


def _complete_namespace(namespace: Object) -> None:
    namespace["spec"] = {"finalizers": ["kubernetes"]}
    namespace["status"] = {"phase": "Active"}
    labels = namespace["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = namespace["metadata"].get("name", "")


PODS = Kind(
    "",
    ("v1",),
    "pods",
    "Pod",
    short_names=("po",),
    status=True,
    generation=True,
    graceful=True,
    answers_with_deleted=True,
    defaults=complete_pod,
    fills=fill_pod,
    rules=pod_rules,
)
NODES = Kind(
    "",
    ("v1",),
    "nodes",
    "Node",
    namespaced=False,
    short_names=("no",),
    status=True,
    defaults=_complete_node,
    rules=lambda new, _: label_causes(new),
)
NAMESPACES = Kind(
    "",
    ("v1",),
    "namespaces",
    "Namespace",
    namespaced=False,
    short_names=("ns",),
    status=True,
    defaults=_complete_namespace,
)
CONFIGMAPS = Kind("", ("v1",), "configmaps", "ConfigMap", short_names=("cm",), rules=lambda new, _: label_causes(new))
SERVICE_ACCOUNTS = Kind("", ("v1",), "serviceaccounts", "ServiceAccount", short_names=("sa",))
EVENTS = Kind("", ("v1",), "events", "Event", short_names=("ev",), create_on_update=True, rules=_event_rules)
REVISIONS = Kind("apps", ("v1",), "controllerrevisions", "ControllerRevision", rules=_revision_rules)
LEASES = Kind("coordination.k8s.io", ("v1",), "leases", "Lease", unconditional_update=False, create_on_update=True)
DAEMONSETS = Kind(
    "apps.kruise.io",
    ("v1beta1", "v1alpha1"),
    "daemonsets",
    "DaemonSet",
    short_names=("daemon", "ads"),
    custom=True,
    status=True,
    generation=True,
    unconditional_update=False,
    defaults=_complete_daemonset,
    rules=_daemonset_rules,
)
NATIVE_DAEMONSETS = Kind(
    "apps",
    ("v1",),
    "daemonsets",
    "DaemonSet",
    short_names=("ds",),
    status=True,
    generation=True,
    rules=_daemonset_rules,
)
"""No controller acts for them."""
IMAGE_PULL_JOBS = Kind(
    "apps.kruise.io",
    ("v1beta1", "v1alpha1"),
    "imagepulljobs",
    "ImagePullJob",
    custom=True,
    status=True,
    generation=True,
    unconditional_update=False,
    rules=lambda new, _: [] if (new.get("spec") or {}).get("image") else [required("spec.image")],
)

KINDS = (
    PODS,
    NODES,
    NAMESPACES,
    CONFIGMAPS,
    SERVICE_ACCOUNTS,
    EVENTS,
    REVISIONS,
    LEASES,
    DAEMONSETS,
    NATIVE_DAEMONSETS,
    IMAGE_PULL_JOBS,
)
