"""From OpenKruise's controller to ours by the commands of docs/upgrade.md: its objects stay as they are."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.beds.api import CRDS, DAEMONSETS_ALPHA, NAMESPACES, PODS, REVISIONS, Api, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.sources import Unavailable
from tests.beds.fixtures import not_to_be_had
from tests.beds.installed.workspace import Workspace
from tests.beds.objects import is_ready
from tests.beds.openkruise import published_crd
from tests.e2e.site import Site, site_on

pytestmark = pytest.mark.real

NODES = ("mon", "tue", "wed")
SYSTEM = "kruise-system"
NAME = "agent"
HASHES = {"v1": "6b4f9d7c8", "v2": "7c9bdf5d47"}
"""As its FNV hash of a Go dump makes them: no other program can compute these."""
GATES = ("InPlaceUpdateReady", "KruisePodReady")
HELD = {"example.io/hold": "true"}
"""The labels of its preDelete hook: another client puts them on pods; the template has neither them nor the gate."""


def crd(certificates: bytes) -> Object:
    """Two versions, the older one stored, converted by a webhook. The schema is of no matter here: all is kept."""
    anything: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}
    service = {"namespace": SYSTEM, "name": "kruise-webhook-service", "path": "/convert"}
    client = {"service": service, "caBundle": base64.b64encode(certificates).decode()}
    names = {"kind": "DaemonSet", "plural": "daemonsets", "singular": "daemonset", "shortNames": ["daemon", "ads"]}
    versions = [
        {"name": name, "served": True, "storage": stored, "subresources": {"status": {}}, "schema": schema}
        for name, stored in (("v1alpha1", True), ("v1beta1", False))
    ]
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1", "v1beta1"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "daemonsets.apps.kruise.io"},
        "spec": {
            "group": "apps.kruise.io",
            "scope": "Namespaced",
            "names": names,
            "conversion": {"strategy": "Webhook", "webhook": webhook},
            "versions": versions,
        },
    }


def manager() -> list[Object]:
    """Its Deployment, and a webhook that refuses writes when it is not there."""
    labels = {"control-plane": "controller-manager"}
    container = {"name": "manager", "image": "openkruise/kruise-manager:v1.8.0"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    webhook = {
        "name": "vdaemonset.kb.io",
        "clientConfig": {"service": {"namespace": SYSTEM, "name": "kruise-webhook-service"}},
        "rules": [
            {
                "apiGroups": ["apps.kruise.io"],
                "apiVersions": ["v1alpha1", "v1beta1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["daemonsets"],
            }
        ],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "kruise-controller-manager", "namespace": SYSTEM},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
        },
        *(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": f"{kind}WebhookConfiguration",
                "metadata": {"name": f"kruise-{kind.lower()}-webhook-configuration"},
                "webhooks": webhooks,
            }
            for kind, webhooks in (("Validating", [webhook]), ("Mutating", []))
        ),
    ]


def template(version: str) -> Object:
    """As its webhook stores it: `creationTimestamp: null`, empty resources, canonical quantities."""
    limits = {"limits": {"cpu": "1"}}
    container = {"name": "agent", "image": f"agent:{version}", "resources": limits, "args": ["a<b"]}
    return {"metadata": {"creationTimestamp": None, "labels": {"app": NAME}}, "spec": {"containers": [container]}}


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
    container = {"name": "agent", "image": "agent:v2", "resources": {"limits": {"cpu": "1000m"}}, "args": ["a<b"]}
    labels = {"app": NAME}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "DaemonSet",
        "metadata": {"name": NAME},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def status(nodes: int) -> Object:
    """No conditions: it declares them and never writes one."""
    scheduled = ("currentNumberScheduled", "desiredNumberScheduled", "updatedNumberScheduled")
    counts = dict.fromkeys((*scheduled, "numberReady", "numberAvailable"), nodes)
    return {**counts, "numberMisscheduled": 0, "observedGeneration": 1, "daemonSetHash": HASHES["v2"]}


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
        merge = "application/strategic-merge-patch+json"
        await api.patch(PODS, name, {"status": {"conditions": gates}}, sub="status", content_type=merge)
    await Api(api.transport, SYSTEM).create(NAMESPACES, {"metadata": {"name": SYSTEM}})
    for document in manager():
        await bed.kubectl("create", f"--namespace={SYSTEM}", "-f", "-", stdin=json.dumps(document))


def is_prepared(pod: Object) -> bool:
    """Held before its deletion, and out of its traffic."""
    state = pod["metadata"]["labels"].get("lifecycle.apps.kruise.io/state")
    return state == "PreparingDelete" and not is_ready(pod)


async def theirs_installed(site: Site, theirs: Object) -> None:
    """Their CRD instead of ours, as applied by another client."""
    await site.sh("kubectl annotate --overwrite crd daemonsets.apps.kruise.io kruise-ds/allow-delete=true")
    await site.sh("kubectl delete -k manifests/crds")
    await site.bed.kubectl("create", "-f", "-", stdin=json.dumps(theirs))
    await site.bed.kubectl("wait", "--for=condition=Established", "crd/daemonsets.apps.kruise.io")
    await site.new_kinds_are_seen()


@pytest.fixture(params=["published", "two-versions"])
def theirs(request: pytest.FixtureRequest, site_plane: ControlPlane) -> Object:
    """The CRD of a release, and one as of another release: it serves two versions, and converts by a webhook."""
    if request.param == "two-versions":
        return crd(site_plane.ca_path.read_bytes())
    try:
        return published_crd()
    except Unavailable as reason:
        not_to_be_had(reason)


async def test_pods_and_history_of_openkruise_are_taken_over_as_they_are(
    site_plane: ControlPlane, theirs: Object
) -> None:
    async with site_on(site_plane) as site:
        bed = site.bed
        await theirs_installed(site, theirs)
        await site.workers(*NODES)
        await in_charge(bed, site_plane, NODES)
        held = (await bed.serves(*NODES))["mon"]["metadata"]["name"]
        await bed.kubectl("label", "pod", held, *(f"{key}={value}" for key, value in HELD.items()))
        before = await site.pods()
        revisions = await bed.api.list(REVISIONS)

        listed = await site.follow("Hand-over")
        assert NAME in listed
        await bed.progressing("RolloutComplete", NAME)  # OpenKruise counts alike, but has no conditions
        seen = await bed.settled(len(NODES), NAME)
        assert await site.pods() == before, "no pod was touched"
        assert await bed.api.list(REVISIONS) == revisions, "and no revision"
        assert seen["updateRevision"] == seen["daemonSetHash"] == HASHES["v2"]
        stored = await bed.api.get(CRDS, "daemonsets.apps.kruise.io")
        assert stored["status"]["storedVersions"] == ["v1alpha1", "v1beta1"]
        assert (await bed.api.get(DAEMONSETS_ALPHA, NAME))["apiVersion"] == "apps.kruise.io/v1alpha1", "still served"

        await bed.apply(hand_written())
        await bed.settled(len(NODES), NAME)
        assert await site.pods() == before, "the same template in the form that its user wrote"

        await site.sh(f"kubectl kruise-ds rollback {NAME} --to-revision 1 -y -n {bed.namespace}")
        after = await bed.serves(*NODES, labels={"controller-revision-hash": HASHES["v1"]})
        assert {pod["spec"]["containers"][0]["image"] for pod in after.values()} == {"agent:v1"}
        await bed.settled(len(NODES), NAME)
        numbers = {one["metadata"]["name"]: one["revision"] for one in await bed.api.list(REVISIONS)}
        assert numbers == {f"{NAME}-{HASHES['v1']}": 3, f"{NAME}-{HASHES['v2']}": 2}, "theirs, renumbered, no new one"

        anew = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 7}}}}
        await bed.kubectl("patch", "ads", NAME, "--type=merge", f"-p={json.dumps(anew)}")
        await bed.api.wait_for(PODS, lambda pods: any(map(is_prepared, pods)), "a pod that its hook holds")
        await bed.kubectl("label", "pod", held, *(f"{key}-" for key in HELD))
        await bed.settled(len(NODES), NAME)
        assert not {*(await site.pods()).values()} & {*before.values()}, "new pods everywhere"
        await bed.kubectl("delete", "namespace", SYSTEM)
