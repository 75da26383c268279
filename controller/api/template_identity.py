"""Decides whether two pod templates mean the same (docs/design/decisions.md#the-api). `identity` ignores how a
template is written, encoded by the Go controller, or defaulted for a native DaemonSet, so that no such difference
restarts a pod. It drops null, defaults, `$patch`, and empty maps, lists and strings unless Kubernetes distinguishes
them, and normalizes quantities. Pods are still created from the template as written."""

from __future__ import annotations

import hashlib
from typing import Final

from controller.api.formats import canonical_quantity
from controller.api.names import RESTARTED_AT
from controller.api.objects import JSON, JSONObject, as_bytes, fields_of

_DEFAULTS: Final[dict[str, JSON]] = {
    # containers
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "protocol": "TCP",
    "stdin": False,
    "stdinOnce": False,
    "tty": False,
    "readOnly": False,
    "procMount": "Default",
    # probes
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
    "scheme": "HTTP",
    # volumes
    "defaultMode": 420,
    "expirationSeconds": 3600,
    "volumeMode": "Filesystem",
    # topology spread
    "nodeAffinityPolicy": "Honor",
    "nodeTaintsPolicy": "Ignore",
}
"""API server defaults (k8s.io/kubernetes pkg/apis/core/v1/defaults.go), and values that mean "not set"."""

_DEFAULTS_OF: Final[dict[str, dict[str, JSON]]] = {
    "spec": {
        "restartPolicy": "Always",  # of the pod; on an init container it makes a sidecar
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,  # of the pod; that of a probe overrides it
        "enableServiceLinks": True,
        "hostNetwork": False,
        "hostPID": False,
        "hostIPC": False,
        "serviceAccountName": "default",
        "preemptionPolicy": "PreemptLowerPriority",
    },
    "fieldRef": {"apiVersion": "v1"},
    "resourceFieldRef": {"divisor": "0"},
    "fileKeyRef": {"optional": False},
    "httpGet": {"path": "/"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Shared"},
    "iscsi": {"iscsiInterface": "default", "chapAuthDiscovery": False, "chapAuthSession": False},
    "podCertificate": {"maxExpirationSeconds": 86400},
    "rbd": {"keyring": "/etc/ceph/keyring", "pool": "rbd", "user": "admin"},
    "scaleIO": {"fsType": "xfs", "sslEnabled": False, "storageMode": "ThinProvisioned"},
}
"""Defaults by the field that holds the object, for fields whose default differs between objects."""

_ZERO_IS_UNSET: Final = {
    "ports": frozenset({"hostPort"}),
    "awsElasticBlockStore": frozenset({"partition"}),
    "gcePersistentDisk": frozenset({"partition"}),
    **dict.fromkeys(
        ("livenessProbe", "readinessProbe", "startupProbe"),
        frozenset({"initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"}),
    ),
}
"""Numbers for which the API server treats 0 as absent, by the field that holds the object."""

_MEANINGFUL_EMPTY: Final = frozenset({"labelSelector", "namespaceSelector", "selector", "storageClassName"})
"""An empty selector selects everything and a missing one nothing; an empty storage class means "none"."""

_FREE_TEXT: Final = frozenset(
    {"labels", "annotations", "nodeSelector", "matchLabels", "volumeAttributes", "options"}  # of CSI, of flexVolume
)
"""Maps with user-defined keys, to which no defaults apply."""

MOST_VALUES: Final = 20_000
"""The largest templates in use have a few thousand values; a much larger one could block the event loop."""


def identity(template: JSONObject) -> str:
    """Equal exactly for templates of the same meaning. Raises ValueError if too large, RecursionError if too deep."""
    if _counts_beyond(template, MOST_VALUES):
        raise ValueError(f"the pod template has more than {MOST_VALUES:,} values")
    meaning = canonical(template)
    return hashlib.sha256(as_bytes(meaning, ordered=True)).hexdigest()


def without_restart(template: JSONObject) -> str:
    """The identity apart from `kubectl rollout restart`."""
    metadata = fields_of(template.get("metadata"))
    notes = {key: text for key, text in fields_of(metadata.get("annotations")).items() if key != RESTARTED_AT}
    return identity({**template, "metadata": {**metadata, "annotations": notes}})


def canonical(template: JSONObject) -> JSON:
    return _object(template, "template")


def _counts_beyond(template: JSON, most: int) -> bool:
    waiting: list[JSON] = [template]
    seen = 0
    while waiting and seen <= most:
        value = waiting.pop()
        if isinstance(value, dict):
            inner = [item for key, item in value.items() if key not in _FREE_TEXT or isinstance(item, list)]
        else:
            inner = value if isinstance(value, list) else []
        seen += len(inner)
        waiting += inner
    return seen > most


def _value(value: JSON, field: str) -> JSON:
    if isinstance(value, dict):
        if field in _FREE_TEXT:
            return {key: text for key, text in value.items() if text is not None}
        if field in ("limits", "requests", "overhead"):
            return {
                key: canonical_quantity(_scalar(amount), in_millis=True)
                for key, amount in value.items()
                if amount is not None
            }
        return _object(value, field)
    if isinstance(value, list):
        return [_value(item, field) for item in value]
    if field in ("divisor", "sizeLimit"):
        return canonical_quantity(_scalar(value))
    return value


def _scalar(value: JSON) -> str | int | float:
    return value if isinstance(value, str | int | float) else str(value)


def _object(fields: JSONObject, name: str) -> JSONObject:
    result: JSONObject = {}
    for key, raw in fields.items():
        if raw is None or key == "$patch":
            continue
        if name == "spec" and key in ("containers", "initContainers") and fields.get("hostNetwork") is True:
            raw = [_on_host_network(container) for container in raw] if isinstance(raw, list) else raw
        value = _value(raw, key)
        if _is_default(key, value, fields, name):
            continue
        if value in ({}, [], "") and key not in _MEANINGFUL_EMPTY:
            continue
        result["serviceAccountName" if name == "spec" and key == "serviceAccount" else key] = value
    return result


def _on_host_network(container: JSON) -> JSON:
    """`container` without host ports equal to the container port, which every pod on the host network has."""
    if not isinstance(container, dict) or not isinstance(ports := container.get("ports"), list):
        return container
    return {**container, "ports": [_own_port(port) for port in ports]}


def _own_port(port: JSON) -> JSON:
    if not isinstance(port, dict) or port.get("hostPort") != port.get("containerPort"):
        return port
    return {key: value for key, value in port.items() if key != "hostPort"}


def _is_default(key: str, value: JSON, fields: JSONObject, name: str) -> bool:
    default = _DEFAULTS.get(key, _DEFAULTS_OF.get(name, {}).get(key))
    if type(value) is type(default) and value == default:  # 1 is not True
        return True
    if type(value) is int and value == 0 and key in _ZERO_IS_UNSET.get(name, ()):
        return True
    match key:
        case "imagePullPolicy":
            return value == default_pull_policy(fields.get("image"))
        case "pullPolicy":
            return name == "image" and value == default_pull_policy(fields.get("reference"))
        case "serviceAccount":  # the deprecated name of serviceAccountName; the server sets both
            return bool(fields.get("serviceAccountName")) or value == "default"
        case _:
            return False


def default_pull_policy(image: JSON) -> str:
    """Always for the tag `latest` or no tag, else IfNotPresent. A digest without a tag implies no tag."""
    name, _, digest = (image if isinstance(image, str) else "").partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    return "Always" if tag == "latest" or not (colon or digest) else "IfNotPresent"
