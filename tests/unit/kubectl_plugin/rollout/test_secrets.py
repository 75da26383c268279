"""Which fields are marked, which values are shown, and what stands for the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import pytest
from kubernetes_asyncio.client import models

from controller.api.objects import JSON, JSONObject, fields_of, value_at
from kubectl_plugin.rollout.diff import object_change_lines
from kubectl_plugin.rollout.secrets import MARKED, is_hidden, is_image, is_marked, without_secrets

_Path: TypeAlias = tuple[str, ...]
_REFERS: Final = re.compile(r"(?:list\[|dict\(str, )?(V\d\w+)[\])]?")

UNMARKED: Final[Mapping[str, str]] = {
    "V1Affinity": "nodeAffinity podAffinity podAntiAffinity",
    "V1ClusterTrustBundleProjection": "labelSelector name optional path signerName",
    "V1ConfigMapEnvSource": "name optional",
    "V1ConfigMapKeySelector": "key name optional",
    "V1ConfigMapProjection": "items name optional",
    "V1ConfigMapVolumeSource": "defaultMode items name optional",
    "V1Container": """
        args command env envFrom imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy
        resources restartPolicy restartPolicyRules startupProbe stdin stdinOnce terminationMessagePath
        terminationMessagePolicy tty volumeMounts workingDir
    """,
    "V1ContainerPort": "containerPort hostIP name protocol",
    "V1ContainerResizePolicy": "resourceName restartPolicy",
    "V1ContainerRestartRule": "action exitCodes",
    "V1ContainerRestartRuleOnExitCodes": "operator values",
    "V1DownwardAPIProjection": "items",
    "V1DownwardAPIVolumeFile": "fieldRef mode path resourceFieldRef",
    "V1DownwardAPIVolumeSource": "defaultMode items",
    "V1EmptyDirVolumeSource": "medium sizeLimit",
    "V1EnvFromSource": "configMapRef prefix secretRef",
    "V1EnvVar": "name value valueFrom",
    "V1EnvVarSource": "configMapKeyRef fieldRef fileKeyRef resourceFieldRef secretKeyRef",
    "V1EphemeralVolumeSource": "volumeClaimTemplate",
    "V1ExecAction": "command",
    "V1FileKeySelector": "key optional path volumeName",
    "V1GRPCAction": "port service",
    "V1HTTPGetAction": "httpHeaders path port scheme",
    "V1HTTPHeader": "name value",
    "V1HostAlias": "hostnames ip",
    "V1ImageVolumeSource": "pullPolicy",
    "V1KeyToPath": "key mode path",
    "V1LabelSelector": "matchExpressions matchLabels",
    "V1LabelSelectorRequirement": "key operator values",
    "V1Lifecycle": "postStart preStop stopSignal",
    "V1LifecycleHandler": "exec httpGet sleep tcpSocket",
    "V1LocalObjectReference": "name",
    "V1ManagedFieldsEntry": "apiVersion fieldsType fieldsV1 manager operation subresource time",
    "V1NodeAffinity": """
        preferredDuringSchedulingIgnoredDuringExecution requiredDuringSchedulingIgnoredDuringExecution
    """,
    "V1NodeSelector": "nodeSelectorTerms",
    "V1NodeSelectorRequirement": "key operator values",
    "V1NodeSelectorTerm": "matchExpressions matchFields",
    "V1ObjectFieldSelector": "apiVersion fieldPath",
    "V1ObjectMeta": """
        annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation
        labels managedFields name namespace ownerReferences resourceVersion selfLink uid
    """,
    "V1OwnerReference": "apiVersion blockOwnerDeletion controller kind name uid",
    "V1PersistentVolumeClaimSpec": """
        accessModes dataSource dataSourceRef resources selector storageClassName volumeAttributesClassName volumeMode
        volumeName
    """,
    "V1PersistentVolumeClaimTemplate": "metadata spec",
    "V1PersistentVolumeClaimVolumeSource": "claimName readOnly",
    "V1PodAffinity": """
        preferredDuringSchedulingIgnoredDuringExecution requiredDuringSchedulingIgnoredDuringExecution
    """,
    "V1PodAffinityTerm": "labelSelector matchLabelKeys mismatchLabelKeys namespaceSelector namespaces topologyKey",
    "V1PodAntiAffinity": """
        preferredDuringSchedulingIgnoredDuringExecution requiredDuringSchedulingIgnoredDuringExecution
    """,
    "V1PodDNSConfig": "nameservers options searches",
    "V1PodDNSConfigOption": "name value",
    "V1PodOS": "name",
    "V1PodReadinessGate": "conditionType",
    "V1PodResourceClaim": "name resourceClaimName resourceClaimTemplateName",
    "V1PodSchedulingGate": "name",
    "V1PodSchedulingGroup": "podGroupName",
    "V1PodSpec": """
        activeDeadlineSeconds affinity containers dnsConfig dnsPolicy enableServiceLinks hostAliases hostname
        hostnameOverride imagePullSecrets initContainers nodeName nodeSelector os overhead preemptionPolicy priority
        priorityClassName readinessGates resourceClaims resources restartPolicy schedulerName schedulingGates
        schedulingGroup setHostnameAsFQDN subdomain terminationGracePeriodSeconds tolerations
        topologySpreadConstraints volumes
    """,
    "V1PodTemplateSpec": "metadata spec",
    "V1PreferredSchedulingTerm": "preference weight",
    "V1Probe": """
        exec failureThreshold grpc httpGet initialDelaySeconds periodSeconds successThreshold tcpSocket
        terminationGracePeriodSeconds timeoutSeconds
    """,
    "V1ProjectedVolumeSource": "defaultMode sources",
    "V1ResourceFieldSelector": "containerName divisor resource",
    "V1ResourceRequirements": "claims limits requests",
    "V1SecretEnvSource": "name optional",
    "V1SecretKeySelector": "key name optional",
    "V1SecretProjection": "items name optional",
    "V1SecretVolumeSource": "defaultMode items optional secretName",
    "V1SleepAction": "seconds",
    "V1TCPSocketAction": "port",
    "V1Toleration": "effect key operator tolerationSeconds value",
    "V1TopologySpreadConstraint": """
        labelSelector matchLabelKeys maxSkew minDomains nodeAffinityPolicy nodeTaintsPolicy topologyKey
        whenUnsatisfiable
    """,
    "V1TypedLocalObjectReference": "apiGroup kind name",
    "V1TypedObjectReference": "apiGroup kind name namespace",
    "V1Volume": "configMap downwardAPI emptyDir ephemeral image name persistentVolumeClaim projected secret",
    "V1VolumeMount": "mountPath name readOnly recursiveReadOnly subPath subPathExpr",
    "V1VolumeProjection": "clusterTrustBundle configMap downwardAPI secret",
    "V1VolumeResourceRequirements": "limits requests",
    "V1WeightedPodAffinityTerm": "podAffinityTerm weight",
}
"""By the type that has them: fields that neither give a pod a right or an identity nor say where its code comes from.
"""


def fields_of_templates(kind: str, at: _Path, met: set[str]) -> Iterator[tuple[str, _Path]]:
    """Each type with each of its fields, as the OpenAPI document of Kubernetes has them; nothing within what is
    marked."""
    if kind in met:
        return
    met.add(kind)
    described = getattr(models, kind)
    for attribute, described_type in described.openapi_types.items():
        path = (*at, described.attribute_map[attribute])
        yield kind, path
        if not is_marked(path) and (inner := _REFERS.fullmatch(described_type)):
            yield from fields_of_templates(inner[1], path, met)


def test_each_field_is_marked_or_known_not_to_matter() -> None:
    found = [*fields_of_templates("V1PodTemplateSpec", ("spec", "template"), set())]
    unmarked = {(kind, path[-1]) for kind, path in found if not (is_marked(path) or is_image(path))}
    assert unmarked == {(kind, field) for kind, fields in UNMARKED.items() for field in fields.split()}
    names = {name for _, path in found for name in (path[-1], ".".join(path[-2:]))}
    assert {one for one in MARKED if one not in names} == {one for one in MARKED if one.endswith("kubernetes.io")}


def marks(spec: JSONObject, annotations: JSONObject | None = None) -> set[str]:
    """The marked lines where a template with `spec` is written in place of an empty one, without their marks."""
    old: JSONObject = {"spec": {"template": {}}}
    new: JSONObject = {"spec": {"template": {"metadata": {"annotations": annotations or {}}, "spec": spec}}}
    lines = object_change_lines(old, new)
    return {line[1:].partition("  # ")[0].strip(" -") for line in lines if "# security" in line}


@pytest.mark.parametrize(
    ("spec", "marked"),
    [
        ({"shareProcessNamespace": True, "hostname": "a"}, {"shareProcessNamespace: true"}),
        ({"containers": [{"name": "a", "ports": [{"hostPort": 1, "name": "b"}]}]}, {"hostPort: 1"}),
        ({"containers": [{"name": "a", "securityContext": {}}]}, {"securityContext: {}"}),
        (
            {"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "x"}}]}}]},
            {"path: x"},
        ),
        ({"volumes": [{"name": "t", "csi": {"driver": "x"}}]}, {"driver: x"}),
        ({"volumes": [{"name": "t", "image": {"reference": "x"}}]}, {"reference: x"}),
        ({"containers": [{"name": "a", "livenessProbe": {"httpGet": {"host": ""}}}]}, {"host: ''"}),
        ({"nodeSelector": {"image": "x", "reference": "y"}}, set()),
    ],
)
def test_what_is_marked(spec: JSONObject, marked: set[str]) -> None:
    assert marks(spec) == marked


def test_annotations_that_loosen_a_profile_are_marked() -> None:
    profile: JSONObject = {"container.apparmor.security.beta.kubernetes.io/agent": "unconfined", "other": "x"}
    assert marks({}, profile) == {"container.apparmor.security.beta.kubernetes.io/agent: unconfined"}


@pytest.mark.parametrize(
    ("old", "new", "is_known"),
    [
        ("agent:1", "docker.io/library/agent:2", True),
        ("agent:1", "agent@sha256:00", True),
        ("registry:5000/team/agent", "registry:5000/team/agent:1", True),
        ("agent:1", "evil/agent:1", False),
        ("team/agent:1", "TEAM/agent:1", False),
        ("registry.corp/team/agent:1", "registry.corp/evil/agent:1", False),
        ("registry.corp/agent:1", "evil.example/agent:1", False),
    ],
)
def test_an_image_of_another_registry_or_owner_is_marked(old: str, new: str, is_known: bool) -> None:
    def of(image: str) -> JSONObject:
        return {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": image}]}}}}

    mark = "" if is_known else "  # security: registry"
    assert object_change_lines(of(old), of(new))[1:] == (f"-  image: {old}", f"+  image: {new}{mark}")


SECRET = "s3cret"
HIDDEN = "<hidden, 6 characters, digest 1c1a>"


def container(**fields: Any) -> JSONObject:
    return {"spec": {"containers": [{"name": "agent", **fields}]}}


def leaves(value: JSON) -> list[JSON]:
    if isinstance(value, dict | list):
        return [leaf for one in (value.values() if isinstance(value, dict) else value) for leaf in leaves(one)]
    return [value]


@pytest.mark.parametrize(
    "template",
    [
        container(image="registry.example.com/agent:1.9", imagePullPolicy="Always", ports=[{"containerPort": 80}]),
        container(resources={"limits": {"cpu": "100m", "example.com/gpu": 1}, "claims": [{"name": "gpu"}]}),
        container(env=[{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "api"}}}]),
        container(env=[{"name": "TOKEN", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}}]),
        container(envFrom=[{"prefix": "A_", "secretRef": {"name": "tokens", "optional": True}}]),
        container(volumeMounts=[{"name": "certs", "mountPath": "/etc/certs", "subPath": "tls", "readOnly": True}]),
        container(securityContext={"privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}, "runAsUser": 0}),
        container(readinessProbe={"httpGet": {"port": "health", "scheme": "HTTPS"}, "periodSeconds": 5}),
        {
            "spec": {
                "hostNetwork": True,
                "hostPID": False,
                "serviceAccountName": "agent",
                "nodeSelector": {"a/b": "c"},
            }
        },
        {"spec": {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.53"], "searches": ["example.com"]}}},
        {"spec": {"tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}]}},
        {"spec": {"volumes": [{"name": "root", "hostPath": {"path": "/", "type": "Directory"}}]}},
        {"spec": {"volumes": [{"name": "s", "secret": {"secretName": "x", "items": [{"key": "k", "path": "p"}]}}]}},
        {"spec": {"volumes": [{"name": "model", "image": {"reference": "r/m:1", "pullPolicy": "Never"}}]}},
        {"metadata": {"labels": {"app": "agent", "other/label": "x"}, "finalizers": ["example.com/last"]}},
        {"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": "30%"}}}},
        {"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}},
    ],
)
def test_fields_that_cannot_hold_a_secret_are_shown(template: JSONObject) -> None:
    assert without_secrets(template)[0] == template


@pytest.mark.parametrize(
    "template",
    [
        container(args=["-c", "redis-cli -a s3cret"], command=[SECRET]),
        container(args=SECRET, env=[SECRET], ports=SECRET, envFrom={"a": SECRET}, image={"a": SECRET}),
        container(env=[{"name": "LEVEL", "value": SECRET}, {"name": "B", "values": [SECRET], "other": SECRET}]),
        container(livenessProbe={"exec": {"command": [SECRET]}, "httpGet": {"path": SECRET, "host": SECRET}}),
        container(lifecycle={"preStop": {"httpGet": {"httpHeaders": [{"name": "Date", "value": SECRET}]}}}),
        container(workingDir=SECRET, terminationMessagePath=SECRET, unknown={"image": SECRET, "name": [SECRET]}),
        {"metadata": {"annotations": {"a": SECRET, "name": SECRET, "labels": {"image": SECRET}}}},
        {"metadata": {"labels": {"labels": {"a": SECRET}}, "managedFields": [{"name": SECRET}]}},
        {"spec": {"volumes": [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"name": SECRET}}}]}},
        {"spec": {"volumes": [{"name": "v", "iscsi": {"name": SECRET}, "flexVolume": {"driver": SECRET}}]}},
        {"spec": {"dnsConfig": {"options": [{"name": SECRET}]}, "password": SECRET, "value": SECRET}},
        {"name2": SECRET, "key": SECRET, "data": {"name": SECRET}},
    ],
)
def test_values_of_all_other_fields_are_hidden(template: JSONObject) -> None:
    shown = without_secrets(template)[0]
    assert SECRET not in str(shown)
    assert any(map(is_hidden, leaves(shown)))


def test_numbers_and_switches_of_other_fields_are_hidden_as_well() -> None:
    given = container(env=[{"name": "PIN", "value": 1234}], args=[True, 1.5])
    assert [one for one in leaves(without_secrets(given)[0]) if not is_hidden(one)] == ["agent", "PIN"]


def test_nothing_is_hidden_where_nothing_is() -> None:
    given = container(args=["", None], env=[], command={})
    assert without_secrets(given)[0] == given


def test_form_and_names_of_fields_remain() -> None:
    given: JSONObject = {"metadata": {"annotations": {"a": [{"b": SECRET}, {}]}}}
    assert without_secrets(given)[0] == {"metadata": {"annotations": {"a": [{"b": HIDDEN}, {}]}}}


def test_what_stands_for_a_value_tells_it_from_others() -> None:
    (given,) = without_secrets({"metadata": {"annotations": {"a": "1", "b": "2", "c": 1, "d": "1", "e": "äöü"}}})
    a, b, c, d, e = fields_of(value_at(given, "metadata", "annotations")).values()
    assert (a, str(a)[:24]) == (d, "<hidden, 1 character, di")
    assert len({str(one) for one in (a, b, c)}) == 3
    assert str(e).startswith("<hidden, 3 characters, ")


def test_digests_are_longer_where_they_would_be_the_same() -> None:
    """The first four digits of the two values are the same, wherever they stand."""
    sides = without_secrets(container(args=["k10091", SECRET]), container(env=[{"name": "A", "value": "k10362"}]))
    hidden = [str(one).partition("digest ")[2] for side in sides for one in leaves(side) if is_hidden(one)]
    assert hidden == ["f4216>", "1c1a>", "f4213>"]


def test_annotations_of_ours_and_of_security_are_shown() -> None:
    notes: JSONObject = {
        "kruise-ds/steps": "22,16,8,0",
        "apps.kruise.io/image-predownload-parallelism": "5",
        "daemonset.kruise.io/progressive-create-pod": "true",
        "container.apparmor.security.beta.kubernetes.io/agent": "unconfined",
    }
    given: JSONObject = {"metadata": {"annotations": notes}}
    assert without_secrets(given) == (given,)
