"""The bodies of pods: the template, bound to one node by affinity and owned by its DaemonSet. A body is encoded once
per revision; the names of pod and node are then inserted."""

from __future__ import annotations

import re
from typing import cast

import msgspec

from controller.api.daemonset import DaemonSet
from controller.api.formats import listed
from controller.api.names import (
    API_VERSION,
    HASH_LABEL,
    IN_PLACE_UPDATE_READY,
    KIND,
    KRUISE_POD_READY,
    UNKNOWN_FIELDS_ANNOTATION,
    unknown_fields,
)
from controller.api.objects import JSON, JSONObject, as_bytes, fields_of, items_of
from controller.api.revision import SHORT_HASH_CHARACTERS, Revision, short_hash
from controller.planner.node_fit import daemon_tolerations
from controller.planner.world import Predecessor

_NAME, _NODE = b"\0", b"\1"
"""Placeholders for the names of pod and node. JSON has these bytes only in escaped form."""
_METADATA = frozenset(
    [
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    ]
)
_POD = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_MAX_BASE = 54
"""Characters of the owner's name in the name of a pod: `-` and 8 more make at most 63, as for a host name."""


def pod_name(daemonset: DaemonSet, node: str, seen: tuple[str, ...], before: Predecessor | None) -> str:
    """`<daemonset>-<8 characters>`, from the uids `seen` on the node and the pod that was there `before`. It is the
    same until a pod is seen there or goes: a create repeated after a lost answer is refused as AlreadyExists."""
    return child_name(daemonset.name, daemonset.uid, node, before.uid if before else "", *sorted(seen))


def child_name(owner: str, *parts: str) -> str:
    """`<owner>-<8 characters>`, the same for the same parts, so that a repeated create is refused."""
    return f"{_base(owner)}-{short_hash(*parts, length=8)}"


def without_child_names(text: str, owner: str) -> str:
    """`text` with `<owner>-…` for each name that `child_name` makes, so that it is the same for all pods."""
    return re.sub(rf"\b{re.escape(_base(owner))}-[{SHORT_HASH_CHARACTERS}]{{8}}\b", f"{_base(owner)}-…", text)


def _base(owner: str) -> str:
    return owner[:_MAX_BASE].rstrip(".-")


def unknown_field_words(message: str) -> str:
    """The server's message about unknown fields of a pod, with their paths in the DaemonSet."""
    fields = listed((f"spec.template.{path}" for path in unknown_fields(message)), separator=", ")
    return f"unknown field {fields} (annotation {UNKNOWN_FIELDS_ANNOTATION}: allow makes pods without)"


