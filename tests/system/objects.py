"""The objects that the tests begin with."""

from __future__ import annotations

from typing import Any

from tests.kit.api import Object

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


def on_delete(name: str = "agent", **more: Any) -> Object:
    """A DaemonSet whose pods are only updated when somebody deletes them."""
    return daemonset(name, updateStrategy={"type": "OnDelete"}, **more)


def bare_pod(name: str, node: str, *, labels: Object | None = None, image: str = V1) -> Object:
    """A pod of nobody, bound to `node`; by its labels it would be one of `agent`."""
    return {
        "metadata": {"name": name, "labels": {"app": "agent"} if labels is None else labels},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "agent", "image": image}],
        },
    }


def owner(of: Object, *, version: str = "v1beta1") -> Object:
    """The reference by which this DaemonSet controls something."""
    return {
        "apiVersion": f"apps.kruise.io/{version}",
        "kind": "DaemonSet",
        "name": of["metadata"]["name"],
        "uid": of["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def requires(*terms: Object) -> Object:
    """An affinity that requires one of these node selector terms."""
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def labelled(key: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def named(*names: str) -> Object:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": list(names)}]}


def image_of(pod: Object) -> str:
    return str(pod["spec"]["containers"][0]["image"])
