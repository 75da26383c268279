"""The pod that is created: the template, aimed at one node, owned by its DaemonSet.

The body is encoded once per revision; each node's name and pod name are put between the ready bytes: a thousand pods
cost a thousand concatenations, not a thousand deep copies.
"""

from __future__ import annotations

from typing import cast

import msgspec

from controller.api.base import JSON, JSONObject, as_bytes, fields_of, items_of
from controller.api.daemonset import DaemonSet
from controller.api.revision import Revision, short_hash
from controller.api.wellknown import API_VERSION, HASH_LABEL, IN_PLACE_UPDATE_READY, KIND, KRUISE_POD_READY
from controller.planner.eligibility import daemon_tolerations
from controller.planner.world import Predecessor

_HOLE = b"\0"
"""Nothing else that is encoded can hold this byte: in a string it is escaped."""
_MAX_BASE = 54
"""Characters of the DaemonSet's name that go into a pod's name, so that the whole still is a host name (63)."""


def pod_name(daemonset: DaemonSet, node: str, seen: tuple[str, ...], before: Predecessor | None) -> str:
    """`<daemonset>-<8 characters>`, derived from what is on the node: `seen` are the uids of our pods there now.

    The same node in the same state gives the same name, so a create that is repeated because its answer was lost is
    refused as AlreadyExists, also when the template has changed in between; once a pod was seen there, or has gone,
    the next one is called otherwise.
    """
    last = before.uid if before else ""
    suffix = short_hash(daemonset.uid, node, last, *sorted(seen), length=8)
    return f"{daemonset.name[:_MAX_BASE].rstrip('.-')}-{suffix}"


class PodRenderer:
    """Makes the bodies of all pods of one revision."""

    def __init__(self, daemonset: DaemonSet, revision: Revision) -> None:
        hole = cast("JSON", msgspec.Raw(_HOLE))  # of which JSON is made in `body`
        self._head, self._middle, self._tail = as_bytes(_body(daemonset, revision, hole)).split(_HOLE)

    def body(self, name: str, node: str) -> bytes:
        """The JSON body of the pod `name` on `node`, ready to be sent."""
        return b"".join((self._head, as_bytes(name), self._middle, as_bytes(node), self._tail))


def owner_reference(daemonset: DaemonSet) -> JSONObject:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": daemonset.name,
        "uid": daemonset.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _body(daemonset: DaemonSet, revision: Revision, hole: JSON) -> JSONObject:
    """`hole` stands for the pod's name, and after that for its node."""
    template = revision.template
    meta = fields_of(template.get("metadata"))
    metadata: JSONObject = {
        "name": hole,
        "generateName": f"{daemonset.name}-",
        "namespace": daemonset.namespace,
        "labels": {**fields_of(meta.get("labels")), HASH_LABEL: revision.hash},
        "ownerReferences": [owner_reference(daemonset)],
    }
    for field in ("annotations", "finalizers"):
        if meta.get(field):
            metadata[field] = meta[field]
    spec = fields_of(template.get("spec"))
    aimed: JSONObject = {
        **spec,
        **_gates(daemonset, spec),
        "affinity": _aim(fields_of(spec.get("affinity")), hole),
        "tolerations": _tolerations(spec),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": aimed}


def _gates(daemonset: DaemonSet, spec: JSONObject) -> JSONObject:
    """Those that we close: while an update in place restarts a container, and before a deletion if the hook asks."""
    given = items_of(spec.get("readinessGates"))
    hook = daemonset.pre_delete
    wanted = {
        IN_PLACE_UPDATE_READY: daemonset.in_place,
        KRUISE_POD_READY: hook is not None and hook.mark_pod_not_ready,
    }
    there = {gate.get("conditionType") for gate in given}
    missing: list[JSON] = [{"conditionType": one} for one, asked in wanted.items() if asked and one not in there]
    return {"readinessGates": [*given, *missing]} if missing else {}


def _aim(affinity: JSONObject, node: JSON) -> JSONObject:
    """Replace the required node affinity by one term for this node; whatever is preferred stays."""
    term: JSONObject = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required: JSONObject = {"nodeSelectorTerms": [term]}
    node_affinity = {
        **fields_of(affinity.get("nodeAffinity")),
        "requiredDuringSchedulingIgnoredDuringExecution": required,
    }
    return {**affinity, "nodeAffinity": node_affinity}


def _tolerations(spec: JSONObject) -> list[JSON]:
    own = spec.get("tolerations")
    automatic: list[JSON] = [
        {"key": toleration.key, "operator": "Exists", "effect": toleration.effect}
        for toleration in daemon_tolerations(spec.get("hostNetwork") is True)
    ]
    kept = [one for one in own if one not in automatic] if isinstance(own, list) else []
    return [*kept, *automatic]