class PodRenderer:
    def __init__(self, daemonset: DaemonSet, revision: Revision) -> None:
        name, node = (cast("JSON", msgspec.Raw(hole)) for hole in (_NAME, _NODE))  # replaced below
        whole = _body(daemonset, revision, name)
        spec = fields_of(whole["spec"])
        affinity, given, added = fields_of(spec.get("affinity")), *_tolerations(spec)
        aim: JSONObject = {"affinity": aimed(affinity, node), "tolerations": [*given, *added]}
        self._body = as_bytes({**whole, "spec": {**spec, **aim}})
        aim = {"affinity": _narrowed(affinity, node), "tolerations": [*items_of(spec.get("tolerations")), *added]}
        self._whole = as_bytes({**_misplaced(revision.template), **whole, "spec": {**spec, **aim}})

    def body(self, name: str, node: str) -> bytes:
        return self._body.replace(_NODE, as_bytes(node)).replace(_NAME, as_bytes(name))

    def whole(self, name: str, node: str) -> bytes:
        """`body` with every field of the template, for a dry run that finds unknown fields."""
        return self._whole.replace(_NODE, as_bytes(node)).replace(_NAME, as_bytes(name))


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
    """The body without its node; `hole` is the name of the pod. Of the known metadata only labels, annotations and
    finalizers are kept. Unknown fields are sent, so that the server reports them."""
    template = revision.template
    meta = fields_of(template.get("metadata"))
    metadata: JSONObject = {
        **{field: value for field, value in meta.items() if field not in _METADATA},
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
    body: JSONObject = {**spec, **_gates(daemonset, spec)}
    beside = {field: value for field, value in template.items() if field not in _POD}
    return {**beside, "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def _gates(daemonset: DaemonSet, spec: JSONObject) -> JSONObject:
    """The readiness gates of the template, and the controller's for updates in place and the preDelete hook."""
    given = items_of(spec.get("readinessGates"))
    hook = daemonset.pre_delete
    wanted = {
        IN_PLACE_UPDATE_READY: daemonset.in_place,
        KRUISE_POD_READY: hook is not None and hook.mark_pod_not_ready,
    }
    there = {gate.get("conditionType") for gate in given}
    missing: list[JSON] = [{"conditionType": gate} for gate, asked in wanted.items() if asked and gate not in there]
    return {"readinessGates": [*given, *missing]} if missing else {}


def aimed(affinity: JSONObject, node: JSON) -> JSONObject:
    """`affinity` with this node as its required node affinity; preferences stay."""
    term: JSONObject = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required: JSONObject = {"nodeSelectorTerms": [term]}
    return {**affinity, "nodeAffinity": {**fields_of(affinity.get("nodeAffinity")), _REQUIRED: required}}


def hides_fields(template: JSONObject) -> bool:
    """Whether pods lack fields of the template: required node affinity, replaced tolerations, or misplaced fields."""
    spec = fields_of(template.get("spec"))
    kept, _ = _tolerations(spec)
    required = fields_of(fields_of(spec.get("affinity")).get("nodeAffinity")).get(_REQUIRED)
    replaced = required is not None or len(kept) < len(items_of(spec.get("tolerations")))
    return replaced or bool(_misplaced(template))


def _misplaced(template: JSONObject) -> JSONObject:
    """Template fields that only a pod has, with a space after their names, so that the server reports them."""
    return {f"{field} ": template[field] for field in ("apiVersion", "kind", "status") if field in template}


def _narrowed(affinity: JSONObject, node: JSON) -> JSONObject:
    """`affinity` with each required term narrowed to this node."""
    aim = aimed(affinity, node)
    required = fields_of(fields_of(affinity.get("nodeAffinity")).get(_REQUIRED))
    if not required:
        return aim
    [here] = items_of(fields_of(fields_of(aim["nodeAffinity"])[_REQUIRED]).get("nodeSelectorTerms"))
    narrowed: list[JSON] = [
        {**term, "matchFields": [*items_of(term.get("matchFields")), *items_of(here["matchFields"])]}
        for term in items_of(required.get("nodeSelectorTerms"))
    ]
    both: JSONObject = {**required, "nodeSelectorTerms": narrowed or [here]}
    return {**aim, "nodeAffinity": {**fields_of(aim["nodeAffinity"]), _REQUIRED: both}}


def _tolerations(spec: JSONObject) -> tuple[list[JSON], list[JSON]]:
    """The template's tolerations that stay, and the automatic ones. As in the native controller, an automatic one
    replaces its equal, whose `tolerationSeconds` would evict the pod."""
    automatic = daemon_tolerations(spec.get("hostNetwork") is True)
    replaced = {(toleration.key, "Exists", "", toleration.effect) for toleration in automatic}
    kept = [
        toleration
        for toleration in items_of(spec.get("tolerations"))
        if (
            toleration.get("key") or "",
            toleration.get("operator"),
            toleration.get("value") or "",
            toleration.get("effect") or "",
        )
        not in replaced
    ]
    added: list[JSON] = [
        {"key": toleration.key, "operator": "Exists", "effect": toleration.effect} for toleration in automatic
    ]
    return [*kept], added
