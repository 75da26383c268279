"""Objects for tests in one line each, and questions about a pod as the server shows it."""

from __future__ import annotations

from typing import Any

from tests.beds.api import DAEMONSETS, PODS, Api, Object, Resource


def condition(found: Object, name: str) -> Object:
    """The condition of that name, empty when there is none. Also of objects of other kinds."""
    conditions: list[Object] = (found.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == name), {})


def node_of(pod: Object) -> str:
    """The node that a daemon pod is on or made for: it names it before the scheduler does. Empty when none."""
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    fields = [field for term in terms for field in term.get("matchFields") or []]
    return next((str(field["values"][0]) for field in fields if field["key"] == "metadata.name"), "")


def image_of(pod: Object) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def is_ready(pod: Object) -> bool:
    """Whether the condition Ready is True, also of a pod that is on its way out."""
    return bool(condition(pod, "Ready").get("status") == "True")


def is_live(pod: Object) -> bool:
    """Neither on its way out nor ended."""
    phase = (pod.get("status") or {}).get("phase")
    return not pod["metadata"].get("deletionTimestamp") and phase not in ("Failed", "Succeeded")


def serves(pod: Object) -> bool:
    """Live and ready."""
    return is_live(pod) and is_ready(pod)


def controller_of(found: Object) -> Object:
    """The owner reference that controls it; empty: there is none."""
    owners = found["metadata"].get("ownerReferences") or []
    return next((one for one in owners if one.get("controller")), {})


def stays(pod: Object, name: str) -> bool:
    """Whether the DaemonSet of that name controls it and it is not deleted; it may have ended."""
    owner = controller_of(pod)
    ours = owner.get("name") == name and str(owner.get("apiVersion")).startswith("apps.kruise.io/")
    return ours and not pod["metadata"].get("deletionTimestamp")


def demo(name: str = "demo", image: str = "busybox", *, resource: Resource = DAEMONSETS, **spec: Any) -> Object:
    """Listing 16.1 of the book under our group; `spec` adds fields: `updateStrategy={"type": "OnDelete"}`."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": name, "image": image, "command": ["sleep", "infinity"]}]},
            },
            **spec,
        },
    }


def pod(name: str, *, image: str = "busybox", on: str = "", aimed_at: str = "", **metadata: Any) -> Object:
    """A pod of one container. `on`: bound to that node from birth; `aimed_at`: its affinity names that node."""
    spec: Object = {"containers": [{"name": "main", "image": image}]}
    if on:
        spec["nodeName"] = on
    if aimed_at:
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": only_node(aimed_at)}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def only_node(name: str) -> Object:
    """The node selector that every daemon pod has: this node by its name and no other."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    return {"nodeSelectorTerms": [{"matchFields": fields}]}


def configmap(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": data or {},
    }


def owner(found: Object, *, controller: bool = True, block: bool = True) -> Object:
    """An owner reference to an object as the server returned it."""
    return {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "name": found["metadata"]["name"],
        "uid": found["metadata"]["uid"],
        "controller": controller,
        "blockOwnerDeletion": block,
    }


V1, V2, V3, V4 = (f"registry.example/agent:v{number}" for number in (1, 2, 3, 4))


def daemonset(
    name: str = "agent",
    *,
    image: str = V1,
    pod: Object | None = None,
    rolling: Object | None = None,
    **spec: Any,
) -> Object:
    """`pod` are more fields of the pod's spec, `rolling` those of rollingUpdate, `spec` more of the DaemonSet's."""
    labels = {"app": name}
    containers = [{"name": "agent", "image": image}]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": containers, "terminationGracePeriodSeconds": 5, **(pod or {})},
            },
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling or {"maxUnavailable": 1}},
            **spec,
        },
    }


PROBED: Object = {"containers": [{"name": "agent", "image": V1, "readinessProbe": {"httpGet": {"port": 80}}}]}
"""The same container with a readiness probe: its word that it is ready is believed at once."""


def on_delete(**more: Any) -> Object:
    """A DaemonSet whose pods are only updated when they are deleted."""
    return daemonset(updateStrategy={"type": "OnDelete"}, **more)


def bare_pod(name: str, node: str, *, labels: Object | None = None, image: str = V1) -> Object:
    """A pod without an owner, bound to `node`; by its labels it would be one of `agent`."""
    return {
        "metadata": {"name": name, "labels": {"app": "agent"} if labels is None else labels},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "agent", "image": image}],
        },
    }


def requires(*terms: Object) -> Object:
    """An affinity that requires one of these node selector terms."""
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def labelled(key: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def named(*names: str) -> Object:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": list(names)}]}


def names(found: list[Object]) -> list[str]:
    return [one["metadata"]["name"] for one in found]


NO_UID = "00000000-0000-0000-0000-000000000000"


async def garbage_collector_knows(api: Api, *resources: Resource) -> None:
    """Wait until it has seen all objects of these kinds (pods, revisions) that are there now.

    It follows each kind by a watch of its own. Of dependents that it has not seen yet when their owner goes it makes
    neither a reason to wait nor orphans. The last object of a kind has none, and is collected when seen.
    """
    nobody = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": NO_UID}
    unbound = pod("last")
    unbound["spec"]["schedulerName"] = "nobody"  # a pod that no node has goes at once
    for resource in resources:
        whole = unbound if resource is PODS else {"revision": 1, "data": {}}
        await api.create(resource, {**whole, "metadata": {"name": "last", "ownerReferences": [nobody]}})
    for resource in resources:
        await api.wait_for(
            resource,
            lambda found: all(one["metadata"]["name"] != "last" for one in found),
            f"all {resource.plural} are known",
        )
