"""Subresources of pods that are verbs: binding and eviction."""

from __future__ import annotations

import msgspec

from controller.api.objects import rfc3339
from controller.kube.requests import Request, Response
from tests.beds.simulator import refusal
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.deletion import DeleteOptions
from tests.beds.simulator.kinds import PODS
from tests.beds.simulator.objects import Object
from tests.beds.simulator.refusal import Refused
from tests.beds.simulator.route import Route
from tests.beds.simulator.updates import UpdateRequest

SUBRESOURCES = {"pods": ("binding", "eviction", "resize"), "namespaces": ("finalize",)}

_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def post(cluster: Cluster, where: Route, request: Request) -> Response:
    """Bind a pod to a node, or evict it."""
    body: Object = msgspec.json.decode(request.body)
    if where.subresource == "binding":
        _bind(cluster, where, body)
    else:
        options = body.get("deleteOptions") or {}
        uid = (options.get("preconditions") or {}).get("uid") or ""
        grace = options.get("gracePeriodSeconds")
        cluster.delete(PODS, where.namespace, where.name, DeleteOptions(uid=uid, grace=grace))
    return Response(status=201, body=msgspec.json.encode(_SUCCESS))


def _bind(cluster: Cluster, where: Route, binding: Object) -> None:
    node = binding["target"]["name"]

    def bind(pod: Object) -> Object:
        if pod["metadata"].get("deletionTimestamp"):
            raise _cannot_bind(where.name, f"pod {where.name} is being deleted, cannot be assigned to a host")
        if assigned := pod["spec"].get("nodeName"):
            raise _cannot_bind(where.name, f'pod {where.name} is already assigned to node "{assigned}"')
        pod["spec"]["nodeName"] = node
        conditions = [c for c in pod["status"].get("conditions") or [] if c["type"] != "PodScheduled"]
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(cluster.clock()),
        }
        pod["status"]["conditions"] = [*conditions, scheduled]
        return pod

    cluster.update(PODS, where.namespace, where.name, UpdateRequest(bind, subresource="binding"))


def _cannot_bind(name: str, why: str) -> Refused:
    message = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
    return Refused(409, "Conflict", message, refusal.details(PODS, name, "pods/binding"))
