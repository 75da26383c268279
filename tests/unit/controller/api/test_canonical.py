"""When two templates are the same, and above all: when they are not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from controller.api.objects import JSON
from controller.api.template_identity import MOST_VALUES, canonical, identity
from tests.beds import templates

Change = Callable[[dict[str, Any]], None]

HAND_WRITTEN = """\
metadata: {labels: {app: demo}}
spec:
  containers:
  - name: main
    image: registry.example:5000/demo:1.2
    env:
    - {name: A, value: "1"}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
    ports: [{containerPort: 8080}]
    resources: {limits: {cpu: 1000m, memory: 128Mi}}
    readinessProbe: {httpGet: {port: 8080}}
    livenessProbe: {grpc: {port: 8081}}
    volumeMounts: [{name: config, mountPath: /config}]
  initContainers:
  - {name: prepare, image: demo}
  volumes:
  - {name: config, configMap: {name: demo}}
  - name: scratch
  - {name: token, projected: {sources: [{serviceAccountToken: {path: token}}]}}
  - {name: host, hostPath: {path: /}}
  topologySpreadConstraints: [{maxSkew: 1, labelSelector: {}}]
"""
DEFAULTED = """\
metadata: {labels: {app: demo}, creationTimestamp: null, annotations: {}}
spec:
  containers:
  - name: main
    image: registry.example:5000/demo:1.2
    imagePullPolicy: IfNotPresent
    env:
    - {name: A, value: "1"}
    - {name: NODE, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: spec.nodeName}}}
    - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: "0"}}}
    ports: [{containerPort: 8080, protocol: TCP}]
    resources: {limits: {cpu: "1", memory: 128Mi}}
    readinessProbe:
      httpGet: {path: /, port: 8080, scheme: HTTP}
      timeoutSeconds: 1
      periodSeconds: 10
      successThreshold: 1
      failureThreshold: 3
    livenessProbe:
      grpc: {port: 8081, service: ""}
      timeoutSeconds: 1
      periodSeconds: 10
      successThreshold: 1
      failureThreshold: 3
    volumeMounts: [{name: config, mountPath: /config, readOnly: false}]
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
    securityContext: {}
  initContainers:
  - name: prepare
    image: demo
    imagePullPolicy: Always
    resources: {}
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
  volumes:
  - {name: config, configMap: {name: demo, defaultMode: 420}}
  - {name: scratch, emptyDir: {}}
  - name: token
    projected:
      defaultMode: 420
      sources: [{serviceAccountToken: {path: token, expirationSeconds: 3600}}]
  - {name: host, hostPath: {path: /, type: ""}}
  topologySpreadConstraints: [{maxSkew: 1, labelSelector: {}}]
  restartPolicy: Always
  terminationGracePeriodSeconds: 30
  dnsPolicy: ClusterFirst
  schedulerName: default-scheduler
  securityContext: {}
  serviceAccount: default
  serviceAccountName: default
  enableServiceLinks: true
  hostNetwork: false
