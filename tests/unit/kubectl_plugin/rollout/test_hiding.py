"""Which values are shown, and what stands for the others."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.objects import JSON, JSONObject, fields_of, value_at
from kubectl_plugin.rollout.secrets import is_hidden, without_secrets

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
