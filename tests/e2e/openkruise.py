"""A cluster in which OpenKruise's own controller is in charge: its CRD, and objects as it writes them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from tests.beds.api import DAEMONSETS_ALPHA, NAMESPACES, PODS, REVISIONS, Api, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.workspace import Workspace

SYSTEM = "kruise-system"
NAME = "agent"
HASHES = {"v1": "6b4f9d7c8", "v2": "7c9bdf5d47"}
"""As its FNV hash of a Go dump makes them: nobody else can compute these."""
GATES = ("InPlaceUpdateReady", "KruisePodReady")
HELD = {"example.io/hold": "true"}
"""The labels of its preDelete hook: somebody puts them on pods; the template has neither them nor the gate."""


def crd(certificates: bytes) -> Object:
    """Two versions, the older one stored, converted by a webhook. The schema is of no matter here: all is kept."""
    anything: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}
    service = {"namespace": SYSTEM, "name": "kruise-webhook-service", "path": "/convert"}
    client = {"service": service, "caBundle": base64.b64encode(certificates).decode()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "daemonsets.apps.kruise.io"},
        "spec": {
            "group": "apps.kruise.io",
            "scope": "Namespaced",
            "names": {
                "kind": "DaemonSet",
                "listKind": "DaemonSetList",
                "plural": "daemonsets",
                "singular": "daemonset",
                "shortNames": ["daemon", "ads"],
            },
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1", "v1beta1"]},
            },
            "versions": [
                {
                    "name": name,
                    "served": True,
                    "storage": name == "v1alpha1",
                    "subresources": {"status": {}},
                    "schema": schema,
                }
                for name in ("v1alpha1", "v1beta1")
            ],
        },
    }


def manager() -> list[Object]:
    """Its Deployment, and a webhook that refuses writes when it is not there."""
    labels = {"control-plane": "controller-manager"}
    container = {"name": "manager", "image": "openkruise/kruise-manager:v1.8.0"}
    rule = {
        "apiGroups": ["apps.kruise.io"],
        "apiVersions": ["v1alpha1", "v1beta1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["daemonsets"],
    }
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "kruise-controller-manager", "namespace": SYSTEM},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "kruise-validating-webhook-configuration"},
            "webhooks": [
                {
                    "name": "vdaemonset.kb.io",
                    "clientConfig": {"service": {"namespace": SYSTEM, "name": "kruise-webhook-service"}},
                    "rules": [rule],
                    "failurePolicy": "Fail",
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                }
            ],
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "kruise-mutating-webhook-configuration"},
            "webhooks": [],
        },
    ]


def template(version: str) -> Object:
    """As its webhook stores it: `creationTimestamp: null`, empty resources, canonical quantities."""
    return {
        "metadata": {"creationTimestamp": None, "labels": {"app": NAME}},
        "spec": {
            "containers": [
                {"name": "agent", "image": f"agent:{version}", "resources": {"limits": {"cpu": "1"}}, "args": ["a<b"]}
            ],
        },
    }


def daemonset() -> Object:
    """With all the defaults that its webhook fills in."""
    rolling = {
        "rollingUpdateType": "InPlaceIfPossible",
        "maxUnavailable": 1,
        "maxSurge": 0,
        "partition": 0,
        "paused": False,
    }
    return {
        "metadata": {"name": NAME, "annotations": {"daemonset.kruise.io/progressive-create-pod": "false"}},
        "spec": {
            "selector": {"matchLabels": {"app": NAME}},
            "template": template("v2"),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "lifecycle": {"preDelete": {"labelsHandler": HELD, "markPodNotReady": True}},
            "burstReplicas": 250,
            "minReadySeconds": 0,
            "revisionHistoryLimit": 10,
        },
    }


def hand_written() -> Object:
    """What its user keeps in a file, before the webhook has filled it in and written the quantity anew."""
    limits = {"cpu": "1000m"}
    container = {"name": "agent", "image": "agent:v2", "resources": {"limits": limits}, "args": ["a<b"]}
    labels = {"app": NAME}
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "DaemonSet",
        "metadata": {"name": NAME},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def status(nodes: int) -> Object:
    """No conditions: it declares them and never writes one."""
    counts = (
        "currentNumberScheduled",
        "desiredNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    hash_ = HASHES["v2"]
    return {**dict.fromkeys(counts, nodes), "numberMisscheduled": 0, "observedGeneration": 1, "daemonSetHash": hash_}


def owner(of: Object) -> Object:
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "DaemonSet",
        "name": NAME,
        "uid": of["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def revision(of: Object, version: str, number: int) -> bytes:
    """The document as Go's encoder writes it: sorted keys, no blanks, <, > and & escaped."""
    labels = {"app": NAME, "controller-revision-hash": HASHES[version]}
    document: Any = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{NAME}-{HASHES[version]}",
            "labels": labels,
            "annotations": of["metadata"]["annotations"],
            "ownerReferences": [owner(of)],
        },
        "data": {"spec": {"template": {**template(version), "$patch": "replace"}}},
        "revision": number,
    }
    text = json.dumps(document, separators=(",", ":"), sort_keys=True)
    return text.replace("<", "\\u003c").encode()


def pod(of: Object, node: str, suffix: str) -> Object:
    """Of the current revision, with its readiness gates."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {
        "metadata": {
            "name": f"{NAME}-{suffix}",
            "generateName": f"{NAME}-",
            "labels": {
                "app": NAME,
                "controller-revision-hash": HASHES["v2"],
                "lifecycle.apps.kruise.io/state": "Normal",
            },
            "ownerReferences": [owner(of)],
        },
        "spec": {
            **template("v2")["spec"],
            "nodeName": node,
            "affinity": {"nodeAffinity": required},
            "readinessGates": [{"conditionType": gate} for gate in GATES],
        },
    }


async def in_charge(bed: Workspace, plane: ControlPlane, nodes: Sequence[str]) -> None:
    """Put all of that into the cluster: two revisions, and a ready pod of the second on each node."""
    api = bed.api
    made = await api.create(DAEMONSETS_ALPHA, daemonset())
    await api.patch(DAEMONSETS_ALPHA, NAME, {"status": status(len(nodes))}, sub="status")
    for number, version in enumerate(HASHES, 1):
        await api.send("POST", REVISIONS.path(api.namespace), revision(made, version, number))
    for number, node in enumerate(nodes):
        name = (await api.create(PODS, pod(made, node, f"x{number}zqk")))["metadata"]["name"]
        now = made["metadata"]["creationTimestamp"]
        gates = [{"type": gate, "status": "True", "lastTransitionTime": now} for gate in GATES]
        await api.patch(
            PODS,
            name,
            {"status": {"conditions": gates}},
            sub="status",
            content_type="application/strategic-merge-patch+json",
        )
    await Api(api.transport, SYSTEM).create(NAMESPACES, {"metadata": {"name": SYSTEM}})
    for document in manager():
        await bed.kubectl("create", f"--namespace={SYSTEM}", "-f", "-", stdin=json.dumps(document))