$patch: replace
"""
"""The same as the API server stores it for a native DaemonSet."""


def hand_written() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(HAND_WRITTEN)
    return found


def defaulted() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(DEFAULTED)
    return found


def test_hand_written_and_defaulted_mean_the_same() -> None:
    assert canonical(defaulted()) == canonical(hand_written())
    assert identity(defaulted()) == identity(hand_written())


def test_what_an_api_server_stores_means_what_was_written() -> None:
    """Of every kind of volume, probe, handler and port; tests/contract asks the real server for it."""
    sent, answer = templates.given("written"), templates.stored("written")
    assert canonical(answer) == canonical(templates.known_part(sent, answer))
    assert canonical(templates.stored("zeros")) == canonical(templates.given("zeros"))


def test_the_order_of_fields_does_not_matter_that_of_containers_does() -> None:
    turned = hand_written()
    turned["spec"] = dict(reversed(turned["spec"].items()))
    assert identity(turned) == identity(hand_written())
    two: Any = {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}
    assert identity(two) != identity({"spec": {"containers": two["spec"]["containers"][::-1]}})


def test_the_template_itself_is_left_alone() -> None:
    before = defaulted()
    kept = copy.deepcopy(before)
    identity(before)
    assert before == kept


SAME: dict[str, tuple[Any, Any]] = {
    "null": ({"hostUsers": None}, {}),
    "empty string": ({"subdomain": ""}, {}),
    "empty map": ({"securityContext": {}}, {}),
    "empty list": ({"tolerations": []}, {}),
    "nested empties": ({"affinity": {"nodeAffinity": {"preferred": []}}}, {}),
    "stray patch": ({"$patch": "replace", "dnsPolicy": "None"}, {"dnsPolicy": "None"}),
    "service account twin": (
        {"serviceAccountName": "net", "serviceAccount": "net"},
        {"serviceAccountName": "net"},
    ),
    "the deprecated name of a service account": ({"serviceAccount": "net"}, {"serviceAccountName": "net"}),
    "an overruled service account": (
        {"serviceAccountName": "net", "serviceAccount": "other"},
        {"serviceAccountName": "net"},
    ),
    "host port 0": (
        {"containers": [{"ports": [{"containerPort": 1, "hostPort": 0}]}]},
        {"containers": [{"ports": [{"containerPort": 1}]}]},
    ),
    "quantity": (
        {"volumes": [{"emptyDir": {"sizeLimit": "1Gi"}}]},
        {"volumes": [{"emptyDir": {"sizeLimit": "1024Mi"}}]},
    ),
    "numeric quantity": (
        {"containers": [{"resources": {"requests": {"cpu": 1}}}]},
        {"containers": [{"resources": {"requests": {"cpu": "1000m"}}}]},
    ),
    "divisor": (
        {"valueFrom": {"resourceFieldRef": {"divisor": "1M"}}},
        {"valueFrom": {"resourceFieldRef": {"divisor": "1000k"}}},
    ),
    "digest is pulled if not present": (
        {"containers": [{"image": "demo@sha256:00", "imagePullPolicy": "IfNotPresent"}]},
        {"containers": [{"image": "demo@sha256:00"}]},
    ),
    "latest is pulled always, with a digest too": (
        {"containers": [{"image": "demo:latest@sha256:00", "imagePullPolicy": "Always"}]},
        {"containers": [{"image": "demo:latest@sha256:00"}]},
    ),
    "a port of the registry is no tag": (
        {"containers": [{"image": "registry.example:5000/demo", "imagePullPolicy": "Always"}]},
        {"containers": [{"image": "registry.example:5000/demo"}]},
    ),
    "the host port of a pod on the host network, as older servers fill it in": (
        {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]},
        {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}]}]},
    ),
    "numbers of a probe that are 0": (
        {"containers": [{"readinessProbe": {"initialDelaySeconds": 0, "periodSeconds": 0}}]},
        {"containers": [{"readinessProbe": {"periodSeconds": 10}}]},
    ),
    "overhead": ({"overhead": {"cpu": "1000m"}}, {"overhead": {"cpu": 1}}),
    "less than a thousandth": (
        {"containers": [{"resources": {"limits": {"cpu": "100u"}}}]},
        {"containers": [{"resources": {"limits": {"cpu": "1m"}}}]},
    ),
    "the days of a pod certificate": (
        {"volumes": [{"projected": {"sources": [{"podCertificate": {"maxExpirationSeconds": 86400}}]}}]},
        {"volumes": [{"projected": {"sources": [{"podCertificate": {}}]}}]},
    ),
    "null among labels": ({"nodeSelector": {"os": "linux", "x": None}}, {"nodeSelector": {"os": "linux"}}),
    "null among quantities": (
        {"containers": [{"resources": {"limits": {"cpu": None, "memory": "1"}}}]},
        {"containers": [{"resources": {"limits": {"memory": "1"}}}]},
    ),
}


@pytest.mark.parametrize("rule", SAME)
def test_rule(rule: str) -> None:
    one, other = SAME[rule]
    assert identity({"spec": one}) == identity({"spec": other})


DIFFERENT: dict[str, tuple[Any, Any]] = {
    "image": ({"containers": [{"image": "demo:1"}]}, {"containers": [{"image": "demo:2"}]}),
    "env value": (
        {"containers": [{"env": [{"name": "A", "value": "1"}]}]},
        {"containers": [{"env": [{"name": "A", "value": "2"}]}]},
    ),
    "env order": (
        {"containers": [{"env": [{"name": "A"}, {"name": "B"}]}]},
        {"containers": [{"env": [{"name": "B"}, {"name": "A"}]}]},
    ),
    "port": (
        {"containers": [{"ports": [{"containerPort": 80}]}]},
        {"containers": [{"ports": [{"containerPort": 81}]}]},
    ),
    "host port": (
        {"containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]},
        {"containers": [{"ports": [{"containerPort": 80}]}]},
    ),
    "protocol": (
        {"containers": [{"ports": [{"containerPort": 80, "protocol": "UDP"}]}]},
        {"containers": [{"ports": [{"containerPort": 80}]}]},
    ),
    "no token": ({"automountServiceAccountToken": False}, {}),
    "no service links": ({"enableServiceLinks": False}, {}),
    "no host users": ({"hostUsers": False}, {}),
    "host network": ({"hostNetwork": True}, {}),
    "read-only root, said to be off": (
        {"containers": [{"securityContext": {"readOnlyRootFilesystem": False}}]},
        {"containers": [{}]},
    ),
    "read-only root": (
        {"containers": [{"securityContext": {"readOnlyRootFilesystem": True}}]},
        {"containers": [{"securityContext": {"readOnlyRootFilesystem": False}}]},
    ),
    "run as root allowed": (
        {"containers": [{"securityContext": {"allowPrivilegeEscalation": False}}]},
        {"containers": [{"securityContext": {}}]},
    ),
    "user 0": ({"securityContext": {"runAsUser": 0}}, {"securityContext": {}}),
    "optional": ({"volumes": [{"secret": {"optional": True}}]}, {"volumes": [{"secret": {}}]}),
    "read-only mount": (
        {"containers": [{"volumeMounts": [{"readOnly": True}]}]},
        {"containers": [{"volumeMounts": [{}]}]},
    ),
    "sidecar": ({"initContainers": [{"name": "a", "restartPolicy": "Always"}]}, {"initContainers": [{"name": "a"}]}),
    "grace of a probe": (
        {"containers": [{"livenessProbe": {"terminationGracePeriodSeconds": 30}}]},
        {"containers": [{"livenessProbe": {"periodSeconds": 10}}]},
    ),
    "grace of the pod": ({"terminationGracePeriodSeconds": 31}, {}),
    "pull policy": (
        {"containers": [{"image": "demo:1", "imagePullPolicy": "Always"}]},
        {"containers": [{"image": "demo:1"}]},
    ),
    "never pulled": (
        {"containers": [{"image": "demo", "imagePullPolicy": "Never"}]},
        {"containers": [{"image": "demo"}]},
    ),
    "empty selector selects everything": (
        {"topologySpreadConstraints": [{"labelSelector": {}}]},
        {"topologySpreadConstraints": [{}]},
    ),
    "no storage class": (
        {"volumes": [{"ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": ""}}}}]},
        {"volumes": [{"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]},
    ),
    "a label without text": ({"nodeSelector": {"edge": ""}}, {"nodeSelector": {}}),
    "a label called like a default": ({"nodeSelector": {"protocol": "TCP"}}, {"nodeSelector": {}}),
    "1 is not true": ({"hostNetwork": 1}, {"hostNetwork": True}),
    "0 is not false": ({"hostNetwork": 0}, {}),
    "quantity": (
        {"containers": [{"resources": {"limits": {"memory": "1Gi"}}}]},
        {"containers": [{"resources": {"limits": {"memory": "1G"}}}]},
    ),
    "a new field": ({"fieldOfTheYear2040": 1}, {}),
    "path outside a probe": ({"volumes": [{"hostPath": {"path": "/"}}]}, {"volumes": [{"hostPath": {}}]}),
    "another service account": ({"serviceAccountName": "net"}, {}),
    "an attribute of a CSI volume": (
        {"volumes": [{"csi": {"driver": "d", "volumeAttributes": {"protocol": "TCP"}}}]},
        {"volumes": [{"csi": {"driver": "d", "volumeAttributes": {}}}]},
    ),
    "an empty option of a flexVolume": (
        {"volumes": [{"flexVolume": {"driver": "d", "options": {"share": ""}}}]},
        {"volumes": [{"flexVolume": {"driver": "d", "options": {}}}]},
    ),
    "another host port on the host network": (
        {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80, "hostPort": 81}]}]},
        {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}]}]},
    ),
    "the default of another volume": (
        {"volumes": [{"cinder": {"fsType": "ext4"}}]},
        {"volumes": [{"cinder": {}}]},
    ),
    "the user of another volume": ({"volumes": [{"cephfs": {"user": "admin"}}]}, {"volumes": [{"cephfs": {}}]}),
    "a managed disk": ({"volumes": [{"azureDisk": {"kind": "Managed"}}]}, {"volumes": [{"azureDisk": {}}]}),
    "the policy of an image volume": (
        {"volumes": [{"image": {"reference": "data", "pullPolicy": "IfNotPresent"}}]},
        {"volumes": [{"image": {"reference": "data"}}]},
    ),
    "optional, said to be off": (
        {"containers": [{"env": [{"valueFrom": {"secretKeyRef": {"optional": False}}}]}]},
        {"containers": [{"env": [{"valueFrom": {"secretKeyRef": {}}}]}]},
    ),
    "a sleep of no seconds": (
        {"containers": [{"lifecycle": {"preStop": {"sleep": {"seconds": 0}}}}]},
        {"containers": [{"lifecycle": {"preStop": {"sleep": {}}}}]},
    ),
    "args": ({"containers": [{"args": ["a", ""]}]}, {"containers": [{"args": ["a"]}]}),
}


@pytest.mark.parametrize("change", DIFFERENT)
def test_a_real_change_is_not_lost(change: str) -> None:
    one, other = DIFFERENT[change]
    assert identity({"spec": one}) != identity({"spec": other})


def test_annotations_and_labels_of_the_pod_are_part_of_it() -> None:
    assert identity({"metadata": {"annotations": {"restartedAt": "1"}}}) != identity({"metadata": {}})
    assert identity({"metadata": {"labels": {"a": ""}}}) != identity({"metadata": {}})


@pytest.mark.parametrize(
    "values", [[1] * MOST_VALUES, [{}] * MOST_VALUES, {f"k{number}": 1 for number in range(MOST_VALUES)}]
)
def test_a_template_of_more_values_than_anybody_needs_is_refused(values: JSON) -> None:
    with pytest.raises(ValueError, match="more than 20,000 values"):
        identity({"spec": {"anything": values}})


def test_a_long_text_counts_as_one_value() -> None:
    assert identity({"spec": {"anything": "x" * 1_500_000}})
